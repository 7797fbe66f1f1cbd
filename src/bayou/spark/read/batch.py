"""Batch reads of one table version by the Python data source.

Spark plans in a separate Python process and reads in tasks. The pickled reader is sent to every
task, so `DeltaReader` pickles as a `ReadTask`, which has the state that all tasks share, without
the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType as SparkStructType

from bayou.errors import BayouError, PredicateError
from bayou.kernel import Scan, ScanFile, ScanState
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler, resolve
from bayou.kernel.expressions.model import Predicate, conjunction, referenced_columns
from bayou.kernel.expressions.serialization import from_tree, to_tree
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.protocol.schema import StructField, StructType
from bayou.spark.errors import readable_errors
from bayou.spark.read import tasks
from bayou.spark.read.filters import cast_to_schema, table_columns, to_predicate
from bayou.spark.read.metadata_column import METADATA, metadata_names, with_metadata
from bayou.spark.read.options import PinnedVersion, SourceOptions, open_pinned
from bayou.spark.read.tasks import MAX_TASK_BYTES, assign_files, task_bytes
from bayou.spark.types import from_spark, to_spark_arrow

__all__ = ["DeltaReader", "FilesPartition", "ReadTask", "SlicePartition"]

MAX_PLANNED_FILES = 50_000
"""If a scan has more files, tasks replay slices of the log instead."""

LARGE_CHECKPOINT_BYTES = 16 * 1024 * 1024
"""Smaller checkpoints (up to about 150,000 files) are always replayed by the planning process."""

SLICE_BYTES = 2 * 1024 * 1024
"""Approximate bytes of a checkpoint that a task replays (20,000 files)."""


class FilesPartition(InputPartition):
    """A task that reads parts of files: (serialized `ScanFile`, part, number of parts)."""

    def __init__(self, shares: tuple[tuple[bytes, int, int], ...]) -> None:
        super().__init__(None)
        self.shares = shares


class SlicePartition(InputPartition):
    """A task that replays a serialized `LogSlice` and reads its files."""

    def __init__(self, log_slice: bytes) -> None:
        super().__init__(None)
        self.log_slice = log_slice


class DeltaReader(DataSourceReader):
    """Plans a read in Spark's planning process.

    Pushed filters are only used with the option `pushFilters`, if Spark's conf enables the
    pushdown. Spark 4.2 and 4.3 keep one plan per `load()`, that of the latest filters, so a reader
    that skips files for one query would lose rows of the next query or of the other side of a
    self-join. With `pushFilters`, a `load()` must serve one query only. The option `filter` applies
    to the `load()` itself and is always safe.
    """

    def __init__(
        self, options: SourceOptions, schema: SparkStructType, pinned: PinnedVersion | None
    ) -> None:
        self._options = options
        self._engine, self._snapshot = open_pinned(options, pinned)
        self._schema = from_spark(schema, table=self._snapshot.path)
        requested = self._schema
        self._metadata: tuple[str, ...] = ()
        metadata_column = requested.get(METADATA)
        if metadata_column is not None and self._snapshot.schema.get(METADATA) is None:
            self._metadata = metadata_names(metadata_column, self._snapshot.path)
            requested = StructType(tuple(f for f in requested if f.name != METADATA))
        self._columns = table_columns(requested, self._snapshot.schema, self._snapshot.path)
        self._filter = _parse_filter(options.filter, self._snapshot.schema)
        self._pushed: Predicate | None = None
        self._plan: tuple[ReadTask, list[InputPartition]] | None = None
        if options.push_filters:
            # Spark rejects a reader that overrides `pushFilters` while its conf disables pushdown,
            # which is the default and isn't visible here. So the class doesn't override the method.
            self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use pushed filters to skip files. Spark evaluates all filters on the rows again."""
        with readable_errors():
            schema = self._snapshot.schema
            candidates = (to_predicate(pushed) for pushed in filters)
            self._pushed = conjunction(
                p for p in candidates if p is not None and _is_usable(p, schema)
            )
            return filters

    def partitions(self) -> list[InputPartition]:
        with readable_errors():
            return self._cached_plan()[1]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._cached_plan()[0].read(partition)

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            task = self._cached_plan()[0]
        except BayouError:
            # An error here would be hidden by pickling. `partitions`, called next, raises it.
            return InputPartition, (None,)
        return ReadTask, (
            task.engine,
            task.state,
            task.scan,
            task.schema,
            task.filter,
            task.metadata,
        )

    def _cached_plan(self) -> tuple[ReadTask, list[InputPartition]]:
        if self._plan is None:
            columns = _with_filter_columns(self._filter, self._columns, self._snapshot.schema)
            builder = self._snapshot.scan_builder().with_read_schema(columns)
            builder = builder.with_metadata_columns(self._metadata)
            builder = builder.with_time_zone(self._options.time_zone)
            filters = [p for p in (self._filter, self._pushed) if p is not None]
            scan = builder.with_filter(conjunction(filters)).build()
            self._plan = (
                self._plan_files(scan, MAX_PLANNED_FILES)
                or self._plan_slices(scan)
                or self._plan_files(scan, None)
            )
            assert self._plan is not None  # planning files without a limit never fails
        return self._plan

    def _plan_files(
        self, scan: Scan, limit: int | None
    ) -> tuple[ReadTask, list[InputPartition]] | None:
        """Plan tasks from a file list; None if a large log has more than `limit` matching files."""
        large = limit is not None and scan.checkpoint_bytes > LARGE_CHECKPOINT_BYTES
        if large and self._filter is None and self._pushed is None:
            return None
        files: list[bytes] = []
        sizes: list[int] = []
        for batch in scan.scan_files(self._engine):
            for file in batch.rows():
                files.append(_without_statistics(file).to_bytes())
                sizes.append(file.size)
            if large and limit is not None and len(files) > limit:
                return None
        target = task_bytes(
            sum(sizes),
            len(sizes),
            min_tasks=self._min_tasks(),
            max_bytes=self._options.max_partition_bytes or MAX_TASK_BYTES,
        )
        partitions: list[InputPartition] = [
            FilesPartition(tuple((files[s.file], s.part, s.parts) for s in parts))
            for parts in assign_files(sizes, target)
        ]
        # For an empty list, Spark creates a partition that the reader can't read.
        return self._task(scan, None), partitions or [FilesPartition(())]

    def _plan_slices(self, scan: Scan) -> tuple[ReadTask, list[InputPartition]] | None:
        """Plan tasks that replay slices of the log; None if it has too few slices."""
        by_size = max(self._min_tasks(), scan.checkpoint_bytes // SLICE_BYTES)
        slices = scan.slices(self._engine, self._options.replay_partitions or by_size)
        if len(slices) < self._min_tasks():
            return None  # a checkpoint with one row group, as Spark writes it
        partitions: list[InputPartition] = [SlicePartition(s.to_bytes()) for s in slices]
        return self._task(scan, scan.to_bytes()), partitions

    def _min_tasks(self) -> int:
        return self._options.min_partitions or os.cpu_count() or 1

    def _task(self, scan: Scan, replay: bytes | None) -> ReadTask:
        return ReadTask(
            engine=self._engine.description(),
            state=scan.scan_state(self._engine).to_bytes(),
            scan=replay,
            schema=self._schema.to_json(),
            filter=None if self._filter is None else to_tree(self._filter),
            metadata=self._metadata,
        )


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads a partition in a task.

    Attributes:
        engine: description of the engine.
        state: the serialized `ScanState`.
        scan: the serialized `Scan` if partitions are slices, else None.
        schema: JSON of the schema that Spark expects, in the column order of the scan.
        filter: the resolved option `filter`; columns that only it needs are last in the scan.
        metadata: the kernel's metadata columns for the column `_metadata`.
    """

    engine: EngineDescription
    state: bytes
    scan: bytes | None
    schema: str
    filter: list[Any] | None
    metadata: tuple[str, ...] = ()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches with the exact types that Spark expects."""
        with readable_errors():
            expected = to_spark_arrow(StructType.from_json(self.schema))
            for batch in self._filtered(partition):
                if not batch.num_rows:
                    continue
                if self.metadata:
                    rows = with_metadata(batch, self.metadata).select(expected.names)
                    yield cast_to_schema(rows, expected)
                else:
                    yield cast_to_schema(batch, expected)

    def _filtered(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self.filter is None:
            yield from self._batches(partition)
            return
        columns = ScanState.from_bytes(self.state).logical_schema
        matching = DefaultExpressionHandler().predicate_evaluator(columns, from_tree(self.filter))
        for batch in self._batches(partition):
            yield batch.filter(matching.eval(batch.select(columns.names)))

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        match partition:
            case FilesPartition():
                yield from tasks.read_files(self.engine, self.state, partition.shares)
            case SlicePartition():
                assert self.scan is not None  # set for slices
                yield from tasks.read_slice(self.engine, self.state, self.scan, partition.log_slice)


class _PushFilters:
    """Wraps `DeltaReader.push` so that Spark takes it for the inherited method."""

    def __init__(self, reader: DeltaReader) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.push(filters)


def _is_usable(predicate: Predicate, schema: StructType) -> bool:
    try:
        resolve(predicate, schema)
    except PredicateError:
        return False
    return True


def _parse_filter(sql: str | None, schema: StructType) -> Predicate | None:
    return None if sql is None else resolve(parse_predicate(sql), schema)


def _with_filter_columns(
    predicate: Predicate | None, columns: StructType, table_schema: StructType
) -> StructType:
    """The columns to read, followed by columns that only the filter needs."""
    if predicate is None:
        return columns
    extra: dict[str, StructField] = {}
    for path in referenced_columns(predicate):
        field = table_schema.get(path[0])
        assert field is not None  # the predicate was resolved against this schema
        if field.name not in columns.names:
            extra[field.name] = field
    return StructType((*columns.fields, *extra.values()))


def _without_statistics(file: ScanFile) -> ScanFile:
    """Remove statistics and tags, which only the planner needs."""
    if file.add.stats is None:
        return file
    add = msgspec.structs.replace(file.add, stats=None, tags=None)
    return ScanFile(table_root=file.table_root, add=add)
