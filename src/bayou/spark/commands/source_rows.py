"""The source of a merge, looked at before it is decided who joins it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.spark.session.settings import ROW_OPERATIONS_SOURCE_BYTES

__all__ = ["DEFAULT_SOURCE_BYTES", "collected", "is_steady", "materialized", "parts_of"]

DEFAULT_SOURCE_BYTES = 256 << 20
_MOST_ROWS = 1_000_000
"""Rows that are collected at most where nobody knows how many there are: each partition is asked
for so many."""
_BYTES_A_PART = 32 << 20
"""In memory; a file takes less."""
_UNKNOWN = (1 << 63) - 1
"""What Spark takes for the size of rows that it knows nothing about, such as those of an RDD."""


def collected(spark: Any, source: Any) -> pa.Table | None:
    """All rows of a source; None where they are too much to be sent around.

    Spark's estimate decides. Where it has none (lists of Python, a stream's micro-batch) so many
    rows are collected as would be enough, and one more.

    Args:
        spark: a classic session.
    """
    limit = _limit(spark)
    if not _may_be_small(source, limit):
        return None
    if _is_estimated(source, limit):
        rows: pa.Table = source.toArrow()
        return rows
    most = _most_rows(source, limit)
    rows = source.limit(most + 1).toArrow()
    return None if rows.num_rows > most or rows.nbytes > limit else rows


def materialized(spark: Any, source: Any) -> Any:
    """A source with the same columns whose rows are there, and stay as they are.

    None where they are too much to be kept beside the join.

    Args:
        spark: a classic session.
    """
    limit = _limit(spark)
    if not _may_be_small(source, limit):
        return None
    if _is_estimated(source, limit):
        return source.localCheckpoint()
    most = _most_rows(source, limit)
    head = source.limit(most + 1).localCheckpoint()
    return None if head.count() > most else head


def is_steady(source: Any) -> bool:
    """Whether a source has the same rows whenever it is computed, as far as Spark knows.

    Args:
        source: of a classic session.
    """
    plan = source._jdf.queryExecution().analyzed()  # noqa: SLF001  # published nowhere
    return bool(plan.deterministic())


def parts_of(source: Any, most: int) -> int:
    """In how many parts rows of a source are written, so that files aren't small.

    Args:
        source: of a classic session.
        most: also where Spark doesn't know how large it is.
    """
    return max(1, min(most, _size(_optimized(source)) // _BYTES_A_PART))


def _limit(spark: Any) -> int:
    limit = ROW_OPERATIONS_SOURCE_BYTES.integer(spark=spark)
    return DEFAULT_SOURCE_BYTES if limit is None else limit


def _is_estimated(source: Any, limit: int) -> bool:
    """Whether Spark says that a source is small."""
    return _size(_optimized(source)) <= limit


def _may_be_small(source: Any, limit: int) -> bool:
    """Whether a source is small, or has rows in it of which Spark knows nothing."""
    if limit == 0:
        return False
    plan = _optimized(source)
    if _size(plan) <= limit:
        return True
    leaves = plan.collectLeaves()
    return any(_size(leaves.apply(number)) >= _UNKNOWN for number in range(leaves.size()))


def _optimized(source: Any) -> Any:
    return source._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # published nowhere


def _size(plan: Any) -> int:
    return int(str(plan.stats().sizeInBytes()))


def _most_rows(source: Any, limit: int) -> int:
    """Rows of a source that take about so many bytes, by what Spark takes for a row's size."""
    size = int(source._jdf.schema().defaultSize())  # noqa: SLF001  # as above
    return max(1, min(_MOST_ROWS, limit // max(1, size)))
