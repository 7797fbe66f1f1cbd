"""Scans of a table version, and the builder of scans."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.errors import (
    ArgumentError,
    CorruptTableError,
)
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.read_ahead import read_ahead
from bayou.kernel.arrow.row import FilteredColumnarBatch
from bayou.kernel.checkpoint.add_files import CheckpointAdds, read_checkpoint_adds
from bayou.kernel.checkpoint.fallback import live_files_without_checkpoint
from bayou.kernel.checkpoint.parsed_stats import full_stats_type
from bayou.kernel.checkpoint.read import locate_checkpoint_files
from bayou.kernel.checkpoint.stats import cache_statistics, with_cached_statistics
from bayou.kernel.crc.read import FileTotals, compare_totals
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.expressions.model import And, Predicate, referenced_columns
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.log.slices import (
    LogSlice,
    checkpoint_slices,
    tail_slices,
)
from bayou.kernel.log.table_state import TableState
from bayou.kernel.metrics import ScanCounts, ScanReport, measured
from bayou.kernel.scan.scan_definition import ScanDefinition, ScanSource
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch, scan_batch
from bayou.kernel.scan.scan_state import (
    METADATA_COLUMNS,
    ScanState,
    check_metadata_columns,
    decode_scan,
    encode_scan,
)
from bayou.kernel.scan.transform import select_columns, transform_physical_data
from bayou.kernel.table_features.column_mapping import to_physical_schema
from bayou.protocol.schema import STRING, VOID, StructType

if TYPE_CHECKING:
    from bayou.kernel.scan.data_skipping.pruning import Pruning
    from bayou.kernel.scan.data_skipping.skipping import SkippingPlan

_MIN_READ_AHEAD_SIZE = 1 << 20
"""Minimum size in bytes of a checkpoint file that is read ahead by a background thread."""

_BASE_COLUMNS = ("path", "partitionValues", "size", "modificationTime")


class ScanBuilder:
    """Builds a `Scan`. Each `with_` method returns a new builder.

    Examples:
        >>> wanted = snapshot.schema.select(["id", "price"])
        >>> builder = snapshot.scan_builder().with_filter("price > 10")
        >>> scan = builder.with_read_schema(wanted).build()
    """

    __slots__ = (
        "_dictionary_columns",
        "_filter",
        "_metadata_columns",
        "_read_schema",
        "_state",
        "_statistics",
        "_time_zone",
        "_whole_adds",
    )

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._filter: Predicate | str | None = None
        self._read_schema: StructType | None = None
        self._metadata_columns: tuple[str, ...] = ()
        self._statistics = False
        self._whole_adds = False
        self._time_zone = "UTC"
        self._dictionary_columns: tuple[str, ...] = ()

    def with_filter(self, filter: Predicate | str | None) -> ScanBuilder:
        """Set the filter: only files that may contain matching rows are selected.

        Args:
            filter: SQL condition or predicate; None for no filter.
        """
        builder = copy.copy(self)
        builder._filter = filter
        return builder

    def with_read_schema(self, schema: StructType | None) -> ScanBuilder:
        """Read only these columns and nested fields, in this order; None for all columns."""
        builder = copy.copy(self)
        builder._read_schema = schema
        return builder

    def with_metadata_columns(self, names: Iterable[str]) -> ScanBuilder:
        """Append metadata columns to the rows; `Scan.METADATA_COLUMNS` lists the possible names."""
        builder = copy.copy(self)
        builder._metadata_columns = tuple(names)
        return builder

    def with_statistics(self) -> ScanBuilder:
        """Include `add.stats` in scan files, even if the filter doesn't need statistics."""
        builder = copy.copy(self)
        builder._statistics = True
        return builder

    def with_time_zone(self, name: str) -> ScanBuilder:
        """Set the time zone for `timestamp` partition values whose strings have none; default UTC.

        Raises:
            ArgumentError: the time zone doesn't exist.
        """
        from bayou.kernel.expressions.literals import normalize_time_zone

        builder = copy.copy(self)
        builder._time_zone = normalize_time_zone(name)
        return builder

    def with_dictionary_columns(self, names: Iterable[str]) -> ScanBuilder:
        """Return these columns as dictionary arrays of strings.

        Strings with few different values are read faster as dictionary arrays. Only top-level
        string columns that aren't partition columns are supported; other names are ignored.
        """
        builder = copy.copy(self)
        builder._dictionary_columns = tuple(names)
        return builder

    def with_whole_adds(self) -> ScanBuilder:
        """Include all fields of `add` in scan files, for callers that remove or copy files."""
        builder = copy.copy(self)
        builder._statistics = True
        builder._whole_adds = True
        return builder

    def build(self) -> Scan:
        """Build the scan.

        Raises:
            PredicateError: the filter can't be parsed, or references an unknown column.
            SchemaError: a column of the read schema isn't in the table, or has a different type in
                the table.
            UnsupportedFeatureError: row ids are requested of a table without row tracking.
        """
        source = ScanSource.of(self._state)
        if self._whole_adds:
            source = source.with_whole_adds()
        predicate = self._filter
        if isinstance(predicate, str):
            from bayou.kernel.expressions.sql.parser import parse_predicate

            predicate = parse_predicate(predicate)
        if predicate is not None:
            from bayou.kernel.expressions.resolution import resolve

            predicate = resolve(predicate, source.schema)
        read_schema = source.schema
        if self._read_schema is not None:
            read_schema = select_columns(source.table, source.schema, self._read_schema)
        return Scan(
            ScanDefinition(
                source=source,
                predicate=predicate,
                read_schema=read_schema,
                statistics=self._statistics,
                time_zone=self._time_zone,
                dictionary_columns=tuple(
                    field.name
                    for field in read_schema
                    if field.name in self._dictionary_columns
                    and field.data_type == STRING
                    and field.name not in source.partition_columns
                ),
                metadata_columns=check_metadata_columns(
                    source.table,
                    self._metadata_columns,
                    has_row_tracking=source.row_tracking is not None,
                ),
            )
        )


