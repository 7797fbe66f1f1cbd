"""Batch reads of the change data feed by the Python data source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType as SparkStructType

from bayou.engines import for_path
from bayou.errors import ArgumentError
from bayou.kernel import ChangeState, CommitBoundary, Engine, Table, TableChanges
from bayou.kernel.arrow.joined_batches import joined_batches
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.serialization import from_tree, to_tree
from bayou.protocol.actions import CHANGE_COLUMNS
from bayou.protocol.schema import StructType
from bayou.spark.errors import readable_errors
from bayou.spark.read import tasks
from bayou.spark.read.batch import FilesPartition, PlannedReader, file_partitions
from bayou.spark.read.filters import cast_to_schema, session_filter, table_columns
from bayou.spark.read.options import SourceOptions
from bayou.spark.read.time_travel import parse_timestamp
from bayou.spark.types import from_spark, to_spark_arrow


class DeltaChangesReader(PlannedReader):
    """Plans a read of the change data feed; runs in Spark's planning process.

    The changes start at `startingVersion` or `startingTimestamp` (inclusive). They end at
    `endingVersion` or `endingTimestamp` (inclusive); by default, they end at the latest version.
    Rows of different partitions aren't ordered; a query can sort them by `_commit_version`.

    Args:
        user_options: the read options, with keys in lower case.
    """

    def __init__(
        self, options: SourceOptions, user_options: Mapping[str, str], schema: SparkStructType
    ) -> None:
        self._options = options
        self._engine = for_path(options.path, options.storage)
        self._changes = _changes(self._engine, options, user_options)
        self._schema = from_spark(schema, table=options.path)
        available = StructType((*self._changes.schema, *CHANGE_COLUMNS))
        self._columns = table_columns(self._schema, available, options.path)

    def _create_plan(self) -> tuple[ChangesTask, list[InputPartition]]:
        builder = self._changes.scan_builder().with_time_zone(self._options.time_zone)
        columns = StructType((*self._changes.schema, *CHANGE_COLUMNS))
        builder = builder.with_filter(session_filter(self._options, columns))
        predicate = builder.build().remaining_filter
        needed: set[str] = set()
        if predicate is not None:
            needed = {path[0] for path in referenced_columns(predicate)}
        read = tuple(
            f for f in self._changes.schema if f.name in needed or f.name in self._columns.names
        )
        scan = builder.with_read_schema(StructType(read)).build()
        with scan.change_files(self._engine) as change_files:
            files = list(change_files)
        partitions = file_partitions(
            [file.to_bytes() for file in files], [file.size for file in files], self._options
        )
        task = ChangesTask(
            engine=self._engine.description(),
            state=scan.change_state(self._engine).to_bytes(),
            schema=StructType(self._columns.fields).to_json(),
            filter=None if predicate is None else to_tree(predicate),
        )
        return task, partitions


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads a partition of changes in a task.

    Attributes:
        state: the serialized `ChangeState`.
        schema: JSON of the schema that Spark expects.
        filter: the predicate of the option `filter`, converted by `to_tree`. The predicate can use
            columns that Spark doesn't request.
    """

    engine: EngineDescription
    state: bytes
    schema: str
    filter: list[Any] | None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition in batches with the exact types that Spark expects."""
        assert isinstance(partition, FilesPartition)  # Spark passes the planned partitions
        with readable_errors():
            expected = to_spark_arrow(StructType.from_json(self.schema))
            for batch in self._filtered(partition):
                if batch.num_rows:
                    yield cast_to_schema(batch.select(expected.names), expected)

    def _filtered(self, partition: FilesPartition) -> Iterator[pa.RecordBatch]:
        changes = tasks.read_change_files(self.engine, self.state, partition.file_parts)
        batches = joined_batches(changes, gradual=True)
        if self.filter is None:
            yield from batches
            return
        columns = ChangeState.from_bytes(self.state).scan_state.logical_schema
        matching = DefaultExpressionHandler().predicate_evaluator(
            StructType((*columns, *CHANGE_COLUMNS)), from_tree(self.filter)
        )
        for batch in batches:
            yield batch.filter(matching.eval(batch))


def changes_schema(
    engine: Engine, options: SourceOptions, user_options: Mapping[str, str]
) -> StructType:
    """Return the schema of a change data feed: the table's columns and `CHANGE_COLUMNS`.

    Args:
        user_options: the read options, with keys in lower case.
    """
    schema = _changes(engine, options, user_options).schema
    return StructType((*schema.fields, *CHANGE_COLUMNS.fields))


def has_end(user_options: Mapping[str, str]) -> bool:
    """Whether `endingVersion` or `endingTimestamp` is set.

    Args:
        user_options: the read options, with keys in lower case.
    """
    return "endingversion" in user_options or "endingtimestamp" in user_options


def _changes(
    engine: Engine, options: SourceOptions, user_options: Mapping[str, str]
) -> TableChanges:
    if options.version is not None or options.timestamp is not None:
        raise ArgumentError(
            "versionAsOf: readChangeFeed doesn't support versionAsOf or timestampAsOf. Set "
            "startingVersion and endingVersion instead.",
            argument="versionAsOf",
        )
    start = _boundary(user_options, "starting", options.time_zone)
    if start is None:
        raise ArgumentError(
            "[DELTA_NO_START_FOR_CDC_READ] readChangeFeed: the range has no start. Set "
            "startingVersion or startingTimestamp.",
            argument="startingVersion",
        )
    end = _boundary(user_options, "ending", options.time_zone)
    return Table.for_path(engine, options.path).changes(engine, start, end)


def _boundary(options: Mapping[str, str], prefix: str, zone: str) -> CommitBoundary | None:
    version, timestamp = options.get(f"{prefix}version"), options.get(f"{prefix}timestamp")
    if version is not None and timestamp is not None:
        raise ArgumentError(
            f"[DELTA_MULTIPLE_CDC_BOUNDARY] {prefix}Version: {prefix}Version and "
            f"{prefix}Timestamp are both set. Set one of them.",
            argument=f"{prefix}Version",
        )
    if timestamp is not None:
        milliseconds = parse_timestamp(f"{prefix}Timestamp", timestamp, zone)
        return CommitBoundary.at_timestamp(milliseconds)
    if version is None or (prefix == "ending" and version.strip().lower() == "latest"):
        return None
    if not version.strip().isdecimal():
        raise ArgumentError(
            f"{prefix}Version: {version!r} isn't a table version. Set 0 or more.",
            argument=f"{prefix}Version",
        )
    return CommitBoundary.at_version(int(version))
