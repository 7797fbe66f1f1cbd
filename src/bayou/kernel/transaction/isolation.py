"""Under which isolation level a commit is judged (`delta.isolationLevel`)."""

from __future__ import annotations

from bayou.kernel.operation import Operation

__all__ = ["isolation_level"]

_REARRANGING = frozenset(
    {
        Operation.OPTIMIZE,
        Operation.REORG,
        Operation.VACUUM_START,
        Operation.VACUUM_END,
        Operation.ROW_TRACKING_BACKFILL,
        Operation.ROW_TRACKING_UNBACKFILL,
        Operation.DELETION_VECTOR_TOMBSTONES,
        Operation.EMPTY_COMMIT,
    }
)
"""Operations that never change data."""


def isolation_level(wanted: str, operation: Operation, *, rearranges: bool) -> str:
    """The level that a commit takes, as delta-spark downgrades it.

    Args:
        wanted: the table's.
        rearranges: the commit has actions of files only, and none changes data.
    """
    if not rearranges or wanted == "SnapshotIsolation":
        return wanted
    if wanted == "WriteSerializable" and operation not in _REARRANGING:
        return wanted
    return "SnapshotIsolation"
