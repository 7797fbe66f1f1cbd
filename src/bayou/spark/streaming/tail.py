"""The commits that a stream reads, decoded once and kept for the batch that is planned next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.changes.commit_files import CommitFiles, added_files, changed_files
from bayou.kernel.changes.commit_range import CommitRange
from bayou.kernel.changes.tail import commits_from
from bayou.kernel.engine import Engine
from bayou.spark.streaming.errors import refusal

__all__ = ["Tail"]

_KEPT_BYTES = 64 * 1024 * 1024


class Tail:
    """Commits of one table from any version on; keeps those it has read lately.

    Args:
        table: its path.
        feed: whether the files wanted are those of the change data feed.
        fail_on_data_loss: whether commits that are gone are an error.
    """

    def __init__(self, table: str, *, feed: bool, fail_on_data_loss: bool) -> None:
        self._table = table
        self._read = changed_files if feed else added_files
        self._fail_on_data_loss = fail_on_data_loss
        self._kept: dict[int, CommitFiles] = {}
        self._kept_bytes = 0
        self.latest = -1

    def commits(self, engine: Engine, start: int, end: int | None = None) -> Iterator[CommitFiles]:
        """The commits from a version on, up to and with another; read as they are asked for.

        Args:
            end: None: all that are there.

        Raises:
            StreamingSourceError: a commit is gone.
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
        try:
            return commits_from(engine, self._table, start, allow_gaps=gaps)
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
