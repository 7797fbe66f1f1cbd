"""Which commits a stream of rows takes: those that only add, unless an option says otherwise."""

from __future__ import annotations

from bayou.kernel.table_changes.commit_files import CommitFiles
from bayou.spark.streaming.errors import refusal
from bayou.spark.streaming.options import StreamOptions

__all__ = ["check_commit"]


def check_commit(files: CommitFiles, options: StreamOptions, table: str) -> bool:
    """Whether a commit is skipped.

    Raises:
        StreamingSourceError: it deletes or updates rows, and no option says what to do with that;
            names the version and the option.
    """
    if files.removed is None:
        return False
    adds = len(files.sizes) > 0
    if adds and not options.allows_changes:
        raise refusal(
            "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
            f"Rows of {table} were updated at version {files.version} ({_operation(files)}), and a "
            "stream of a table passes on new rows only. Set the option 'skipChangeCommits' to "
            "'true' to pass over such commits, or 'readChangeFeed' to read what changed; or start "
            "over with a new checkpoint to read the table as it is.",
            table=table,
            version=files.version,
        )
    if not adds and not options.allows_deletes:
        raise refusal(
            "DELTA_SOURCE_IGNORE_DELETE",
            f"Rows of {table} were deleted at version {files.version} ({_operation(files)}, for "
            f"example those of {files.removed}), and a stream of a table passes on new rows only. "
            "Set the option 'ignoreDeletes' to 'true' to pass over such commits.",
            table=table,
            version=files.version,
        )
    return options.skip_change_commits


def _operation(files: CommitFiles) -> str:
    name = None if files.info is None else files.info.get("operation")
    return str(name) if name else f"it removes {files.removed}"
