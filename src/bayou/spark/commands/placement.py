"""Where a row operation's work is done: in the driver's process, or on executors."""

from __future__ import annotations

from collections.abc import Iterable

from bayou.spark.session.settings import ROW_OPERATIONS_LOCAL_BYTES
from bayou.spark.target import TargetTable, is_classic

__all__ = ["DEFAULT_LOCAL_BYTES", "stays_local"]

DEFAULT_LOCAL_BYTES = 256 << 20


def stays_local(target: TargetTable, sizes: Iterable[int]) -> bool:
    """Whether the driver's process does the work.

    Spark Connect's client always does: it commits, so it reaches the store, and has no executors.

    Args:
        sizes: bytes of the files that are looked into.
    """
    if not is_classic(target.spark):
        return True
    limit = ROW_OPERATIONS_LOCAL_BYTES.integer(spark=target.spark)
    return sum(sizes) <= (DEFAULT_LOCAL_BYTES if limit is None else limit)
