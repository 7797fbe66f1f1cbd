"""Batch reads of one table version by the Python data source.

Spark plans a read in a separate Python process, and sends the pickled reader to every task. Tasks
don't need the plan. Therefore the pickle of a `DeltaReader` contains only a `ReadTask`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType as SparkStructType

from bayou.errors import BayouError, PredicateError
from bayou.kernel import Scan, ScanFile, ScanState, Table
from bayou.kernel.arrow.joined_batches import joined_batches
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler
from bayou.kernel.expressions.model import Predicate, conjunction, referenced_columns
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.serialization import from_tree, to_tree
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.file_actions import tail_bytes
from bayou.protocol.schema import StructField, StructType
from bayou.spark.errors import readable_errors
from bayou.spark.executors.versions_read import report_version_read
from bayou.spark.read import tasks
from bayou.spark.read.filters import (
    cast_to_schema,
    session_filter,
    table_columns,
    to_predicate,
)
from bayou.spark.read.metadata_column import (
    METADATA,
    metadata_name,
    metadata_names,
    with_metadata,
)
from bayou.spark.read.options import PinnedVersion, SourceOptions, open_pinned
from bayou.spark.read.tasks import MAX_TASK_BYTES, assign_files, task_bytes
from bayou.spark.types import from_spark, to_spark_arrow

MAX_PLANNED_FILES = 50_000
"""Maximum number of files that the planning process lists if the log is large.

If a scan has more files, tasks replay slices of the log.
"""

LARGE_CHECKPOINT_BYTES = 16 * 1024 * 1024
"""Maximum size in bytes of a checkpoint that the planning process always replays.

A checkpoint of this size has about 150,000 files. Tasks may replay larger checkpoints. If the
settings of log replay are set, they apply instead of this limit.
"""

SLICE_BYTES = 2 * 1024 * 1024
"""Approximate size in bytes of the part of a checkpoint that one task replays.

This part has the `add` actions of about 20,000 data files.
"""


class FilesPartition(InputPartition):
    """The input of a task that reads parts of files.

    Attributes:
        file_parts: (serialized `ScanFile` or `ChangeFile`, index of the part in the file, number of
            parts of the file) for each part.
    """

    def __init__(self, file_parts: tuple[tuple[bytes, int, int], ...]) -> None:
        super().__init__(None)
        self.file_parts = file_parts


def file_partitions(
    files: Sequence[bytes], sizes: Sequence[int], options: SourceOptions
) -> list[InputPartition]:
    """Distribute files over partitions of similar total size. Large files are split into parts.

    Args:
        files: the serialized files.
        sizes: the size of each file in bytes.
    """
    target = task_bytes(
        sum(sizes),
        len(sizes),
        min_tasks=_min_tasks(options),
        max_bytes=options.max_partition_bytes or MAX_TASK_BYTES,
    )
    partitions: list[InputPartition] = [
        FilesPartition(tuple((files[p.file], p.part, p.parts) for p in parts))
        for parts in assign_files(sizes, target)
    ]
    # If the list is empty, Spark creates a partition that the reader can't read.
    return partitions or [FilesPartition(())]


def _min_tasks(options: SourceOptions) -> int:
    return options.min_partitions or os.cpu_count() or 1


class SlicePartition(InputPartition):
    """The input of a task that replays a serialized `LogSlice` and reads the files in it."""

    def __init__(self, log_slice: bytes) -> None:
        super().__init__(None)
        self.log_slice = log_slice


class PlannedReader(DataSourceReader):
    """Base class of readers that create a plan once, and pickle only the task of the plan."""

    _plan: tuple[Any, list[InputPartition]] | None = None

    def _create_plan(self) -> tuple[Any, list[InputPartition]]:
        """Return the task and the partitions. The task's method `read` reads one partition."""
        raise NotImplementedError

    def partitions(self) -> list[InputPartition]:
        with readable_errors():
            return self._cached_plan()[1]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self._cached_plan()[0].read(partition)
        return batches

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            task = self._cached_plan()[0]
        except BayouError:
            # Pickling would hide the error. Spark calls `partitions` next, which raises it.
            return InputPartition, (None,)
        return type(task), tuple(getattr(task, field.name) for field in fields(task))

    def _cached_plan(self) -> tuple[Any, list[InputPartition]]:
        if self._plan is None:
            self._plan = self._create_plan()
        return self._plan


