"""Actions that take files out of a table."""

from __future__ import annotations

from bayou.protocol.actions import AddFile, RemoveFile

__all__ = ["remove_of"]


def remove_of(add: AddFile, now: int, *, data_change: bool = True) -> RemoveFile:
    """The action that removes a live file; it carries the add's very path and vector.

    Args:
        now: ms since the epoch.
    """
    return RemoveFile(
        path=add.path,
        deletion_timestamp=now,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=dict(add.partition_values),
        size=add.size,
        stats=add.stats,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )
