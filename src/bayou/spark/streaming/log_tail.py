"""The commits that a stream reads, decoded once and kept for the batch that is planned next.

Which commits a stream of rows takes: those that only add, unless an option says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.table_state import load_table_state
from bayou.kernel.table_changes.commit_files import (
    CommitFiles,
    added_files,
    changed_files,
    contiguous_commits,
    listed_commits,
)
from bayou.kernel.table_changes.commit_range import CommitRange
from bayou.spark.streaming.errors import refusal
from bayou.spark.streaming.options import StreamOptions

__all__ = ["Tail", "check_commit"]


_KEPT_BYTES = 64 * 1024 * 1024


class Tail:
    """Commits of one table from any version on; keeps those it has read lately.

    Args:
        table: its path.
        table_id: `metaData.id` of the table that the stream began with.
        feed: whether the files wanted are those of the change data feed.
        fail_on_data_loss: whether commits that are gone are an error.
    """

    def __init__(self, table: str, *, table_id: str, feed: bool, fail_on_data_loss: bool) -> None:
        self._table = table
        self._table_id = table_id
        self._read = changed_files if feed else added_files
        self._fail_on_data_loss = fail_on_data_loss
        self._kept: dict[int, CommitFiles] = {}
        self._kept_bytes = 0
        self._newest: tuple[int, FileStatus] | None = None
        self.latest = -1

    def commits(self, engine: Engine, start: int, end: int | None = None) -> Iterator[CommitFiles]:
        """The commits from a version on, up to and with another; read as they are asked for.

        Args:
            end: None: all that are there.

        Raises:
            StreamingSourceError: a commit is gone, or another table is in the table's place.
            CorruptTableError: a commit can't be read.
        """
        version = start
        while version in self._kept and (end is None or version <= end):
            yield self._kept[version]
            version += 1
        if end is not None and version > end:
            return
        for found in self._listed(engine, version):
            self.latest = max(self.latest, found.end_version)
            wanted = found if end is None else _up_to(found, end)
            if wanted is None:
                return
            with wanted.commit_actions(engine, ()) as commits:
                for commit in commits:
                    files = self._read(commit)
                    self._keep(files)
                    yield files

    def _listed(self, engine: Engine, start: int) -> list[CommitRange]:
        gaps = not self._fail_on_data_loss
        listed = listed_commits(engine, self._table, start)
        self._check_same_log(engine, dict(listed))
        if listed:
            self._newest = listed[-1]
        try:
            return contiguous_commits(self._table, listed, start, allow_gaps=gaps)
        except VersionNotFoundError as error:
            raise refusal(
                "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
                f"Version {start} of {self._table} is to be read next, but the log's earliest "
                f"commit is {error.earliest}: the query has fallen behind the log's retention "
                "(delta.logRetentionDuration). Start over with a new checkpoint, or set the option "
                "'failOnDataLoss' to 'false' to go on with what is there.",
                table=self._table,
                version=start,
            ) from error
        except CorruptTableError as error:
            raise refusal(
                "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
                f"{error.message} Or set the option 'failOnDataLoss' to 'false' to pass over it.",
                table=self._table,
            ) from error

    def _check_same_log(self, engine: Engine, listed: dict[int, FileStatus]) -> None:
        """Refuse a log that isn't the one that was listed last.

        The commits of a table that was deleted and made again, or that was set back, may lie behind
        the stream's place, where nobody would read them. The newest commit of the last listing
        tells: it stays as it is until log cleanup removes it, behind newer ones.
        """
        if self._newest is None:
            return
        version, known = self._newest
        found = listed.get(version)
        if found is None and max(listed, default=-1) > version:
            return  # log cleanup
        if found is not None and (found.size, found.modification_time) == (
            known.size,
            known.modification_time,
        ):
            return
        state = load_table_state(engine, self._table)
        if state.table_id != self._table_id:
            raise refusal(
                "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
                f"{self._table} was deleted and made again while the stream read it (its id was "
                f"{self._table_id} and is {state.table_id}). Start over with a new "
                "checkpointLocation.",
                table=self._table,
            )
        if state.version < version and self._fail_on_data_loss:
            raise refusal(
                "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
                f"{self._table} had version {version} while the stream read it, and its latest "
                f"one is {state.version} now: commits are missing, as in a table that was brought "
                "back from an older copy. Restore them, or start over with a new checkpoint.",
                table=self._table,
                version=state.version + 1,
            )

    def _keep(self, files: CommitFiles) -> None:
        if files.version in self._kept:
            return
        self._kept[files.version] = files
        self._kept_bytes += len(files.commit.data)
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._kept_bytes -= len(self._kept.pop(oldest).commit.data)


def _up_to(commits: CommitRange, end: int) -> CommitRange | None:
    if commits.end_version <= end:
        return commits
    count = end - commits.start_version + 1
    if count <= 0:
        return None
    return replace(
        commits,
        end_version=end,
        files=commits.files[:count],
        file_times=commits.file_times[:count],
    )


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
