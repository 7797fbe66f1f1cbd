"""Collects a small merge source in the driver, or stores its rows with `localCheckpoint`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.spark.jvm.plans import default_row_bytes, leaf_bytes, plan_bytes
from bayou.spark.session.settings import ROW_OPERATIONS_SOURCE_BYTES

DEFAULT_SOURCE_BYTES = 256 << 20
_MAX_ROWS = 1_000_000
"""Maximum number of rows to collect from a source of unknown size."""
_BYTES_PER_PART = 32 << 20
"""Target size in memory of the rows that a task writes. The written files are smaller."""
_UNKNOWN_SIZE = (1 << 63) - 1
"""Spark's size estimate for a plan of unknown size, for example the rows of an RDD."""


def collect_small_source(spark: Any, source: Any) -> pa.Table | None:
    """Collect the rows of a source; return None if the rows are too large to broadcast.

    Spark's estimate of the size decides. If Spark has no estimate (Python lists, a stream's
    micro-batch), the function collects rows up to a limit, and returns None if the source has more
    rows.
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


def checkpoint_small_source(spark: Any, source: Any) -> Any:
    """Store a small source with `localCheckpoint`; return None if the source is large."""
    limit = _limit(spark)
    if not _may_be_small(source, limit):
        return None
    if _is_estimated(source, limit):
        return source.localCheckpoint()
    max_rows = _max_rows(source, limit)
    rows = source.limit(max_rows + 1).localCheckpoint()
    return None if rows.count() > max_rows else rows


def number_of_parts(source: Any, max_parts: int) -> int:
    """Return the number of tasks for writing a source's rows, so that the files aren't too small.

    The result is `max_parts` if Spark doesn't know the size of the source.
    """
    return max(1, min(max_parts, plan_bytes(source) // _BYTES_PER_PART))


def _limit(spark: Any) -> int:
    return ROW_OPERATIONS_SOURCE_BYTES.integer(spark=spark, default=DEFAULT_SOURCE_BYTES)


def _is_estimated(source: Any, limit: int) -> bool:
    return plan_bytes(source) <= limit


def _may_be_small(source: Any, limit: int) -> bool:
    """Whether a source is estimated to be small, or has an input of unknown size."""
    if limit == 0:
        return False
    return plan_bytes(source) <= limit or any(size >= _UNKNOWN_SIZE for size in leaf_bytes(source))


def _max_rows(source: Any, limit: int) -> int:
    """Return the maximum number of source rows to collect, so that they have about `limit` bytes.

    The size of a row is estimated from Spark's default size of each column type.
    """
    return max(1, min(_MAX_ROWS, limit // max(1, default_row_bytes(source))))
