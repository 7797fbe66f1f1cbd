"""Scans: which files answer a query, and how their rows are read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import (
    ArgumentError,
    CorruptTableError,
)
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.row import FilteredColumnarBatch
from bayou.kernel.checkpoint.add_files import CheckpointAdds, read_checkpoint_adds
from bayou.kernel.checkpoint.contents import locate_checkpoint_files
from bayou.kernel.checkpoint.fallback import live_files_without_checkpoint
from bayou.kernel.checkpoint.parsed_stats import full_stats_type
from bayou.kernel.checkpoint.stats import keeping_statistics, with_known_statistics
from bayou.kernel.crc.read import FileTotals, compare_totals
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.literals import checked_time_zone
from bayou.kernel.expressions.model import And, Predicate, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.file_action_keys import TouchedKeys
from bayou.kernel.log.slices import (
    LogSlice,
    checkpoint_slices,
    tail_slices,
)
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.data_skipping.pruning import Pruning
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.kernel.scan.metrics import ScanCounts, measured
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch, scan_batch
from bayou.kernel.scan.scan_state import (
    METADATA_COLUMNS,
    ScanState,
    checked_metadata_columns,
    decode_scan,
    encode_scan,
)
from bayou.kernel.scan.source import ScanDefinition, ScanSource
from bayou.kernel.scan.transform import select_columns, transform_physical_data
from bayou.kernel.table_features.column_mapping import to_physical_schema
from bayou.protocol.schema import VOID, StructType

__all__ = ["Scan", "ScanBuilder"]

pc: Any = pyarrow.compute

_BASE_COLUMNS = ("path", "partitionValues", "size", "modificationTime")


class ScanBuilder:
    """Builds a `Scan`; each method gives a new builder."""

    __slots__ = (
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

    def with_filter(self, filter: Predicate | str | None) -> ScanBuilder:
        """Only files that may hold a row for which the filter is true; SQL text or a predicate."""
        builder = copy.copy(self)
        builder._filter = filter
        return builder

    def with_read_schema(self, schema: StructType | None) -> ScanBuilder:
        """Only these columns, in this order; of structs only the fields named, in their order."""
        builder = copy.copy(self)
        builder._read_schema = schema
        return builder

    def with_metadata_columns(self, names: Iterable[str]) -> ScanBuilder:
        """Rows also tell where they are from: names of `Scan.METADATA_COLUMNS`, put last."""
        builder = copy.copy(self)
        builder._metadata_columns = tuple(names)
        return builder

    def with_statistics(self) -> ScanBuilder:
        """Scan files carry their statistics (`stats`), also where the filter doesn't need them."""
        builder = copy.copy(self)
        builder._statistics = True
        return builder

    def with_time_zone(self, name: str) -> ScanBuilder:
        """Partition values that are timestamps without a zone are read in this one, not in UTC.

        Raises:
            ArgumentError: there is no such time zone.
        """
        builder = copy.copy(self)
        builder._time_zone = checked_time_zone(name)
        return builder

    def with_whole_adds(self) -> ScanBuilder:
        """Scan files carry every field of their add: to be removed, or added again elsewhere."""
        builder = copy.copy(self)
        builder._statistics = True
        builder._whole_adds = True
        return builder

    def build(self) -> Scan:
        """The scan.

        Raises:
            PredicateError: the filter can't be parsed, or names an unknown column.
            SchemaError: the read schema names an unknown column, or gives it another type.
            UnsupportedFeatureError: row ids of a table without row tracking.
        """
        source = ScanSource.of(self._state)
        if self._whole_adds:
            source = source.with_whole_adds()
        predicate = self._filter
        if isinstance(predicate, str):
            predicate = parse_predicate(predicate)
        if predicate is not None:
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
                metadata_columns=checked_metadata_columns(
                    source.table, self._metadata_columns, tracked=source.row_tracking is not None
                ),
            )
        )


