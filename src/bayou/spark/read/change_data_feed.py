"""Batch reads of the change data feed: what changed from one version to another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType as SparkStructType

from bayou.engines import for_path
from bayou.errors import ArgumentError, BayouError
from bayou.kernel import ChangeState, CommitBoundary, Engine, Table, TableChanges
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.serialization import from_wire, to_wire
from bayou.protocol.actions import CHANGE_COLUMNS
from bayou.protocol.schema import StructType
from bayou.spark.errors import readable_errors
from bayou.spark.read import tasks
from bayou.spark.read.batch import FilesPartition
from bayou.spark.read.filters import conform, table_columns
from bayou.spark.read.options import SourceOptions
from bayou.spark.read.tasks import MAX_TASK_BYTES, deal, task_bytes
from bayou.spark.read.time_travel import parse_timestamp
from bayou.spark.types import from_spark, to_spark_arrow

__all__ = ["ChangesTask", "DeltaChangesReader", "changes_schema", "has_end"]


class DeltaChangesReader(DataSourceReader):
    """Plans a read of changes; lives in Spark's planning process.

    The range is that of `startingVersion` or `startingTimestamp` to `endingVersion` or
    `endingTimestamp`, the latest version without them, all included. Rows of a range may lie in
    any partition; `_commit_version` tells their order.

    Raises:
        VersionNotFoundError, ChangeDataFeedError: see `bayou.kernel.Table.changes`.
    """

    def __init__(
        self, options: SourceOptions, given: Mapping[str, str], schema: SparkStructType
    ) -> None:
        self._options = options
        self._engine = for_path(options.path, options.storage)
        self._changes = _changes(self._engine, options, given)
        self._schema = from_spark(schema, table=options.path)
        known = StructType((*self._changes.schema, *CHANGE_COLUMNS))
        self._wanted = table_columns(self._schema, known, options.path)
        self._plan: tuple[ChangesTask, list[InputPartition]] | None = None

    def partitions(self) -> list[InputPartition]:
        with readable_errors():
            return self._planned()[1]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._planned()[0].read(partition)

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            task = self._planned()[0]
        except BayouError:
            # Pickling would bury the error; Spark asks for the partitions next, which says it.
            return InputPartition, (None,)
        return ChangesTask, (task.engine, task.state, task.schema, task.filter)

    def _planned(self) -> tuple[ChangesTask, list[InputPartition]]:
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def _make_plan(self) -> tuple[ChangesTask, list[InputPartition]]:
        builder = self._changes.scan_builder().with_time_zone(self._options.time_zone)
        builder = builder.with_filter(self._options.filter)
        predicate = builder.build().remaining_filter
        needed: set[str] = set()
        if predicate is not None:
            needed = {path[0] for path in referenced_columns(predicate)}
        read = tuple(
            f for f in self._changes.schema if f.name in needed or f.name in self._wanted.names
        )
        scan = builder.with_read_schema(StructType(read)).build()
        with scan.change_files(self._engine) as found:
            files = [(file.to_bytes(), file.size) for file in found]
        sizes = [size for _, size in files]
        target = task_bytes(
            sum(sizes),
            len(sizes),
            min_tasks=self._options.min_partitions or os.cpu_count() or 1,
            max_bytes=self._options.max_partition_bytes or MAX_TASK_BYTES,
        )
        partitions: list[InputPartition] = [
            FilesPartition(tuple((files[s.file][0], s.part, s.parts) for s in shares))
            for shares in deal(sizes, target)
        ]
        task = ChangesTask(
            engine=self._engine.description(),
            state=scan.change_state(self._engine).to_bytes(),
            schema=StructType(self._wanted.fields).to_json(),
            filter=None if predicate is None else to_wire(predicate),
        )
        # Spark makes one partition of its own out of none, which no reader understands.
        return task, partitions or [FilesPartition(())]


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads a partition; what a task gets besides the partition itself.

    Attributes:
        engine: how to reach the store.
        state: the `ChangeState`.
        schema: JSON of the schema that Spark expects.
        filter: the `filter` option, resolved; it may need columns that Spark doesn't expect.
    """

    engine: EngineDescription
    state: bytes
    schema: str
    filter: list[Any] | None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches with exactly the types that Spark expects."""
        assert isinstance(partition, FilesPartition)  # Spark gives back what was planned
        with readable_errors():
            expected = to_spark_arrow(StructType.from_json(self.schema))
            for batch in self._filtered(partition):
                if batch.num_rows:
                    yield conform(batch.select(expected.names), expected)

    def _filtered(self, partition: FilesPartition) -> Iterator[pa.RecordBatch]:
        batches = tasks.read_change_files(self.engine, self.state, partition.shares)
        if self.filter is None:
            yield from batches
            return
        columns = ChangeState.from_bytes(self.state).scan_state.logical_schema
        matching = DefaultExpressionHandler().predicate_evaluator(
            StructType((*columns, *CHANGE_COLUMNS)), from_wire(self.filter)
        )
        for batch in batches:
            yield batch.filter(matching.eval(batch))


def changes_schema(engine: Engine, options: SourceOptions, given: Mapping[str, str]) -> StructType:
    """The columns of a range: the table's, as of the version that the range is read by; the feed's.

    Args:
        given: the options as the user gave them, keys in lower case.
    """
    schema = _changes(engine, options, given).schema
    return StructType((*schema.fields, *CHANGE_COLUMNS.fields))


def has_end(given: Mapping[str, str]) -> bool:
    """Whether options (keys in lower case) name the end of a range, which only batch reads have."""
    return "endingversion" in given or "endingtimestamp" in given


def _changes(engine: Engine, options: SourceOptions, given: Mapping[str, str]) -> TableChanges:
    if options.version is not None or options.timestamp is not None:
        raise ArgumentError(
            "versionAsOf and timestampAsOf don't go with readChangeFeed: name the range by "
            "startingVersion and endingVersion.",
            argument="versionAsOf",
        )
    start = _boundary(given, "starting", options.time_zone)
    if start is None:
        raise ArgumentError(
            "[DELTA_NO_START_FOR_CDC_READ] readChangeFeed needs the range's start: set "
            "startingVersion or startingTimestamp.",
            argument="startingVersion",
        )
    end = _boundary(given, "ending", options.time_zone)
    return Table.for_path(engine, options.path).changes(engine, start, end)


def _boundary(given: Mapping[str, str], which: str, zone: str) -> CommitBoundary | None:
    version, timestamp = given.get(f"{which}version"), given.get(f"{which}timestamp")
    if version is not None and timestamp is not None:
        raise ArgumentError(
            f"[DELTA_MULTIPLE_CDC_BOUNDARY] {which}Version and {which}Timestamp are both set; a "
            "range takes one of them.",
            argument=f"{which}Version",
        )
    if timestamp is not None:
        moment = parse_timestamp(f"{which}Timestamp", timestamp, zone)
        return CommitBoundary.at_timestamp(moment)
    if version is None or (which == "ending" and version.strip().lower() == "latest"):
        return None
    if not version.strip().isdecimal():
        raise ArgumentError(
            f"{which}Version is {version!r}; it must be a version, a number from 0 on.",
            argument=f"{which}Version",
        )
    return CommitBoundary.at_version(int(version))
