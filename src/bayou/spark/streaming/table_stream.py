"""`TableStream`: the start offset, end offsets and micro-batches of a stream of a Delta table.

The module doesn't depend on Spark. For the same start and end offsets, a stream returns the same
batch, also after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bayou.errors import StreamingSourceError, VersionNotFoundError
from bayou.kernel import ChangeFile, ChangeState, ScanBuilder, ScanFileBatch, ScanState
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import commit_timestamp
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.scan.scan_file import scan_batch
from bayou.kernel.table_changes.change_plan import ChangePlan, path_order
from bayou.kernel.table_changes.streamed_commits import CommitFiles, without_statistics
from bayou.protocol.actions import INSERT, is_change_data_feed_enabled
from bayou.protocol.file_names import canonical_path
from bayou.protocol.schema import StructType
from bayou.spark.streaming.driver_files import request_sorted_files
from bayou.spark.streaming.errors import streaming_error
from bayou.spark.streaming.log_tail import CommitReader, check_commit
from bayou.spark.streaming.next_batch import (
    CommitFileSizes,
    check_initial_files,
    next_feed_offset,
    next_offset,
)
from bayou.spark.streaming.offsets import BASE_INDEX, SourceOffset
from bayou.spark.streaming.options import StreamOptions
from bayou.spark.streaming.read_limits import RemainingLimits
from bayou.spark.streaming.schema_changes import ReadSchema
from bayou.spark.streaming.schema_tracking import SchemaTracking
from bayou.spark.streaming.sorted_files import SortedFiles
from bayou.spark.streaming.starting_version import checked_latest_version, starting_version


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """The files of a micro-batch.

    Attributes:
        state: the `ScanState` that executors need to read the files.
        adds: files as `ADD_TYPE` structs; empty for the change data feed.
        changes: files of the change data feed; empty for other streams.
    """

    state: ScanState
    adds: tuple[pa.StructArray, ...] = ()
    changes: tuple[ChangeFile, ...] = ()

    @property
    def change_state(self) -> ChangeState:
        """The `ChangeState` that is needed to read the files in `changes`."""
        return ChangeState(scan_state=self.state)


class TableStream:
    """A stream of a table; not thread-safe.

    Args:
        state: the table's state when the stream is opened. If the stream is new, and has no
            starting version or timestamp, this state is the initial snapshot.
        columns: the columns to read.
        starting_timestamp: `startingTimestamp` in ms since the epoch; None if not set.
        tracking: schema evolution with a schema log; None without `schemaTrackingLocation`.
    """

    def __init__(
        self,
        engine: Engine,
        state: TableState,
        columns: StructType,
        options: StreamOptions,
        *,
        starting_timestamp: int | None = None,
        tracking: SchemaTracking | None = None,
    ) -> None:
        self._engine = engine
        self._state = state
        self._columns = columns
        self._options = options
        self._starting_timestamp = starting_timestamp
        self._tracking = tracking
        self._read_state = state if tracking is None else tracking.read_state
        self._schema = ReadSchema(state=state, has_starting_position=options.has_starting_position)
        self._commits = CommitReader(
            state.path,
            table_id=state.table_id,
            feed=options.read_change_feed,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        self._commits.latest = state.version
        self._initial: SourceOffset | None = None
        self._available_now = False
        self._bound: SourceOffset | None = None
        self._snapshot: tuple[TableState, SortedFiles] | None = None
        self._schema_checked = False
        self._restart_checked = False
        self._feed_checked_to = -1

    @property
    def table(self) -> str:
        return self._state.path

    def initial_offset(self) -> SourceOffset:
        """Return the start offset of a new stream. All calls return the same offset."""
        if self._initial is None:
            version = starting_version(
                self._engine, self._state, self._options, self._starting_timestamp
            )
            self._initial = SourceOffset(
                table_id=self._state.table_id,
                version=self._state.version if version is None else version,
                initial=version is None,
            )
        return self._initial

    def offset_from_json(self, data: dict[str, Any]) -> SourceOffset:
        """Parse an offset in a checkpoint; see `SourceOffset.from_json`."""
        return SourceOffset.from_json(data, table_id=self._state.table_id, table=self.table)

    def prepare_for_available_now(self) -> None:
        """Limit the stream to the commits that exist when `latest_offset` is called next."""
        self._available_now = True

    def latest_offset(
        self, start: SourceOffset, *, files: int | None = None, unlimited: bool = False
    ) -> SourceOffset:
        """Return the end offset of the next micro-batch.

        If there is nothing to read, the result is `start`.

        Args:
            start: the end offset of the last batch.
            files: maximum number of files in the batch; if None, `maxFilesPerTrigger` applies.
            unlimited: whether all read limits are ignored.
        """
        if not start.initial:
            self.close()  # the initial snapshot isn't needed any more
            if self._options.fail_on_data_loss and start.version > self._commits.latest + 1:
                self._commits.latest = checked_latest_version(
                    self._engine, self.table, start.version
                )
        if self._tracking is not None:
            self._initialize_tracking(start, None)
            pending = self._tracking.pending(self._engine, start)
            if pending is not None:
                return pending
        self._check_schema_of_last_run(start)
        if self._available_now and self._bound is None:
            self._bound = self._next(start, None)
        limits = None
        if not unlimited:
            limit = self._options.files_limit if files is None else files
            limits = RemainingLimits(limit, self._options.max_bytes)
        end = self._next(start, limits)
        if end != start:
            self._check_schema_once(start.version, None)
        return end

    def latest_known(self) -> SourceOffset:
        """Return the offset after the latest known version, without a new listing of the log."""
        return SourceOffset(table_id=self._state.table_id, version=self._commits.latest + 1)

    def batch(self, start: SourceOffset, end: SourceOffset) -> StreamBatch:
        """Return the files of a micro-batch.

        Args:
            start: the start offset of the batch. For the first batch, it is the result of
                `initial_offset`; see `_corrected_start`.
            end: the end offset of the batch.
        """
        self._check_schema_of_last_run(start)
        start = _corrected_start(start, end)
        if start.position < end.position:
            last = end.version if end.index >= 0 else end.version - 1
            if self._tracking is not None:
                self._initialize_tracking(start, last)
            self._check_schema_once(start.version, last)
        builder = ScanBuilder(self._read_state).with_time_zone(self._options.time_zone)
        scan = builder.with_read_schema(self._columns).build()
        state = scan.scan_state(self._engine)
        if self._options.read_change_feed:
            return StreamBatch(state=state, changes=tuple(self._changes(start, end)))
        adds = tuple(a for a in self._adds(start, end) if len(a))
        vectors = any(pc.struct_field(a, "deletionVector").null_count < len(a) for a in adds)
        return StreamBatch(state=replace(state, deletion_vectors=vectors), adds=adds)

    def commit(self, end: SourceOffset) -> None:
        """Finish a micro-batch. A metadata change at the offset `end` is written to the schema log.

        Raises:
            StreamingSourceError: the schema log was updated, and the query must be restarted.
        """
        if self._tracking is not None:
            self._tracking.evolve(self._engine, end)

    def close(self) -> None:
        """Delete the list of the initial snapshot's files from memory and disk."""
        if self._snapshot is not None:
            self._snapshot[1].close()
            self._snapshot = None

    def _next(self, start: SourceOffset, limits: RemainingLimits | None) -> SourceOffset:
        bound = self._bound
        if bound is not None and start.position >= bound.position:
            return start
        plan = next_feed_offset if self._options.read_change_feed else next_offset
        return plan(start, self._commits_from(start), limits, bound)

    def _commits_from(self, start: SourceOffset) -> Iterator[CommitFileSizes]:
        version = start.version
        if start.initial:
            yield self._snapshot_file_sizes(version)
            version += 1
        end = None
        if self._bound is not None:
            end = self._bound.version - (self._bound.index == BASE_INDEX)
        for files in self._commits.commits(self._engine, version, end):
            yield self._commit_file_sizes(files)

    def _snapshot_file_sizes(self, version: int) -> CommitFileSizes:
        _, files = self._initial_snapshot(version)
        excluded = frozenset[int]()
        if self._options.read_change_feed and self._options.exclude is not None:
            paths = (p for a in files.adds(0) for p in pc.struct_field(a, "path").to_pylist())
            excluded = self._excluded(paths)
        return CommitFileSizes(
            version=version, count=files.count, sizes=files.sizes, excluded=excluded
        )

    def _commit_file_sizes(self, files: CommitFiles) -> CommitFileSizes:
        skipped = self._check_commit(files)
        excluded = frozenset[int]()
        if self._options.read_change_feed and self._options.exclude is not None:
            excluded = self._excluded(files.paths.to_pylist())
        sizes = files.sizes
        return CommitFileSizes(
            version=files.version,
            count=0 if skipped else len(sizes),
            sizes=lambda first: [sizes.slice(first)],
            excluded=excluded,
            has_change_data_files=files.recorded,
            in_one_batch=files.read_together,
            changes_metadata=self._tracking is not None and self._tracking.is_change(files),
        )

    def _check_commit(self, files: CommitFiles) -> bool:
        """Return whether the stream skips a commit.

        Raises:
            StreamingSourceError: the stream can't read the commit.
        """
        if files.metadata is not None and self._tracking is None:
            self._schema.check(files.metadata, files.version, at_start=False)
        if self._options.read_change_feed:
            return False
        return check_commit(files, self._options, self.table)

    def _excluded(self, paths: Iterable[Any]) -> frozenset[int]:
        exclude = self._options.exclude
        assert exclude is not None  # checked by callers
        return frozenset(n for n, path in enumerate(paths) if exclude.search(path))

    def _adds(self, start: SourceOffset, end: SourceOffset) -> Iterator[pa.StructArray]:
        version = start.version
        if start.initial:
            _, files = self._initial_snapshot(version)
            stop = end.index + 1 if end.version == version else None
            for adds in files.adds(max(0, start.index + 1), stop):
                yield self._without_excluded(adds)
            version += 1
        for commit, first, stop in self._commits_between(version, start, end):
            assert commit.adds is not None  # None only for the change data feed
            if not self._check_commit(commit):
                adds = commit.adds.slice(first, stop - first)
                assert isinstance(adds, pa.StructArray)
                yield self._without_excluded(adds)

    def _without_excluded(self, adds: pa.StructArray) -> pa.StructArray:
        if self._options.exclude is None:
            return adds
        search = self._options.exclude.search
        included = [search(path) is None for path in pc.struct_field(adds, "path").to_pylist()]
        filtered = adds.filter(pa.array(included, pa.bool_()))
        assert isinstance(filtered, pa.StructArray)
        return filtered

    def _changes(self, start: SourceOffset, end: SourceOffset) -> Iterator[ChangeFile]:
        version, first_version = start.version, start.version
        if start.initial:
            state, files = self._initial_snapshot(version)
            self._check_recorded(state.metadata.configuration, version, first_version, end)
            timestamp = commit_timestamp(state)
            stop = end.index + 1 if end.version == version else None
            for adds in files.adds(max(0, start.index + 1), stop):
                batch = ScanFileBatch(scan_batch(self.table, self._without_excluded(adds)))
                for file in batch.rows():
                    yield ChangeFile(
                        file=file, version=version, timestamp=timestamp, change_type=INSERT
                    )
            version += 1
        elif start.position < end.position and self._feed_checked_to < version - 1:
            state = load_table_state(self._engine, self.table, version)
            self._check_recorded(state.metadata.configuration, version, first_version, end)
        plan = self._change_plan()
        for commit, first, stop in self._commits_between(version, start, end):
            if commit.metadata is not None:
                configuration = commit.metadata.configuration
                self._check_recorded(configuration, commit.version, first_version, end)
            self._check_commit(commit)
            yield from self._changes_of(plan, commit, first, stop)
            self._feed_checked_to = commit.version

    def _changes_of(
        self, plan: ChangePlan, commit: CommitFiles, first: int, stop: int
    ) -> Iterator[ChangeFile]:
        """Yield the files that the change data feed reads for one commit.

        Args:
            plan: finds the files of the change data feed.
            first: index of the first file to read, in the list of the commit's files.
            stop: index after the last file to read.
        """
        excluded = frozenset[int]()
        paths: list[Any] = commit.paths.to_pylist()
        if self._options.exclude is not None:
            excluded = self._excluded(paths)
        indexes = [n for n in range(first, stop) if n not in excluded]
        if not indexes:
            return
        selected = {canonical_path(paths[n]) for n in indexes}
        for change in plan.files_of(self._engine, commit.commit):
            if canonical_path(change.file.path) in selected:
                yield change

    def _change_plan(self) -> ChangePlan:
        state = self._read_state
        return ChangePlan(
            commits=None,
            read_state=state,
            partitioned=bool(state.partition_columns),
            scan=ScanBuilder(state)
            .with_time_zone(self._options.time_zone)
            .with_read_schema(self._columns)
            .build(),
            prunes=False,
            feed_filters=(),
        )

    def _commits_between(
        self, version: int, start: SourceOffset, end: SourceOffset
    ) -> Iterator[tuple[CommitFiles, int, int]]:
        """Yield the commits of a batch, each with the range of files to read.

        Each item is a tuple: the commit, the index of the first file to read, and the index after
        the last file to read.

        Args:
            version: the version of the first commit.
        """
        last = end.version if end.index >= 0 else end.version - 1
        expected = version
        for commit in self._commits.commits(self._engine, version, last):
            first = max(0, start.index + 1) if commit.version == start.version else 0
            stop = len(commit.sizes)
            if commit.version == end.version:
                stop = min(stop, end.index + 1)
            yield commit, first, max(first, stop)
            expected = commit.version + 1
        if expected <= last and self._options.fail_on_data_loss:
            raise streaming_error(
                "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
                f"Table {self.table}: commits from version {expected} on are missing, but the "
                f"stream's checkpoint contains version {last}. Restore the commits, or start the "
                "query with a new checkpointLocation.",
                table=self.table,
                version=expected,
            )

    def _initial_snapshot(self, version: int) -> tuple[TableState, SortedFiles]:
        """Return the table state of a version, and the sorted list of the version's files.

        The last result is cached. If the cached list was deleted from disk, the files are sorted
        again.
        """
        known = self._snapshot
        if known is not None and known[0].version == version and known[1].is_available:
            return known
        self.close()
        state = self._state if version == self._state.version else self._load(version)
        if self._tracking is not None:
            self._tracking.check_initial(self._engine, state)
        check_initial_files(self._engine, state, self._options.max_initial_files)
        files = request_sorted_files(self._options.driver_folder, state.table_id, version)
        if files is None:
            scan = ScanBuilder(state).build()
            with scan.scan_files(self._engine) as batches:
                files = SortedFiles.build(
                    (_with_path_order(batch) for batch in batches), self._options.sort_memory
                )
        self._snapshot = (state, files)
        return self._snapshot

    def _load(self, version: int) -> TableState:
        try:
            return load_table_state(self._engine, self.table, version)
        except VersionNotFoundError as error:
            raise streaming_error(
                "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
                f"Table {self.table}: the stream reads the initial snapshot of version {version}, "
                f"but this version can't be rebuilt from the log: {error.message} Start the query "
                "with a new checkpointLocation. A longer delta.logRetentionDuration retains "
                "versions for slower streams.",
                table=self.table,
                version=version,
            ) from error

    def _initialize_tracking(self, start: SourceOffset, end: int | None) -> None:
        assert self._tracking is not None
        if self._tracking.needs_initialization:
            is_new = start.initial or start == self.initial_offset()
            self._tracking.initialize(self._engine, start, end, is_new)

    def _check_schema_of_last_run(self, start: SourceOffset) -> None:
        """Raise an error if the schema has changed since the last run of the query.

        The method compares the stream's schema with the schema of the last version that the last
        run has read. `_check_schema_once` isn't enough, because it only checks the versions of the
        next batch. If the first of these versions has changed the schema, the stream already has
        the new schema, and `_check_schema_once` finds no difference.

        delta-spark doesn't need this check: after a restart, Spark plans the last batch of a JVM
        source again, and delta-spark checks the versions of this batch.

        Args:
            start: the start offset of the first batch after the restart.
        """
        if self._tracking is not None or self._restart_checked:
            return
        self._restart_checked = True
        if start == self._initial or start.initial or start.index != BASE_INDEX:
            return  # nothing was read, or `_check_schema_once` checks this version
        version = start.version - 1
        if version < 0 or version == self._state.version:
            return
        try:
            state = load_table_state(self._engine, self.table, version)
        except VersionNotFoundError as error:
            if self._state.column_mapping != "none" and self._sets_metadata(start.version):
                raise self._unknown_mapping(version) from error
            return
        self._schema.check(state.metadata, version, at_start=True)

    def _sets_metadata(self, version: int) -> bool:
        """Whether the commit of a version exists and has a `metaData` action."""
        if version > self._state.version:
            return False
        commits = self._commits.commits(self._engine, version, version)
        return any(commit.metadata is not None for commit in commits)

    def _unknown_mapping(self, version: int) -> StreamingSourceError:
        return streaming_error(
            "DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT",
            f"Table {self.table}: version {version} can't be rebuilt, so its column mapping at the "
            "stream's start is unknown. Use a later startingVersion.",
            table=self.table,
            version=version,
        )

    def _check_schema_once(self, start: int, end: int | None) -> None:
        """Raise an error if the stream's schema can't read the rows of a batch.

        Only the first call checks the schema.

        Args:
            start: the first version of the batch.
            end: the last version of the batch. If None, only the version `start` is checked.
        """
        if self._tracking is not None or self._schema_checked:
            return
        state: TableState | None = self._state
        if start != self._state.version:
            try:
                state = load_table_state(self._engine, self.table, start)
            except VersionNotFoundError as error:
                state = None
                if self._state.column_mapping != "none":
                    raise self._unknown_mapping(start) from error
        if state is not None:
            self._schema.check(state.metadata, state.version, at_start=True)
            if end is not None and end >= start:
                for commit in self._commits.commits(self._engine, start, end):
                    if commit.metadata is not None:
                        self._schema.check(commit.metadata, commit.version, at_start=True)
        self._schema_checked = True

    def _check_recorded(
        self, configuration: dict[str, str], version: int, first: int, end: SourceOffset
    ) -> None:
        if is_change_data_feed_enabled(configuration):
            return
        raise streaming_error(
            "DELTA_MISSING_CHANGE_DATA",
            f"Table {self.table}: its change data feed isn't enabled at version {version}, so the "
            f"changes of versions {first} to {end.version} can't be read. Set the table property "
            "delta.enableChangeDataFeed to true, and set startingVersion to a later version.",
            table=self.table,
            version=version,
        )


def _corrected_start(start: SourceOffset, end: SourceOffset) -> SourceOffset:
    """Return the start offset of a batch, with the correct version of the initial snapshot.

    Only the start offset of a stream's first batch can be wrong. After a restart, this offset is
    computed again from the latest version, which can be later than the version of the initial
    snapshot. The correct version follows from `end`.
    """
    if not (start.initial and start.index == BASE_INDEX):
        return start
    version = end.version if end.initial else end.version - 1
    return replace(start, version=version)


def _with_path_order(batch: ScanFileBatch) -> tuple[pa.StructArray, pa.Array[Any]]:
    adds: Any = batch.selected().column("add")
    return without_statistics(adds), path_order(pc.struct_field(adds, "path"))
