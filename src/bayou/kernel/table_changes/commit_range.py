"""Commits between two versions, as the log has them: for incremental connectors.

Where a range of commits begins and ends: a version, or a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest

import pyarrow as pa

from bayou.errors import (
    ArgumentError,
    CorruptTableError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.commit_times import (
    in_commit_time,
    monotonic_times,
    version_at,
    version_at_or_after,
)
from bayou.kernel.log.replay import decode_commit, read_commit_files
from bayou.kernel.log.segment import commit_files, log_path
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.table_changes.action_columns import DeltaAction, actions_to_batch
from bayou.protocol import features
from bayou.protocol.actions import Action, CommitInfo, Metadata, Protocol
from bayou.protocol.file_names import commit_file_name
from bayou.protocol.schema import StructType

__all__ = [
    "CommitActions",
    "CommitBoundary",
    "CommitRange",
    "CommitRangeBuilder",
    "end_version",
    "load_commit_range",
    "start_version",
]


@dataclass(frozen=True, slots=True)
class CommitBoundary:
    """A version, or a time in ms since the epoch; exactly one of them is set."""

    version: int | None = None
    timestamp: int | None = None

    def __post_init__(self) -> None:
        if (self.version is None) == (self.timestamp is None):
            raise ArgumentError(
                "A boundary of commits is a version or a timestamp, one of them.",
                argument="boundary",
            )
        if self.version is not None and self.version < 0:
            raise ArgumentError(
                f"A version is a number from 0 on, not {self.version}.", argument="version"
            )

    @classmethod
    def at_version(cls, version: int) -> CommitBoundary:
        """That version, which is part of the range."""
        return cls(version=version)

    @classmethod
    def at_timestamp(cls, timestamp: int) -> CommitBoundary:
        """As a start the first commit at or after the time, as an end the last at or before it."""
        return cls(timestamp=timestamp)


def start_version(engine: Engine, latest: TableState, boundary: CommitBoundary) -> int:
    """The version that a start names; raises as `version_at_or_after` does."""
    if boundary.version is not None:
        return boundary.version
    assert boundary.timestamp is not None  # one of them is set
    return version_at_or_after(engine, latest, boundary.timestamp)


def end_version(engine: Engine, latest: TableState, boundary: CommitBoundary) -> int:
    """The version that an end names; raises as `version_at` does."""
    if boundary.version is not None:
        return boundary.version
    assert boundary.timestamp is not None  # one of them is set
    return version_at(engine, latest, boundary.timestamp)


_BATCH_ROWS = 32_768

_HEAD = (CommitInfo, Metadata, Protocol)

_MONOTONIZED = 100
"""Commits before the range that are listed, so that file times are raised above theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitActions:
    """One commit of a range.

    It holds the bytes of the commit and decodes them as they are asked for.

    Attributes:
        table: the table's path.
        version: its version.
        timestamp: when it was committed, ms since the epoch: in-commit where it has such a time,
            else its file's, raised above the one before it.
        file: where it is in the log.
        data: its JSON lines.
        kinds: those that were asked for.
    """

    table: str
    version: int
    timestamp: int
    file: FileStatus
    data: bytes = field(repr=False)
    kinds: frozenset[DeltaAction]

    @property
    def log_actions(self) -> tuple[Action, ...]:
        """All of its actions, in the order of the log.

        Raises:
            CorruptTableError: a line isn't an action; names file and line.
        """
        return tuple(self.decoded())

    def decoded(self, *kinds: type[Action]) -> Iterator[Action]:
        """Actions of some types, of all types where none is given; one by one, in their order.

        Raises:
            CorruptTableError: a line isn't an action; names file and line.
        """
        return decode_commit(self.table, self.version, self.file, self.data, kinds or None)

    @closeable
    def actions(self) -> Iterator[pa.RecordBatch]:
        """The actions asked for; see `CommitRange.actions`. Gives the same batches every time.

        A commit without such actions gives no batch.
        """
        decoded = self.decoded()
        while piece := list(islice(decoded, _BATCH_ROWS)):
            batch = actions_to_batch(piece, self.kinds, self.version, self.timestamp)
            if batch.num_rows:
                yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """Contiguous commits of a table, all of them in the log; holds no engine and no open file.

    Attributes:
        table: the table's path.
        start_version, end_version: both are part of the range.
        query_start_boundary: what the range was asked to begin with.
        query_end_boundary: what it was asked to end with, None for the latest version.
        files: the commits' files, ascending.
        file_times: their times in ms, each above the one before it.
    """

    table: str
    start_version: int
    end_version: int
    query_start_boundary: CommitBoundary
    query_end_boundary: CommitBoundary | None
    files: tuple[FileStatus, ...]
    file_times: tuple[int, ...]

    def actions(
        self,
        engine: Engine,
        action_set: Collection[DeltaAction],
        start_snapshot: TableState | None = None,
    ) -> CloseableIterator[pa.RecordBatch]:
        """Actions of the range, commit after commit, each in the order of the log.

        Args:
            action_set: kinds of actions wanted.
            start_snapshot: of `start_version`; loading it has checked that the table is readable
                there. Protocols that come later are checked here.

        Returns:
            Batches of one commit each, with exactly `action_schema(action_set)`: `version` and
            `timestamp` (ms since the epoch), then a struct column for each kind asked for, of which
            one a row isn't null.

        Raises:
            CorruptTableError: a commit is gone or can't be read.
            UnsupportedFeatureError: a commit sets a protocol that can't be read; names its version.
            ArgumentError: the snapshot is of another version.
        """
        return self.commit_actions(engine, action_set, start_snapshot).flat_map(
            lambda commit: commit.actions()
        )

    def commit_actions(
        self,
        engine: Engine,
        action_set: Collection[DeltaAction],
        start_snapshot: TableState | None = None,
    ) -> CloseableIterator[CommitActions]:
        """The commits, one by one as they are asked for, also those without such actions.

        Arguments and errors as of `actions`.
        """
        if start_snapshot is not None and start_snapshot.version != self.start_version:
            raise ArgumentError(
                f"The range begins at version {self.start_version}, the snapshot given is of "
                f"version {start_snapshot.version}.",
                argument="start_snapshot",
            )
        return self._commits(engine, frozenset(action_set))

    @closeable
    def _commits(self, engine: Engine, kinds: frozenset[DeltaAction]) -> Iterator[CommitActions]:
        files = enumerate(self.files, self.start_version)
        with read_commit_files(engine, self.table, files) as commits:
            for (version, file, data), file_time in zip(commits, self.file_times, strict=True):
                head = tuple(decode_commit(self.table, version, file, data, _HEAD))
                _check_protocol(self.table, version, head)
                in_commit = in_commit_time(head)
                yield CommitActions(
                    table=self.table,
                    version=version,
                    timestamp=file_time if in_commit is None else in_commit,
                    file=file,
                    data=data,
                    kinds=kinds,
                )