class DeltaReader(PlannedReader):
    """Plans a batch read of a table; runs in Spark's planning process.

    Pushed filters are used only if the option `pushFilters` is true and Spark's conf enables filter
    pushdown. In this case, each `load()` must be used in only one query, and not in a self-join.
    The reason is that Spark 4.2 and 4.3 use one plan for all queries of a `load()`: the plan with
    the filters that were pushed last. The other queries could then miss rows. The option `filter`
    doesn't have this limitation.
    """

    def __init__(
        self, options: SourceOptions, schema: SparkStructType, pinned: PinnedVersion | None
    ) -> None:
        self._options = options
        self._engine, self._snapshot = open_pinned(options, pinned)
        self._schema = from_spark(schema, table=self._snapshot.path)
        requested = self._schema
        self._metadata: tuple[str, ...] = ()
        metadata_column = requested.get(metadata_name(self._snapshot.schema))
        self._metadata_name = METADATA
        if metadata_column is not None:
            self._metadata_name = metadata_column.name
            self._metadata = metadata_names(metadata_column, self._snapshot.path)
            requested = StructType(tuple(f for f in requested if f is not metadata_column))
        self._columns = table_columns(requested, self._snapshot.schema, self._snapshot.path)
        condition = session_filter(options, self._snapshot.schema)
        self._filter = _parse_filter(condition, self._snapshot.schema)
        self._pushed: Predicate | None = None
        if options.push_filters:
            # If Spark's conf disables filter pushdown, which is the default, Spark rejects a reader
            # whose class overrides `pushFilters`. The conf isn't visible in this process. Therefore
            # only this object overrides the method; see `_PushFilters`.
            self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use pushed filters to skip files.

        All filters are returned, because Spark must still filter the rows.
        """
        with readable_errors():
            schema = self._snapshot.schema
            candidates = (to_predicate(pushed) for pushed in filters)
            self._pushed = conjunction(
                p for p in candidates if p is not None and _is_usable(p, schema)
            )
            return filters

    def _create_plan(self) -> tuple[ReadTask, list[InputPartition]]:
        columns = _with_filter_columns(self._filter, self._columns, self._snapshot.schema)
        builder = self._snapshot.scan_builder().with_read_schema(columns)
        builder = builder.with_metadata_columns(self._metadata)
        builder = builder.with_time_zone(self._options.time_zone)
        filters = [p for p in (self._filter, self._pushed) if p is not None]
        scan = builder.with_filter(conjunction(filters)).build()
        plan = None
        if self._options.replay_partitions is None:
            plan = self._plan_files(scan, MAX_PLANNED_FILES)
        plan = plan or self._plan_slices(scan) or self._plan_files(scan, None)
        assert plan is not None  # planning files without a limit never returns None
        return plan

    def _plan_files(
        self, scan: Scan, limit: int | None
    ) -> tuple[ReadTask, list[InputPartition]] | None:
        """List the files that may match the filter, and plan tasks that read them.

        Returns None if the log is large, `limit` isn't None, and one of these is true:

        - The read has no filter.
        - More than `limit` files may match the filter.
        """
        large = limit is not None and self._is_large(scan)
        if large and self._filter is None and self._pushed is None:
            return None
        files: list[bytes] = []
        sizes: list[int] = []
        with scan.scan_files(self._engine) as batches:
            for batch in batches:
                for file in batch.rows():
                    files.append(_without_statistics(file).to_bytes())
                    sizes.append(file.size)
                if large and limit is not None and len(files) > limit:
                    return None
        return self._task(scan, None), file_partitions(files, sizes, self._options)

    def _plan_slices(self, scan: Scan) -> tuple[ReadTask, list[InputPartition]] | None:
        """Plan tasks that replay slices of the log; None if there are too few slices."""
        by_size = max(_min_tasks(self._options), scan.checkpoint_bytes // SLICE_BYTES)
        requested = self._options.replay_partitions
        slices = scan.slices(self._engine, requested or by_size)
        if not slices or (requested is None and len(slices) < _min_tasks(self._options)):
            return None  # a checkpoint with a single row group, as Spark writes it, has one slice
        partitions: list[InputPartition] = [SlicePartition(s.to_bytes()) for s in slices]
        return self._task(scan, scan.to_bytes()), partitions

    def _is_large(self, scan: Scan) -> bool:
        local_bytes = self._options.replay_local_bytes
        if local_bytes is None:
            return scan.checkpoint_bytes > LARGE_CHECKPOINT_BYTES
        return scan.checkpoint_bytes + tail_bytes(self._snapshot) > local_bytes

    def _task(self, scan: Scan, replay: bytes | None) -> ReadTask:
        return ReadTask(
            engine=self._engine.description(),
            state=scan.scan_state(self._engine).to_bytes(),
            scan=replay,
            schema=self._schema.to_json(),
            filter=None if self._filter is None else to_tree(self._filter),
            metadata=self._metadata,
            metadata_name=self._metadata_name,
            loaded=self._loaded(),
        )

    def _loaded(self) -> tuple[str, int] | None:
        path, version = self._snapshot.path, self._snapshot.version
        travels = self._options.version is not None or self._options.timestamp is not None
        # A version in the path isn't part of the snapshot's path.
        travels |= Table.for_path(self._engine, self._options.path).path != path
        return None if travels else (path, version)


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads a partition in a task.

    Attributes:
        state: the serialized `ScanState`.
        scan: the serialized `Scan` if the partitions are `SlicePartition`s, else None.
        schema: JSON of the schema that Spark expects, in the column order of the scan.
        filter: the predicate of the option `filter`, converted by `to_tree`. Columns that only the
            filter needs are the last columns of the scan.
        metadata: names of the kernel's metadata columns. They are the fields of the struct column
            that is called `metadata_name`.
        loaded: path and version of the table for `report_version_read`; None for time travel.
    """

    engine: EngineDescription
    state: bytes
    scan: bytes | None
    schema: str
    filter: list[Any] | None
    metadata: tuple[str, ...] = ()
    metadata_name: str = METADATA
    loaded: tuple[str, int] | None = None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition in batches with the exact types that Spark expects."""
        with readable_errors():
            if self.loaded is not None:
                report_version_read(*self.loaded)
            expected = to_spark_arrow(StructType.from_json(self.schema))
            for batch in self._filtered(partition):
                if not batch.num_rows:
                    continue
                if self.metadata:
                    rows = with_metadata(batch, self.metadata, self.metadata_name)
                    yield cast_to_schema(rows.select(expected.names), expected)
                else:
                    yield cast_to_schema(batch, expected)

    def _filtered(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batches = joined_batches(self._batches(partition), gradual=True)
        if self.filter is None:
            yield from batches
            return
        columns = ScanState.from_bytes(self.state).logical_schema
        matching = DefaultExpressionHandler().predicate_evaluator(columns, from_tree(self.filter))
        for batch in batches:
            yield batch.filter(matching.eval(batch.select(columns.names)))

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        match partition:
            case FilesPartition():
                yield from tasks.read_files(self.engine, self.state, partition.file_parts)
            case SlicePartition():
                assert self.scan is not None  # always set if partitions are slices
                yield from tasks.read_slice(self.engine, self.state, self.scan, partition.log_slice)


class _PushFilters:
    """Function that replaces the method `pushFilters` of one reader and calls `DeltaReader.push`.

    If Spark's conf disables filter pushdown, Spark rejects a reader that overrides `pushFilters`.
    To detect an override, Spark compares `pushFilters.__func__` with the method of the base class.
    The `__func__` of this object is the method of the base class. Therefore Spark accepts the
    reader.
    """

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
    """Return `columns`, followed by the table's columns that only the filter needs."""
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
    """Remove statistics and tags from a file, because tasks don't need them."""
    if file.add.stats is None:
        return file
    add = msgspec.structs.replace(file.add, stats=None, tags=None)
    return ScanFile(table_root=file.table_root, add=add)
