"""Commit ranges: the commits between two versions or timestamps, for incremental connectors."""

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
from bayou.kernel.log.commit_times import in_commit_time, version_at, version_at_or_after
from bayou.kernel.log.replay import decode_commit, read_commit_files
from bayou.kernel.log.segment import commit_files, log_path, monotonic_times
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.table_changes.action_columns import DeltaAction, actions_to_batch
from bayou.protocol import features
from bayou.protocol.actions import Action, CommitInfo, Metadata, Protocol
from bayou.protocol.file_names import commit_file_name
from bayou.protocol.schema import StructType


@dataclass(frozen=True, slots=True)
class CommitBoundary:
    """A version, or a timestamp in ms since the epoch; exactly one of the two is set.

    Examples:
        >>> start = CommitBoundary.at_version(0)
        >>> end = CommitBoundary.at_timestamp(snapshot.timestamp)
        >>> commits = table.commit_range_builder(start).with_end_boundary(end).build(engine)
    """

    version: int | None = None
    timestamp: int | None = None

    def __post_init__(self) -> None:
        if (self.version is None) == (self.timestamp is None):
            raise ArgumentError(
                "boundary: a commit boundary needs either a version or a timestamp. Set exactly "
                "one of them.",
                argument="boundary",
            )
        if self.version is not None and self.version < 0:
            raise ArgumentError(
                f"version: {self.version} is negative. Use 0 or more.",
                argument="version",
            )

    @classmethod
    def at_version(cls, version: int) -> CommitBoundary:
        """Return a boundary at a version; the range includes this version."""
        return cls(version=version)

    @classmethod
    def at_timestamp(cls, timestamp: int) -> CommitBoundary:
        """Return a boundary at a timestamp in ms since the epoch.

        A range starts with the first commit at or after its start timestamp, and ends with the last
        commit at or before its end timestamp.
        """
        return cls(timestamp=timestamp)


def start_version(engine: Engine, latest: TableState, boundary: CommitBoundary) -> int:
    """Return the first version of a range; see `version_at_or_after` for errors."""
    if boundary.version is not None:
        return boundary.version
    assert boundary.timestamp is not None  # checked by CommitBoundary
    return version_at_or_after(engine, latest, boundary.timestamp)


def end_version(engine: Engine, latest: TableState, boundary: CommitBoundary) -> int:
    """Return the last version of a range; see `version_at` for errors."""
    if boundary.version is not None:
        return boundary.version
    assert boundary.timestamp is not None  # checked by CommitBoundary
    return version_at(engine, latest, boundary.timestamp)


_BATCH_ROWS = 32_768

_HEAD_ACTIONS = (CommitInfo, Metadata, Protocol)