class CommitRangeBuilder:
    """Builds a `CommitRange`; each method gives a new builder."""

    __slots__ = ("_catalog", "_end", "_start", "_table")

    def __init__(
        self,
        table: str,
        start: CommitBoundary,
        end: CommitBoundary | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self._table = table
        self._start = start
        self._end = end
        self._catalog = catalog

    def with_end_boundary(self, boundary: CommitBoundary) -> CommitRangeBuilder:
        """The last commit of the range; without it the range ends at the latest version."""
        return CommitRangeBuilder(self._table, self._start, boundary, self._catalog)

    def build(self, engine: Engine) -> CommitRange:
        """List the commits.

        Raises:
            VersionNotFoundError: the range begins before the earliest commit in the log or ends
                after the latest one; its attributes say which those are.
            ArgumentError: it ends before it begins.
            TableNotFoundError: there is no table.
            CorruptTableError: a commit is missing in between.
        """
        start, end = self._start.version, None if self._end is None else self._end.version
        if self._start.timestamp is not None or (self._end and self._end.timestamp is not None):
            latest = load_table_state(engine, self._table, catalog=self._catalog)
            start = start_version(engine, latest, self._start)
            if self._end is not None:
                end = end_version(engine, latest, self._end)
        assert start is not None  # given, or found by its time
        return load_commit_range(
            engine,
            self._table,
            start,
            end,
            query_start_boundary=self._start,
            query_end_boundary=self._end,
            catalog=self._catalog,
        )


def load_commit_range(
    engine: Engine,
    table: str,
    start: int,
    end: int | None,
    *,
    query_start_boundary: CommitBoundary | None = None,
    query_end_boundary: CommitBoundary | None = None,
    catalog: Catalog | None = None,
) -> CommitRange:
    """The commits from one version to another; raises as `CommitRangeBuilder.build` does."""
    if end is not None and end < start:
        raise ArgumentError(
            f"The range of commits of {table} ends at version {end}, before its start at version "
            f"{start}.",
            argument="end",
        )
    listed: list[tuple[int, FileStatus]] = []
    before = max(0, start - _MONOTONIZED)
    with commit_files(engine, table, before, catalog=catalog) as commits:
        for version, file in commits:
            if end is not None and version > end:
                break
            listed.append((version, file))
    _check_complete(engine, table, start, end, [v for v, _ in listed], catalog=catalog)
    times = [time for version, time in monotonic_times(listed) if version >= start]
    return CommitRange(
        table=table,
        start_version=start,
        end_version=listed[-1][0],
        query_start_boundary=query_start_boundary or CommitBoundary.at_version(start),
        query_end_boundary=query_end_boundary,
        files=tuple(file for version, file in listed if version >= start),
        file_times=tuple(times),
    )


def _check_complete(
    engine: Engine,
    table: str,
    start: int,
    end: int | None,
    listed: list[int],
    *,
    catalog: Catalog | None,
) -> None:
    """Raise where versions of a range aren't among the commits that the log still has."""
    inside = [v for v in listed if v >= start]
    if not inside or inside[0] != start or (end is not None and inside[-1] != end):
        with commit_files(engine, table, catalog=catalog) as commits:
            earliest = next((v for v, _ in commits), None)
        latest = load_table_state(engine, table, catalog=catalog).version
        if start > latest or (end is not None and end > latest):
            what = f"{start}" if start > latest else f"{end}"
            raise VersionNotFoundError(
                f"{table} has no version {what}; its latest version is {latest}.",
                table=table,
                earliest=earliest,
                latest=latest,
            )
        if earliest is None or start < earliest:
            rest = (
                "The log has no commits any more, only a checkpoint."
                if earliest is None
                else f"The earliest commit available is {earliest}."
            )
            raise VersionNotFoundError(
                f"Commit {start} of {table} has been cleaned up. {rest} Read a snapshot, and go on "
                "from its version.",
                table=table,
                earliest=earliest,
                latest=latest,
            )
    last = inside[-1] + 1 if end is None else end + 1
    for expected, found in zip_longest(range(start, last), inside):
        if expected != found:
            raise CorruptTableError(
                f"Commit {expected} is missing in the log of {table}; versions must be "
                "contiguous. Restore that file, or begin after it.",
                table=table,
                file=f"{log_path(table)}/{commit_file_name(expected)}",
            )


def _check_protocol(table: str, version: int, actions: tuple[Action, ...]) -> None:
    protocol = next((a for a in actions if isinstance(a, Protocol)), None)
    if protocol is None:
        return
    metadata = next((a for a in actions if isinstance(a, Metadata)), None)
    configuration = {} if metadata is None else metadata.configuration
    missing = features.unsupported_for_read(protocol, configuration, StructType())
    if missing:
        raise UnsupportedFeatureError(
            f"Commits of {table} can't be read from version {version} on: it needs "
            f"{', '.join(missing)}, which this version of Bayou doesn't support. End the range "
            "before that version, or use a newer version of Bayou.",
            table=table,
            features=missing,
        )