class Scan:
    """A planned read of one version of a table. Holds no engine and no open file.

    `scan_files` lists all files of the scan. To list the files in several processes, call `slices`
    and `to_bytes` in this process, and `from_bytes` and `replay_slice` in the other processes.

    Examples:
        >>> scan = snapshot.scan_builder().with_filter("country = 'NZ'").build()
        >>> with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        ...     print([file.path for file in files])
    """

    METADATA_COLUMNS = METADATA_COLUMNS
    """Names of the metadata columns that `ScanBuilder.with_metadata_columns` can append to rows:
    `_metadata.file_path`, `_metadata.file_name`, `_metadata.file_size`,
    `_metadata.file_modification_time`, `_metadata.row_index`, `_metadata.row_id`,
    `_metadata.row_commit_version`."""

    __slots__ = ("_definition", "_plan", "_pruning", "_source")

    def __init__(self, definition: ScanDefinition) -> None:
        source, predicate = definition.source, definition.predicate
        self._definition = definition
        self._source = source
        self._plan: SkippingPlan | None = None
        self._pruning: Pruning | None = None
        if predicate is not None:
            from bayou.kernel.scan.data_skipping.pruning import Pruning
            from bayou.kernel.scan.data_skipping.skipping import SkippingPlan

            self._plan = SkippingPlan.build(predicate, source.schema, source.partition_columns)
            self._pruning = Pruning(
                source.table,
                source.schema,
                self._plan,
                exact_double_files=source.exact_double_files,
                time_zone=definition.time_zone,
            )

    @property
    def definition(self) -> ScanDefinition:
        """The definition of this scan; `Scan(definition)` creates an equal scan."""
        return self._definition

    @property
    def reads_statistics(self) -> bool:
        """Whether the scan reads statistics, for its filter or because of `with_statistics`."""
        needed = self._pruning is not None and self._pruning.needs_statistics
        return self._definition.statistics or needed

    @property
    def remaining_filter(self) -> Predicate | None:
        """The filter that the caller must apply to rows; None if all rows of the files match."""
        return None if self._plan is None else self._plan.residual

    @property
    def checkpoint_bytes(self) -> int:
        """Size of the checkpoint in bytes; 0 if there is no checkpoint."""
        if self._source.contents is not None:
            return self._source.contents.size
        return 0 if self._source.checkpoint is None else self._source.checkpoint.size

    def scan_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        """List the files to read, in batches. The log is read batch by batch, to limit memory.

        If the checkpoint can't be read, older log files are read instead.

        Raises:
            CorruptTableError: the checkpoint can't be read, and older log files can't replace it:
                some of them are missing, or files of the checkpoint were already returned.
            UnsupportedFeatureError: a live file requires an unsupported feature.
        """
        return self._measured(engine, lambda counts: self._list_files(engine, counts))

    def slices(self, engine: Engine, max_slices: int | None = None) -> list[LogSlice]:
        """Split the log into slices that processes can replay independently of each other.

        The first slices contain the live files that aren't in the checkpoint's Parquet files. The
        other slices contain row groups of the checkpoint's Parquet files.

        Args:
            max_slices: approximate maximum number of slices of the checkpoint. If None, each
                checkpoint file is one slice.

        Raises:
            ArgumentError: the scan was deserialized.
        """
        source = self._source
        if source.tail is None:
            raise ArgumentError(
                f"{source.table}: slices can't be listed, because the scan was deserialized. List "
                "them with the original scan.",
                argument="slices",
            )
        tail, contents = source.tail, source.contents
        if source.checkpoint is not None and contents is None:
            try:
                contents = locate_checkpoint_files(engine, source.table, source.checkpoint)
            except CorruptTableError as error:
                tail = (live_files_without_checkpoint(engine, source, error),)
        slices = [log_slice for adds in tail for log_slice in tail_slices(adds, max_slices)]
        if contents is not None:
            slices += checkpoint_slices(engine, source.table, contents, max_slices)
        return slices

    def replay_slice(self, engine: Engine, log_slice: LogSlice) -> CloseableIterator[ScanFileBatch]:
        """List the files to read in a slice of the log."""
        return self._measured(engine, lambda counts: self._replay_slice(engine, log_slice, counts))

    def prune(self, engine: Engine, adds: pa.StructArray) -> CloseableIterator[ScanFileBatch]:
        """Apply the scan's filter to live files, and return the files to read.

        Args:
            adds: live files as `ADD_TYPE`. Files without `stats` aren't skipped by statistics.
        """
        return CloseableIterator(self._select(engine, CheckpointAdds(adds), None, None))

    def _measured(
        self,
        engine: Engine,
        plan: Callable[[ScanCounts | None], CloseableIterator[ScanFileBatch]],
    ) -> CloseableIterator[ScanFileBatch]:
        if engine.metrics_reporter is None:
            return plan(None)
        return self._report_metrics(engine, plan)

    @closeable
    def _report_metrics(
        self, engine: Engine, plan: Callable[[ScanCounts], CloseableIterator[ScanFileBatch]]
    ) -> Iterator[ScanFileBatch]:
        counts = ScanCounts()
        selected = selected_bytes = 0
        is_complete = False

        def report(duration_ms: float, error: str | None) -> ScanReport:
            predicate = self._definition.predicate
            return ScanReport(
                table=self._source.table,
                filter=None if predicate is None else str(predicate),
                duration_ms=duration_ms,
                log_bytes=counts.log_bytes,
                files_considered=counts.considered,
                files_pruned_by_partition=counts.pruned_by_partition,
                files_skipped_by_statistics=counts.skipped_by_statistics,
                files_selected=selected,
                bytes_selected=selected_bytes,
                is_complete=is_complete,
                error=error,
            )

        with plan(counts) as batches, measured(engine.metrics_reporter, report) as watch:
            for batch in batches:
                selected += batch.num_selected
                sizes = pc.struct_field(batch.selected().column("add"), "size")
                selected_bytes += pc.sum(sizes).as_py() or 0
                with watch.paused():
                    yield batch
            is_complete = True

    def _list_files(
        self, engine: Engine, counts: ScanCounts | None
    ) -> CloseableIterator[ScanFileBatch]:
        files = self._replay_slices(engine, counts)
        totals = self._source.checksum_totals
        if totals is None or self._plan is not None:
            return files
        return self._check_totals(files, totals)

    @closeable
    def _check_totals(
        self, files: CloseableIterator[ScanFileBatch], totals: FileTotals
    ) -> Iterator[ScanFileBatch]:
        """Yield the files; log a warning if their number or total size differs from `totals`.

        Args:
            totals: number and total size of the live files, read from the version checksum.
        """
        number = size = 0
        with files:
            for batch in files:
                yield batch
                sizes = pc.struct_field(batch.data.column("add"), "size")
                if batch.selection is not None:
                    sizes = sizes.filter(batch.selection)
                number += len(sizes)
                size += pc.sum(sizes).as_py() or 0
        source = self._source
        compare_totals(source.table, source.version, totals, FileTotals(number, size))

    @closeable
    def _replay_slices(self, engine: Engine, counts: ScanCounts | None) -> Iterator[ScanFileBatch]:
        returned_checkpoint_files = False
        for log_slice in self.slices(engine):
            try:
                with self._replay_slice(engine, log_slice, counts) as batches:
                    for batch in batches:
                        returned_checkpoint_files |= log_slice.split is not None
                        yield batch
            except CorruptTableError as error:
                is_other_file = log_slice.split is None or error.file != log_slice.split.path
                if returned_checkpoint_files or is_other_file:
                    raise
                yield from self._list_without_checkpoint(engine, counts, error)
                return

    def _list_without_checkpoint(
        self, engine: Engine, counts: ScanCounts | None, error: CorruptTableError
    ) -> Iterator[ScanFileBatch]:
        """Use older log files to list the live files, because the checkpoint can't be read.

        Files that were added after the checkpoint are omitted, because they were already returned.

        Args:
            error: the error of reading the checkpoint. This error is raised if older log files
                can't replace the checkpoint.
        """
        source = self._source
        if source.checkpoint is None or (source.contents is not None and source.contents.adds):
            raise error
        live = live_files_without_checkpoint(engine, source, error)
        yield from self._select(engine, CheckpointAdds(live), source.seen_keys, counts)

    @closeable
    def _replay_slice(
        self, engine: Engine, log_slice: LogSlice, counts: ScanCounts | None
    ) -> Iterator[ScanFileBatch]:
        if counts is not None:
            counts.log_bytes += log_slice.estimated_bytes
        if log_slice.adds is not None:
            yield from self._select(engine, CheckpointAdds(log_slice.adds), None, counts)
        if log_slice.split is None:
            return
        with self._checkpoint_adds(engine, log_slice.split) as batches:
            for files in batches:
                yield from self._select(engine, files, self._source.seen_keys, counts)

    def _checkpoint_adds(
        self, engine: Engine, split: FileSplit
    ) -> CloseableIterator[CheckpointAdds]:
        cache, pruning = self._source.statistics_cache, self._pruning
        schema = None if pruning is None else pruning.stats_schema
        if cache is None or pruning is None or schema is None or self._definition.statistics:
            return self._read(engine, split, self._columns())
        statistics = cache.get(split, schema)
        if statistics is None:
            files = self._read(engine, split, self._columns())
            if pruning.prunes_partitions:  # most files are pruned before statistics are parsed
                return files
            return cache_statistics(
                files, partial(pruning.statistics, engine), partial(cache.put, split, schema)
            )
        files = self._read(engine, split, (*_BASE_COLUMNS, *self._source.columns))
        return with_cached_statistics(files, statistics)

    def _read(
        self, engine: Engine, split: FileSplit, columns: tuple[str, ...]
    ) -> CloseableIterator[CheckpointAdds]:
        source = self._source
        parsed: pa.DataType | None = None
        if self._definition.statistics:
            parsed = full_stats_type(to_physical_schema(source.schema, source.column_mapping))
        elif self._pruning is not None:
            parsed = self._pruning.parsed_type
        batches = read_checkpoint_adds(
            engine,
            source.table,
            split,
            columns,
            parsed=parsed,
            forms=source.stats_forms,
            as_json=self._definition.statistics,
        )
        # The statistics of a batch are parsed while a thread reads the next batch.
        if "stats" in columns and (split.size or 0) >= _MIN_READ_AHEAD_SIZE:
            return read_ahead(batches, 1)
        return batches

    def scan_state(self, engine: Engine) -> ScanState:
        """Return the state with which any process can read the rows of a scan file."""
        return ScanState(
            table=self._source.table,
            logical_schema=self._definition.read_schema,
            partition_columns=self._source.partition_columns,
            metadata_columns=self._definition.metadata_columns,
            row_tracking=self._source.row_tracking,
            predicate=self._data_predicate(),
            column_mapping=self._source.column_mapping,
            deletion_vectors="deletionVector" in self._source.columns,
            time_zone=self._definition.time_zone,
            dictionary_columns=self._definition.dictionary_columns,
        )

    def _data_predicate(self) -> Predicate | None:
        """Return the conjuncts of the filter that reference only columns of the data files."""
        if self._plan is None or self._plan.residual is None:
            return None
        residual = self._plan.residual
        data_columns = {f.name for f in self._definition.read_schema if f.data_type != VOID}
        data_columns -= set(self._source.partition_columns)
        conjuncts = residual.operands if isinstance(residual, And) else (residual,)
        selected = tuple(
            conjunct
            for conjunct in conjuncts
            if all(path[0] in data_columns for path in referenced_columns(conjunct))
        )
        if len(selected) < 2:
            return selected[0] if selected else None
        return And(selected)

    @staticmethod
    def transform_physical_data(
        engine: Engine, state: ScanState, file: ScanFile, batches: Iterable[pa.RecordBatch]
    ) -> CloseableIterator[FilteredColumnarBatch]:
        """Convert the rows of a data file to rows of the table.

        Rows that the file's deletion vector deletes aren't selected in the result.

        Args:
            batches: rows of `file`, read with `state.physical_read_schema`. Closing the result
                closes `batches`.
        """
        return transform_physical_data(engine, state, file, batches)

    def to_bytes(self) -> bytes:
        """Serialize the scan, but not its list of files, for a process that replays slices."""
        return encode_scan(self._definition)

    @classmethod
    def from_bytes(cls, data: bytes) -> Scan:
        """Deserialize a scan from the bytes that `to_bytes` returned.

        The new scan can replay slices. Its methods `slices` and `scan_files` raise `ArgumentError`.

        Raises:
            SerializationError: the bytes aren't a scan, or a newer version of Bayou wrote them.
        """
        return cls(decode_scan(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def _columns(self) -> tuple[str, ...]:
        stats = ("stats",) if self.reads_statistics else ()
        return (*_BASE_COLUMNS, *self._source.columns, *stats)

    def _select(
        self,
        engine: Engine,
        files: CheckpointAdds,
        seen_keys: FileActionKeys | None,
        counts: ScanCounts | None,
    ) -> Iterator[ScanFileBatch]:
        if len(files.adds) == 0:
            return
        if counts is not None:
            files, seen_keys = _filter_live(files, seen_keys), None
            counts.considered += len(files.adds)
        adds = files.adds
        if self._pruning is not None:
            adds, selection = self._pruning.select(engine, files, seen_keys, counts)
        else:
            selection = None if seen_keys is None else seen_keys.unseen_mask(adds)
        if selection is not None:
            selected = selection.true_count
            if selected == len(adds):
                selection = None
            elif selected < len(adds) // 2:
                adds, selection = adds.filter(selection), None
        if len(adds) == 0:
            return
        yield ScanFileBatch(scan_batch(self._source.table, adds), selection)


def _filter_live(files: CheckpointAdds, seen_keys: FileActionKeys | None) -> CheckpointAdds:
    unseen = None if seen_keys is None else seen_keys.unseen_mask(files.adds)
    return files if unseen is None else files.filter(unseen)