_PRECEDING_COMMITS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitActions:
    """One commit of a range, with the bytes of its file, which are decoded on demand.

    Attributes:
        table: path of the table.
        version: version of the commit.
        timestamp: timestamp of the commit in ms since the epoch; see `Snapshot.timestamp`.
        file: the commit file.
        data: JSON lines of the commit.
        kinds: the requested kinds of actions.

    Examples:
        >>> commits = table.commit_range_builder(CommitBoundary.at_version(0)).build(engine)
        >>> with commits.commit_actions(engine, {DeltaAction.ADD}) as iterator:
        ...     for commit in iterator:
        ...         print(commit.version, commit.timestamp)
    """

    table: str
    version: int
    timestamp: int
    file: FileStatus
    data: bytes = field(repr=False)
    kinds: frozenset[DeltaAction]

    def decoded(self, *kinds: type[Action]) -> Iterator[Action]:
        """Yield the actions of the types `kinds`, in order; all actions if `kinds` is empty.

        Raises:
            CorruptTableError: a line isn't an action; the message has file and line.
        """
        return decode_commit(self.table, self.version, self.file, self.data, kinds or None)

    @closeable
    def actions(self) -> Iterator[pa.RecordBatch]:
        """Yield the actions of the requested kinds as batches; see `CommitRange.actions`.

        No batch is yielded if the commit has no such actions. Each call decodes the commit again.
        """
        decoded = self.decoded()
        while chunk := list(islice(decoded, _BATCH_ROWS)):
            batch = actions_to_batch(chunk, self.kinds, self.version, self.timestamp)
            if batch.num_rows:
                yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """Contiguous commits of a table. Holds no engine and no open file.

    Attributes:
        table: path of the table.
        start_version, end_version: first and last version of the range, both included.
        query_start_boundary: the requested start.
        query_end_boundary: the requested end; None for the latest version.
        files: the commit files, ascending.
        file_times: timestamp of each commit in ms since the epoch, computed from the modification
            times of the commit files; see `monotonic_times`.

    Examples:
        >>> commits = table.commit_range_builder(CommitBoundary.at_version(0)).build(engine)
        >>> with commits.actions(engine, {DeltaAction.ADD, DeltaAction.REMOVE}) as batches:
        ...     for batch in batches:
        ...         print(batch.column("version"), batch.column("add"))
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
        """Read the actions of the range in the order of the log.

        Args:
            action_set: requested kinds of actions.
            start_snapshot: snapshot of `start_version`. Loading this snapshot checks that Bayou
                supports the protocol of `start_version`. Without the snapshot, only the `protocol`
                actions in the commits of the range are checked.

        Returns:
            Batches of one commit each, with `action_schema(action_set)`: `version` and `timestamp`
            (ms since the epoch), then a struct column for each requested kind. Each row has exactly
            one non-null struct.

        Raises:
            CorruptTableError: a commit is missing or can't be read.
            UnsupportedFeatureError: a commit sets a protocol that isn't supported.
            ArgumentError: the version of `start_snapshot` isn't `start_version`.
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
        """Iterate the commits, including commits without requested actions.

        See `actions` for arguments and errors.
        """
        if start_snapshot is not None and start_snapshot.version != self.start_version:
            raise ArgumentError(
                f"{self.table}: the range starts at version {self.start_version}, but the snapshot "
                f"has version {start_snapshot.version}. Pass the snapshot of the start version.",
                argument="start_snapshot",
            )
        return self._commits(engine, frozenset(action_set))

    @closeable
    def _commits(self, engine: Engine, kinds: frozenset[DeltaAction]) -> Iterator[CommitActions]:
        files = enumerate(self.files, self.start_version)
        with read_commit_files(engine, self.table, files) as commits:
            for (version, file, data), file_time in zip(commits, self.file_times, strict=True):
                head = tuple(decode_commit(self.table, version, file, data, _HEAD_ACTIONS))
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
    """Builds a `CommitRange`. Each `with_` method returns a new builder.

    Examples:
        >>> builder = table.commit_range_builder(CommitBoundary.at_version(0))
        >>> commits = builder.with_end_boundary(CommitBoundary.at_version(1)).build(engine)
        >>> print(commits.start_version, commits.end_version)
    """

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
        """Set the end of the range; the default is the latest version."""
        return CommitRangeBuilder(self._table, self._start, boundary, self._catalog)

    def build(self, engine: Engine) -> CommitRange:
        """List the commits.

        Raises:
            VersionNotFoundError: the range starts before the earliest commit in the log, or ends
                after the latest commit. The error's attributes `earliest` and `latest` are the
                first and last available version.
            ArgumentError: the range ends before it starts.
            TableNotFoundError: the path has no table.
            CorruptTableError: a commit of the range is missing.
        """
        start, end = self._start.version, None if self._end is None else self._end.version
        if self._start.timestamp is not None or (self._end and self._end.timestamp is not None):
            latest = load_table_state(engine, self._table, catalog=self._catalog)
            start = start_version(engine, latest, self._start)
            if self._end is not None:
                end = end_version(engine, latest, self._end)
        assert start is not None  # a boundary has a version or a timestamp
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
    """List the commits of a range of versions; see `CommitRangeBuilder.build` for errors."""
    if end is not None and end < start:
        raise ArgumentError(
            f"{table}: the commit range ends at version {end}, before its start at version "
            f"{start}. Use an end at or after the start.",
            argument="end",
        )
    listed = list_commits(engine, table, start, end, catalog=catalog)
    try:
        _check_complete(engine, table, start, end, [v for v, _ in listed], catalog=catalog)
    except CorruptTableError:
        # The log is listed again, because a listing that isn't atomic may miss a concurrent commit
        # but contain the next one.
        listed = list_commits(engine, table, start, end, catalog=catalog)
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


def list_commits(
    engine: Engine,
    table: str,
    start: int,
    end: int | None = None,
    *,
    catalog: Catalog | None = None,
) -> list[tuple[int, FileStatus]]:
    """Return (version, file) of the commits of a range, and of up to 100 commits before it.

    The earlier commits are included, because the timestamps of the range can depend on them; see
    `monotonic_times`.
    """
    listed: list[tuple[int, FileStatus]] = []
    first = max(0, start - _PRECEDING_COMMITS)
    with commit_files(engine, table, first, catalog=catalog) as commits:
        for version, file in commits:
            if end is not None and version > end:
                break
            listed.append((version, file))
    return listed


def _check_complete(
    engine: Engine,
    table: str,
    start: int,
    end: int | None,
    listed: list[int],
    *,
    catalog: Catalog | None,
) -> None:
    versions = [v for v in listed if v >= start]
    if not versions or versions[0] != start or (end is not None and versions[-1] != end):
        with commit_files(engine, table, catalog=catalog) as commits:
            earliest = next((v for v, _ in commits), None)
        latest = load_table_state(engine, table, catalog=catalog).version
        if start > latest or (end is not None and end > latest):
            missing = start if start > latest else end
            raise VersionNotFoundError(
                f"{table}: version {missing} doesn't exist; the latest version is {latest}. Use "
                "that version or an earlier one.",
                table=table,
                earliest=earliest,
                latest=latest,
            )
        if earliest is None or start < earliest:
            available = (
                "the log only has a checkpoint and no commits"
                if earliest is None
                else f"the earliest available commit is {earliest}"
            )
            raise VersionNotFoundError(
                f"{table}: log cleanup has deleted commit {start}; {available}. Read a snapshot, "
                "and continue from its version.",
                table=table,
                earliest=earliest,
                latest=latest,
            )
    last = versions[-1] + 1 if end is None else end + 1
    for expected, actual in zip_longest(range(start, last), versions):
        if expected != actual:
            raise CorruptTableError(
                f"{table}: commit {expected} is missing in the log, but versions must be "
                f"contiguous. Restore the file, or start after version {expected}.",
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
            f"{table}: commits from version {version} on can't be read, because they require "
            f"{', '.join(missing)}, which this version of Bayou doesn't support. End the range "
            "before that version, or use a newer version of Bayou.",
            table=table,
            features=missing,
        )
