"""Size and materialization of a merge's source, to decide whether the kernel or Spark joins it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.spark.session.settings import ROW_OPERATIONS_SOURCE_BYTES

__all__ = [
    "DEFAULT_SOURCE_BYTES",
    "checkpointed",
    "collected",
    "is_deterministic",
    "number_of_parts",
]

DEFAULT_SOURCE_BYTES = 256 << 20
_MAX_ROWS = 1_000_000
"""Maximum number of rows to collect from a source of unknown size."""
_BYTES_PER_PART = 32 << 20
"""Bytes in memory; files are smaller."""
_UNKNOWN_SIZE = (1 << 63) - 1
"""Spark's estimate for rows of unknown size, such as those of an RDD."""


def collected(spark: Any, source: Any) -> pa.Table | None:
    """Collect the rows of a source; None if they are too large to broadcast.

    Spark's size estimate decides. Without an estimate (Python lists, a stream's micro-batch), rows
    are collected up to the limit plus one row.

    Args:
        spark: a classic session.
    """
    limit = _limit(spark)
    if not _may_be_small(source, limit):
        return None
    if _is_estimated(source, limit):
        rows: pa.Table = source.toArrow()
        return rows
    max_rows = _max_rows(source, limit)
    rows = source.limit(max_rows + 1).toArrow()
    return None if rows.num_rows > max_rows or rows.nbytes > limit else rows


def checkpointed(spark: Any, source: Any) -> Any:
    """Checkpoint a small source locally, so that its rows don't change; None if it is too large.

    Args:
        spark: a classic session.
    """
    limit = _limit(spark)
    if not _may_be_small(source, limit):
        return None
    if _is_estimated(source, limit):
        return source.localCheckpoint()
    max_rows = _max_rows(source, limit)
    head = source.limit(max_rows + 1).localCheckpoint()
    return None if head.count() > max_rows else head


def is_deterministic(source: Any) -> bool:
    """Whether Spark considers a source deterministic.

    Args:
        source: a DataFrame of a classic session.
    """
    plan = source._jdf.queryExecution().analyzed()  # noqa: SLF001  # no public API
    return bool(plan.deterministic())


def number_of_parts(source: Any, max_parts: int) -> int:
    """Number of parts in which to write a source's rows without creating small files.

    Args:
        source: a DataFrame of a classic session.
        max_parts: maximum number of parts; also used if the size is unknown.
    """
    return max(1, min(max_parts, _size(_optimized_plan(source)) // _BYTES_PER_PART))


def _limit(spark: Any) -> int:
    limit = ROW_OPERATIONS_SOURCE_BYTES.integer(spark=spark)
    return DEFAULT_SOURCE_BYTES if limit is None else limit


def _is_estimated(source: Any, limit: int) -> bool:
    """Whether Spark estimates that a source is small."""
    return _size(_optimized_plan(source)) <= limit


def _may_be_small(source: Any, limit: int) -> bool:
    """Whether a source is estimated to be small, or has an input of unknown size."""
    if limit == 0:
        return False
    plan = _optimized_plan(source)
    if _size(plan) <= limit:
        return True
    leaves = plan.collectLeaves()
    return any(_size(leaves.apply(number)) >= _UNKNOWN_SIZE for number in range(leaves.size()))


def _optimized_plan(source: Any) -> Any:
    return source._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # no public API


def _size(plan: Any) -> int:
    return int(str(plan.stats().sizeInBytes()))


def _max_rows(source: Any, limit: int) -> int:
    """Number of source rows that take about `limit` bytes, by Spark's default row size."""
    size = int(source._jdf.schema().defaultSize())  # noqa: SLF001  # no public API
    return max(1, min(_MAX_ROWS, limit // max(1, size)))
