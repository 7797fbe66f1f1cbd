"""Reads and caches the commits of a stream, and checks whether commits delete or update rows.

A commit that deletes or updates rows is an error, unless an option of the stream allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.log.table_state import load_table_state
from bayou.kernel.table_changes.commit_range import CommitRange
from bayou.kernel.table_changes.streamed_commits import (
    CommitFiles,
    added_files,
    changed_files,
    contiguous_commits,
    listed_commits,
)
from bayou.spark.streaming.errors import missing_commits_error, streaming_error
from bayou.spark.streaming.options import StreamOptions

_CACHE_BYTES = 64 * 1024 * 1024


class CommitReader:
    """Reads the commits of a table for a stream, with a cache of recently read commits.

    Args:
        feed: whether the stream reads the change data feed.

    Attributes:
        latest: the latest version that a listing of the log has returned; -1 before the first
            listing.
    """

    def __init__(self, table: str, *, table_id: str, feed: bool, fail_on_data_loss: bool) -> None:
        self._table = table
        self._table_id = table_id
        self._read = changed_files if feed else added_files
        self._fail_on_data_loss = fail_on_data_loss
        self._cached: dict[int, CommitFiles] = {}
        self._cached_bytes = 0
        self._newest: tuple[int, FileStatus] | None = None
        self.latest = -1

    def commits(self, engine: Engine, start: int, end: int | None = None) -> Iterator[CommitFiles]:
        """Yield the commits of versions `start` to `end` (inclusive).

        If `end` is None, the last commit is the latest one. A commit is read from the log when the
        iteration reaches it.
        """
        version = start
        while version in self._cached and (end is None or version <= end):
            yield self._cached[version]
            version += 1
        if end is not None and version > end:
            return
        for listed in self._list(engine, version):
            self.latest = max(self.latest, listed.end_version)
            requested = listed if end is None else _up_to(listed, end)
            if requested is None:
                return
            with requested.commit_actions(engine, ()) as commits:
                for commit in commits:
                    files = self._read(commit)
                    self._cache(files)
                    yield files

    def _list(self, engine: Engine, start: int) -> list[CommitRange]:
        gaps = not self._fail_on_data_loss
        listed = listed_commits(engine, self._table, start)
        self._check_same_log(engine, dict(listed))
        if listed:
            self._newest = listed[-1]
        try:
            return contiguous_commits(self._table, listed, start, allow_gaps=gaps)
        except VersionNotFoundError as error:
            raise streaming_error(
                "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
                f"Table {self._table}: the stream must read version {start} next, but the log's "
                f"earliest commit is {error.earliest}. The query has fallen behind the log's "
                "retention (delta.logRetentionDuration). Start the query with a new "
                "checkpointLocation, or set the option 'failOnDataLoss' to 'false' to continue "
                "with the remaining commits.",
                table=self._table,
                version=start,
            ) from error
        except CorruptTableError as error:
            raise streaming_error(
                "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
                f"{error.message} To skip the missing commits, set the option 'failOnDataLoss' to "
                "'false'.",
                table=self._table,
            ) from error

    def _check_same_log(self, engine: Engine, listed: dict[int, FileStatus]) -> None:
        """Raise an error if the log was replaced since the last listing.

        The log is replaced if the table is recreated, or restored from an older copy. Versions that
        the stream has already read then have other commits. To detect this, the last commit of the
        previous listing is compared with the commit of the same version in `listed`.

        If `listed` has no commit of this version, but has later commits, then log cleanup has
        deleted the commit. No error is raised in this case.

        If `failOnDataLoss` is false, an error is raised only if the table's id has changed.

        Args:
            listed: the commit files of the new listing, by version.
        """
        if self._newest is None:
            return
        version, known = self._newest
        current = listed.get(version)
        if current is None and max(listed, default=-1) > version:
            return  # removed by log cleanup
        if current is not None and (current.size, current.modification_time) == (
            known.size,
            known.modification_time,
        ):
            return
        state = load_table_state(engine, self._table)
        if state.table_id != self._table_id:
            raise streaming_error(
                "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
                f"Table {self._table}: it was deleted and recreated while the stream read it (its "
                f"id was {self._table_id} and is now {state.table_id}). Start the query with a new "
                "checkpointLocation.",
                table=self._table,
            )
        if current is not None and not self._has_same_content(engine, version, known, current):
            self._cached.clear()
            self._cached_bytes = 0
            if self._fail_on_data_loss:
                raise missing_commits_error(
                    self._table,
                    f"The stream has read version {version}, but the log now has another commit of "
                    "this version.",
                    version,
                )
        if state.version < version and self._fail_on_data_loss:
            raise missing_commits_error(
                self._table,
                f"The stream has read version {version}, but the latest version is now "
                f"{state.version}.",
                state.version + 1,
            )

    def _has_same_content(
        self, engine: Engine, version: int, known: FileStatus, current: FileStatus
    ) -> bool:
        """Whether a commit file has the same content as at the last listing of the log.

        If the commit isn't cached, only the sizes are compared.

        Args:
            version: the commit's version.
            known: the commit file in the last listing.
            current: the commit file in the new listing.
        """
        if current.size != known.size:
            return False
        cached = self._cached.get(version)
        if cached is None:
            return True
        data = b"".join(engine.files.read_files([ByteRange(path=current.path)]))
        return data == cached.commit.data

    def _cache(self, files: CommitFiles) -> None:
        if files.version in self._cached:
            return
        self._cached[files.version] = files
        self._cached_bytes += len(files.commit.data)
        while self._cached_bytes > _CACHE_BYTES and len(self._cached) > 1:
            oldest = next(iter(self._cached))
            self._cached_bytes -= len(self._cached.pop(oldest).commit.data)


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
    """Return whether the stream skips a commit.

    Raises:
        StreamingSourceError: the commit deletes or updates rows, and no option allows this.
    """
    if files.removed is None:
        return False
    adds = len(files.sizes) > 0
    if adds and not options.allows_changes:
        raise streaming_error(
            "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
            f"Table {table}: version {files.version} updates rows ({_operation(files)}), but a "
            "stream reads only new rows. To skip commits with changed rows, set the option "
            "'skipChangeCommits' to 'true'. To read the changes, set the option 'readChangeFeed' "
            "to 'true'. To read the table's current rows, start the query with a new "
            "checkpointLocation.",
            table=table,
            version=files.version,
        )
    if not adds and not options.allows_deletes:
        raise streaming_error(
            "DELTA_SOURCE_IGNORE_DELETE",
            f"Table {table}: version {files.version} deletes rows ({_operation(files)}, for "
            f"example the rows of {files.removed}), but a stream reads only new rows. Set the "
            "option 'ignoreDeletes' to 'true' to skip commits that delete rows.",
            table=table,
            version=files.version,
        )
    return options.skip_change_commits


def _operation(files: CommitFiles) -> str:
    name = None if files.info is None else files.info.get("operation")
    return str(name) if name else f"it removes {files.removed}"
