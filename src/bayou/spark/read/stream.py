"""Streaming reads of a Delta table: `DeltaStreamReader`, which wraps a `TableStream`.

The reader exists in one Python process while the query runs. Tasks get a `StreamTask` instead of
the reader, and a partition that contains all other inputs of the task.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType as SparkStructType

from bayou.engines import for_path
from bayou.kernel import LogSlice, ScanFileBatch, Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.joined_batches import joined_batches
from bayou.kernel.engine import Engine
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import scan_batch
from bayou.protocol.actions import CHANGE_COLUMNS
from bayou.protocol.schema import StructType
from bayou.spark.errors import readable_errors
from bayou.spark.read import tasks
from bayou.spark.read.char_padding import CharPadding
from bayou.spark.read.filters import cast_to_schema, table_columns
from bayou.spark.read.options import PinnedVersion, SourceOptions, open_pinned, with_path_version
from bayou.spark.read.tasks import FILE_COST_BYTES, MAX_TASK_BYTES, assign_files, task_bytes
from bayou.spark.read.time_travel import parse_timestamp
from bayou.spark.streaming import (
    SchemaTracking,
    StreamBatch,
    StreamOptions,
    TableStream,
    reads_change_feed,
)
from bayou.spark.streaming.errors import streaming_error
from bayou.spark.streaming.offsets import RunnerOffset, write_as_delta_spark
from bayou.spark.streaming.options import LATEST
from bayou.spark.streaming.read_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from bayou.spark.streaming.starting_version import set_start_offset
from bayou.spark.types import from_spark, to_spark, to_spark_arrow

MAX_SINGLE_FILES = 50_000
"""Maximum number of files that `assign_files` distributes over the tasks of a batch.

For larger batches, `_run_partitions` is used.
"""


class StreamPartition(InputPartition):
    """The input of a task of a stream.

    Args:
        state: serialized `ScanState`, or `ChangeState` if `feed` is true.
        feed: whether the stream reads the change data feed.
        file_parts: (serialized file, index of the part in the file, number of parts of the file)
            for each part to read. The files are `ChangeFile`s if `feed` is true, otherwise
            `ScanFile`s.
        adds: serialized `LogSlice` that contains the files to read; None if `file_parts` contains
            them.
    """

    def __init__(
        self,
        engine: EngineDescription,
        state: bytes,
        *,
        feed: bool = False,
        file_parts: tuple[tuple[bytes, int, int], ...] = (),
        adds: bytes | None = None,
    ) -> None:
        super().__init__(None)
        self.engine = engine
        self.state = state
        self.feed = feed
        self.file_parts = file_parts
        self.adds = adds


@dataclass(frozen=True, slots=True)
class StreamTask:
    """Reads a partition of a stream in a task.

    Attributes:
        schema: JSON of the schema that Spark expects.
        pads_char: whether CHAR values are padded; see `char_padding`.
    """

    schema: str
    pads_char: bool

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition in batches with the exact types that Spark expects."""
        assert isinstance(partition, StreamPartition)  # Spark passes the planned partitions
        with readable_errors():
            schema = StructType.from_json(self.schema)
            expected = to_spark_arrow(schema)
            padding = CharPadding(schema if self.pads_char else StructType())
            for batch in joined_batches(_rows(partition), gradual=True):
                if batch.num_rows:
                    yield padding.pad(cast_to_schema(batch.select(expected.names), expected))


class DeltaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming source. Offsets are dicts with the same fields as delta-spark's JSON offsets.

    Args:
        options: the read options.
        schema: the columns to read.
        pinned: the version from which `load()` took the schema; None if the user set a schema.
    """

    def __init__(
        self, options: Mapping[str, str], schema: SparkStructType, pinned: PinnedVersion | None
    ) -> None:
        self._options = dict(options)
        self._source_options = SourceOptions.parse(options)
        self._schema = from_spark(schema, table=self._source_options.path)
        self._pinned = pinned
        self._opened: tuple[Engine, TableStream] | None = None
        self._is_new = False
        self._may_wait = True

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        with readable_errors():
            self._is_new = True  # Spark calls this method only without a checkpoint
            return RunnerOffset(self._stream.initial_offset().to_json())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        with readable_errors():
            options = StreamOptions.parse(self._options)
            if options.files_limit is None:
                assert options.max_bytes is not None  # otherwise the number of files is limited
                return ReadMaxBytes(options.max_bytes)
            # Spark has no limit of both files and bytes for Python sources. If both are limited,
            # the stream itself applies the limit of bytes.
            return ReadMaxFiles(options.files_limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with readable_errors():
            self._stream.prepare_for_available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with readable_errors():
            begin = self._stream.offset_from_json(start)
            end = self._stream.latest_offset(
                begin,
                files=limit.max_files if isinstance(limit, ReadMaxFiles) else None,
                unlimited=isinstance(limit, ReadAllAvailable),
            )
            offset = RunnerOffset(end.to_json())
            if self._may_wait and self._is_new and end == begin:
                options = StreamOptions.parse(self._options)
                if options.starting_version == LATEST:
                    set_start_offset(options.driver_folder, offset.text)
            self._may_wait = False  # only before the first batch
            return offset

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        with readable_errors():
            return RunnerOffset(self._stream.latest_known().to_json())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with readable_errors():
            stream = self._stream
            batch = stream.batch(stream.offset_from_json(start), stream.offset_from_json(end))
            return self._plan(batch)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        with readable_errors():
            self._stream.commit(self._stream.offset_from_json(end))

    def stop(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamTask, (self._task.schema, self._task.pads_char)

    @property
    def _task(self) -> StreamTask:
        options = StreamOptions.parse(self._options)
        return StreamTask(self._schema.to_json(), options.pads_char)

    @property
    def _stream(self) -> TableStream:
        return self._open()[1]

    def _open(self) -> tuple[Engine, TableStream]:
        if self._opened is None:
            write_as_delta_spark()
            options = StreamOptions.parse(self._options)
            _check_no_time_travel(self._source_options)
            engine, snapshot = open_pinned(self._source_options, None)
            if self._pinned is not None:
                snapshot = self._snapshot_with_loaded_schema(engine, snapshot)
            tracking = None
            schema = snapshot.schema
            if options.schema_tracking_location is not None:
                tracking = SchemaTracking(engine, snapshot, options)
                tracking.check_consent()
                schema = tracking.read_state.schema
            requested = self._schema
            if options.read_change_feed:
                requested = _without_feed_columns(requested)
            starting = options.starting_timestamp
            stream = TableStream(
                engine,
                snapshot,
                table_columns(requested, schema, snapshot.path),
                options,
                starting_timestamp=None
                if starting is None
                else parse_timestamp("startingTimestamp", starting, options.time_zone),
                tracking=tracking,
            )
            self._opened = (engine, stream)
        return self._opened

    def _snapshot_with_loaded_schema(self, engine: Engine, latest: Snapshot) -> Snapshot:
        """Return `latest` if it still has the schema that `load()` took from the pinned version.

        Otherwise, return the pinned version.
        """
        assert self._pinned is not None
        if latest.version == self._pinned.version and latest.table_id == self._pinned.table_id:
            return latest
        if latest.table_id == self._pinned.table_id:
            schema = source_schema(engine, latest, self._options)
            if to_spark(schema) == to_spark(self._schema):
                return latest
        return open_pinned(self._source_options, self._pinned)[1]

    def _plan(self, batch: StreamBatch) -> list[InputPartition]:
        description = self._open()[0].description()
        if batch.changes:
            return self._file_partitions(
                description,
                batch.change_state.to_bytes(),
                [(change.to_bytes(), change.size) for change in batch.changes],
                feed=True,
            )
        state = batch.state.to_bytes()
        if sum(len(adds) for adds in batch.adds) > MAX_SINGLE_FILES:
            return self._run_partitions(description, state, batch)
        files = [
            (file.to_bytes(), file.size)
            for adds in batch.adds
            for file in ScanFileBatch(scan_batch(batch.state.table, adds)).rows()
        ]
        return self._file_partitions(description, state, files)

    def _file_partitions(
        self,
        engine: EngineDescription,
        state: bytes,
        files: Sequence[tuple[bytes, int]],
        *,
        feed: bool = False,
    ) -> list[InputPartition]:
        sizes = [size for _, size in files]
        return [
            StreamPartition(
                engine,
                state,
                feed=feed,
                file_parts=tuple((files[s.file][0], s.part, s.parts) for s in parts),
            )
            for parts in assign_files(sizes, self._task_bytes(sum(sizes), len(sizes)))
        ]

    def _run_partitions(
        self, engine: EngineDescription, state: bytes, batch: StreamBatch
    ) -> list[InputPartition]:
        """Plan the tasks of a batch with many files. A task reads consecutive files of the batch.

        Unlike in smaller batches, files aren't split into parts, and aren't converted to Python
        objects. A task gets an Arrow array of `add` actions.
        """
        adds: Any = pa.concat_arrays(list(batch.adds))
        sizes = pc.add(pc.struct_field(adds, "size"), FILE_COST_BYTES)
        cumulative = pc.cumulative_sum(sizes)
        files = len(adds)
        target = self._task_bytes(pc.sum(pc.struct_field(adds, "size")).as_py(), files)
        numbers = pc.divide(pc.subtract(cumulative, sizes), target)
        ends = pc.run_end_encode(numbers).run_ends.to_pylist()
        starts = [0, *ends[:-1]]
        return [
            StreamPartition(
                engine, state, adds=LogSlice(adds=adds.slice(start, end - start)).to_bytes()
            )
            for start, end in zip(starts, ends, strict=True)
        ]

    def _task_bytes(self, size: int, files: int) -> int:
        return task_bytes(
            size,
            files,
            min_tasks=self._source_options.min_partitions or os.cpu_count() or 1,
            max_bytes=self._source_options.max_partition_bytes or MAX_TASK_BYTES,
        )


def source_schema(engine: Engine, snapshot: Snapshot, options: Mapping[str, str]) -> StructType:
    """Return the schema of a read or stream if the user has set no schema.

    By default, this is the table's schema. With the option `schemaTrackingLocation`, it is the
    schema in the schema tracking log. With the option `readChangeFeed`, `CHANGE_COLUMNS` are added
    at the end.
    """
    lower_case = {key.lower(): value for key, value in options.items()}
    schema = snapshot.schema
    if lower_case.get("schematrackinglocation") or lower_case.get("schemalocation"):
        tracking = SchemaTracking(engine, snapshot, StreamOptions.parse(options))
        tracking.merge_consecutive(engine)
        schema = tracking.read_state.schema
    if reads_change_feed(lower_case):
        return StructType((*schema.fields, *CHANGE_COLUMNS.fields))
    return schema


def _check_no_time_travel(options: SourceOptions) -> None:
    options = with_path_version(for_path(options.path, options.storage), options)
    if options.version is not None or options.timestamp is not None:
        raise streaming_error(
            "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
            f"{options.path}: a stream doesn't support time travel (versionAsOf, timestampAsOf, or "
            "'@' in the path). Set startingVersion or startingTimestamp.",
            table=options.path,
        )


def _rows(partition: StreamPartition) -> Iterator[pa.RecordBatch]:
    if partition.adds is not None:
        return tasks.read_adds(partition.engine, partition.state, partition.adds)
    read = tasks.read_change_files if partition.feed else tasks.read_files
    return read(partition.engine, partition.state, partition.file_parts)


def _without_feed_columns(schema: StructType) -> StructType:
    return StructType(tuple(f for f in schema if f.name not in CHANGE_COLUMNS.names))