class Scan:
    """A planned read of one version of a table; holds no engine and no open file.

    Files come by `scan_files`, or slice by slice in several processes: `slices` here, then
    `to_bytes` and `replay_slice` there.
    """

    METADATA_COLUMNS = METADATA_COLUMNS
    """`_metadata.file_path`, `_metadata.file_name`, `_metadata.file_size`,
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
            self._plan = SkippingPlan.build(predicate, source.schema, source.partition_columns)
            self._pruning = Pruning(
                source.table,
                source.schema,
                self._plan,
                double_files=source.double_files,
                time_zone=definition.time_zone,
            )

    @property
    def definition(self) -> ScanDefinition:
        """What it was built of; another `Scan` of it is the same."""
        return self._definition

    @property
    def reads_statistics(self) -> bool:
        """Whether statistics are read: they were asked for, or the filter goes by them."""
        needed = self._pruning is not None and self._pruning.needs_statistics
        return self._definition.statistics or needed

    @property
    def remaining_filter(self) -> Predicate | None:
        """What the caller must still apply to the rows; None where the files decide it all."""
        return None if self._plan is None else self._plan.residual

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the checkpoint that replay reads; 0 without one."""
        if self._source.contents is not None:
            return self._source.contents.size
        return 0 if self._source.checkpoint is None else self._source.checkpoint.size

    def scan_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        """The files to read, slice after slice; memory is bounded by a batch of the log.

        Raises:
            CorruptTableError: the checkpoint can't be read, and older files of the log don't make
                up for it, or that shows only after files of it were given.
            UnsupportedFeatureError: a live file needs a feature that can't be read.
        """
        return self._measured(engine, lambda counts: self._planned(engine, counts))

    def slices(self, engine: Engine, max_slices: int | None = None) -> list[LogSlice]:
        """The log as independent slices, the tail of commits first.

        Args:
            max_slices: about how many parts to split the checkpoint into, by its row groups; None:
                one for each of its files.

        Raises:
            ArgumentError: the scan came as bytes.
        """
        source = self._source
        if source.tail is None:
            raise ArgumentError(
                f"This scan of {source.table} came as bytes: it replays slices. List them with "
                "the scan that it was made from.",
                argument="slices",
            )
        tail, contents = source.tail, source.contents
        if source.checkpoint is not None and contents is None:
            try:
                contents = locate_checkpoint_files(engine, source.table, source.checkpoint)
            except CorruptTableError as error:
                tail = (live_files_without_checkpoint(engine, source, error),)
        slices = [part for adds in tail for part in tail_slices(adds, max_slices)]
        if contents is not None:
            slices += checkpoint_slices(engine, source.table, contents, max_slices)
        return slices

    def replay_slice(self, engine: Engine, part: LogSlice) -> CloseableIterator[ScanFileBatch]:
        """The files of one slice that the scan must read."""
        return self._measured(engine, lambda counts: self._replayed(engine, part, counts))

    def prune(self, engine: Engine, adds: pa.StructArray) -> CloseableIterator[ScanFileBatch]:
        """Those of some live files that the scan must read.

        Args:
            adds: `ADD_TYPE`, from wherever they were kept; with `stats`, or they stay.
        """
        return CloseableIterator(self._kept(engine, CheckpointAdds(adds), None, None))

    def _measured(
        self,
        engine: Engine,
        plan: Callable[[ScanCounts | None], CloseableIterator[ScanFileBatch]],
    ) -> CloseableIterator[ScanFileBatch]:
        if engine.metrics_reporter is None:
            return plan(None)
        predicate = self._definition.predicate
        text = None if predicate is None else str(predicate)
        return measured(engine.metrics_reporter, self._source.table, text, plan)

    def _planned(
        self, engine: Engine, counts: ScanCounts | None
    ) -> CloseableIterator[ScanFileBatch]:
        files = self._files(engine, counts)
        stated = self._source.stated_totals
        if stated is None or self._plan is not None:
            return files
        return self._compared(files, stated)

    @closeable
    def _compared(
        self, files: CloseableIterator[ScanFileBatch], stated: FileTotals
    ) -> Iterator[ScanFileBatch]:
        """All live files, counted on their way against what the version's checksum says."""
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
        compare_totals(source.table, source.version, stated, FileTotals(number, size))

    @closeable
    def _files(self, engine: Engine, counts: ScanCounts | None) -> Iterator[ScanFileBatch]:
        begun = False  # whether files of the checkpoint are out
        for part in self.slices(engine):
            try:
                with self._replayed(engine, part, counts) as batches:
                    for batch in batches:
                        begun = begun or part.split is not None
                        yield batch
            except CorruptTableError as error:
                if begun or part.split is None or error.file != part.split.path:
                    raise
                yield from self._planned_without(engine, counts, error)
                return

    def _planned_without(
        self, engine: Engine, counts: ScanCounts | None, error: CorruptTableError
    ) -> Iterator[ScanFileBatch]:
        """What the checkpoint should have given, by older files of the log.

        That is all live files but those of the commits behind it, which are out already.
        """
        source = self._source
        if source.checkpoint is None or (source.contents is not None and source.contents.adds):
            raise error
        live = live_files_without_checkpoint(engine, source, error)
        yield from self._kept(engine, CheckpointAdds(live), source.touched, counts)

    @closeable
    def _replayed(
        self, engine: Engine, part: LogSlice, counts: ScanCounts | None
    ) -> Iterator[ScanFileBatch]:
        if counts is not None:
            counts.log_bytes += part.estimated_bytes
        if part.adds is not None:
            yield from self._kept(engine, CheckpointAdds(part.adds), None, counts)
        if part.split is None:
            return
        with self._checkpoint_adds(engine, part.split) as batches:
            for files in batches:
                yield from self._kept(engine, files, self._source.touched, counts)

    def _checkpoint_adds(
        self, engine: Engine, split: FileSplit
    ) -> CloseableIterator[CheckpointAdds]:
        known, pruning = self._source.known_statistics, self._pruning
        wanted = None if pruning is None else pruning.stats_schema
        if known is None or pruning is None or wanted is None or self._definition.statistics:
            return self._read(engine, split, self._columns())
        statistics = known.get(split, wanted)
        if statistics is None:
            files = self._read(engine, split, self._columns())
            if pruning.looks_at_partitions:  # most are left out before theirs is parsed
                return files
            return keeping_statistics(
                files, partial(pruning.statistics, engine), partial(known.keep, split, wanted)
            )
        plain = self._read(engine, split, (*_BASE_COLUMNS, *self._source.columns))
        return with_known_statistics(plain, statistics)

    def _read(
        self, engine: Engine, split: FileSplit, columns: tuple[str, ...]
    ) -> CloseableIterator[CheckpointAdds]:
        source = self._source
        parsed: pa.DataType | None = None
        if self._definition.statistics:
            parsed = full_stats_type(to_physical_schema(source.schema, source.column_mapping))
        elif self._pruning is not None:
            parsed = self._pruning.parsed_type
        return read_checkpoint_adds(
            engine,
            source.table,
            split,
            columns,
            parsed=parsed,
            forms=source.stats_forms,
            as_text=self._definition.statistics,
        )

    def scan_state(self, engine: Engine) -> ScanState:
        """What a worker needs to read scan files, besides the files."""
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
        )

    def _data_predicate(self) -> Predicate | None:
        """The part of the filter that speaks of columns of the data files alone."""
        if self._plan is None or self._plan.residual is None:
            return None
        residual = self._plan.residual
        in_files = {f.name for f in self._definition.read_schema if f.data_type != VOID}
        in_files -= set(self._source.partition_columns)
        conjuncts = residual.operands if isinstance(residual, And) else (residual,)
        kept = tuple(
            part
            for part in conjuncts
            if all(path[0] in in_files for path in referenced_columns(part))
        )
        if len(kept) < 2:
            return kept[0] if kept else None
        return And(kept)

    @staticmethod
    def transform_physical_data(
        engine: Engine, state: ScanState, file: ScanFile, batches: Iterable[pa.RecordBatch]
    ) -> CloseableIterator[FilteredColumnarBatch]:
        """Rows of the table out of the rows of a data file.

        The rows that the file's deletion vector names aren't selected.

        Args:
            batches: of `file`, read with `state.physical_read_schema`; closed with the result.
        """
        return transform_physical_data(engine, state, file, batches)

    def to_bytes(self) -> bytes:
        """For another process, which replays slices; files travel in the slices."""
        return encode_scan(self._definition)

    @classmethod
    def from_bytes(cls, data: bytes) -> Scan:
        """The inverse of `to_bytes`; such a scan replays slices and doesn't list them.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return cls(decode_scan(data))

    def _columns(self) -> tuple[str, ...]:
        stats = ("stats",) if self.reads_statistics else ()
        return (*_BASE_COLUMNS, *self._source.columns, *stats)

    def _kept(
        self,
        engine: Engine,
        files: CheckpointAdds,
        touched: TouchedKeys | None,
        counts: ScanCounts | None,
    ) -> Iterator[ScanFileBatch]:
        if len(files.adds) == 0:
            return
        if counts is not None:
            files, touched = _live(files, touched), None
            counts.considered += len(files.adds)
        adds = files.adds
        if self._pruning is not None:
            adds, selection = self._pruning.keep(engine, files, touched, counts)
        else:
            selection = None if touched is None else touched.untouched(adds)
        if selection is not None:
            kept = selection.true_count
            if kept == len(adds):
                selection = None
            elif kept < len(adds) // 2:
                adds, selection = adds.filter(selection), None
        if len(adds) == 0:
            return
        yield ScanFileBatch(scan_batch(self._source.table, adds), selection)


def _live(files: CheckpointAdds, touched: TouchedKeys | None) -> CheckpointAdds:
    untouched = None if touched is None else touched.untouched(files.adds)
    return files if untouched is None else files.filter(untouched)
