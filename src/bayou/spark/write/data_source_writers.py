"""Batch writes through Spark's data source API: append and overwrite.

The streaming sink: every micro-batch committed exactly once.

Each commit carries a transaction identifier: the query's id, which stands in its checkpoint, with
the number of the micro-batch. A batch that Spark runs again, after a crash between the commit and
the checkpoint's own entry, finds its number in the table and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType as SparkStructType

from bayou.engines import for_path
from bayou.errors import ArgumentError, FileMissingError, StorageError
from bayou.kernel import Operation
from bayou.kernel.commands.write import WriteMode
from bayou.kernel.engine import ByteRange
from bayou.spark.errors import readable_errors
from bayou.spark.types import as_nullable, from_spark
from bayou.spark.write import BegunWrite, WriteOptions, begin
from bayou.spark.write.tasks import task_number

__all__ = ["BatchFiles", "DeltaStreamWriter", "DeltaWriter", "TaskFiles", "query_id"]


@dataclass(frozen=True, slots=True)
class TaskFiles(WriterCommitMessage):
    """What a task wrote: the actions of its files, encoded."""

    actions: bytes = field(repr=False)


class DeltaWriter(DataSourceArrowWriter):
    """One write: planned beside the driver, run in tasks, committed beside the driver.

    Spark pickles it for the tasks and for the commit, each in processes of their own.
    """

    def __init__(self, options: WriteOptions, schema: SparkStructType, *, overwrite: bool) -> None:
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        rows = as_nullable(from_spark(schema, table=options.path))
        self._begun = begin(options, options.table_write(rows, mode))

    def write(  # type: ignore[override]  # pyspark's Arrow writers do the same
        self, iterator: Iterator[pa.RecordBatch]
    ) -> TaskFiles:
        with readable_errors():
            if self._begun.done:
                return TaskFiles(b"")
            return TaskFiles(self._begun.write_task(iterator, task_number()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with readable_errors():
            self._begun.commit(_actions(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Without a gap all tasks succeeded, and it is the commit that failed: it has deleted what
        # it may. Where its outcome isn't known the files must stay.
        if None in messages:
            with readable_errors():
                self._begun.delete(_actions(messages))


def _actions(messages: list[WriterCommitMessage | None]) -> list[bytes]:
    return [m.actions for m in messages if isinstance(m, TaskFiles)]


@dataclass(frozen=True, slots=True)
class BatchFiles(WriterCommitMessage):
    """What a task wrote of a micro-batch, and the write that it was a part of."""

    begun: BegunWrite
    actions: bytes = field(repr=False)


class DeltaStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch.

    Spark makes a writer for the tasks of each micro-batch and another one, in another process,
    for its commit. The plan by which the tasks wrote reaches the commit with their messages.
    """

    def __init__(self, options: WriteOptions, schema: SparkStructType, *, overwrite: bool) -> None:
        if options.checkpoint_location is None:
            raise ArgumentError(
                "writeStream.format('delta') needs .option('checkpointLocation', ...): the query's "
                "id in it makes each micro-batch land exactly once. The session's "
                "spark.sql.streaming.checkpointLocation can't be seen by a data source.",
                argument="checkpointLocation",
            )
        self._options = options
        rows = as_nullable(from_spark(schema, table=options.path))
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        write = options.table_write(
            rows, mode, operation=Operation.STREAMING_UPDATE, partition_by=options.partition_by
        )
        self._begun = begin(options, write)

    def write(  # type: ignore[override]  # pyspark's Arrow writers do the same
        self, iterator: Iterator[pa.RecordBatch]
    ) -> BatchFiles:
        with readable_errors():
            actions = self._begun.write_task(iterator, task_number())
            return BatchFiles(self._begun.without_state(), actions)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with readable_errors():
            location = self._options.checkpoint_location
            assert location is not None  # checked on construction
            files = _batch_files(messages)
            begun = files[0].begun if files else self._begun
            query = query_id(location, self._options.storage)
            begun.of_application(query, batchId).commit([f.actions for f in files])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if None not in messages:  # see `DeltaWriter.abort`
            return
        with readable_errors():
            for files in _batch_files(messages):
                files.begun.delete([files.actions])


class _CheckpointMetadata(msgspec.Struct, frozen=True):
    id: str


def query_id(checkpoint_location: str, storage: Mapping[str, str]) -> str:
    """The id of a streaming query, which stays the same as long as its checkpoint does.

    Args:
        checkpoint_location: the query's checkpoint.
        storage: the sink's storage options, which hold for the checkpoint too.

    Raises:
        ArgumentError: the checkpoint can't be read, or holds no id.
    """
    path = f"{checkpoint_location.rstrip('/')}/metadata"
    try:
        engine = for_path(path, storage)
        resolved = engine.files.resolve_path(path)
        data = b"".join(engine.files.read_files([ByteRange(path=resolved)]))
        return msgspec.json.decode(data, type=_CheckpointMetadata).id
    except (FileMissingError, StorageError, msgspec.DecodeError) as error:
        raise ArgumentError(
            f"{path} can't be read: {error} It holds the streaming query's id; the checkpoint must "
            "be in a place that Bayou reaches: a local folder or an object store.",
            argument="checkpointLocation",
        ) from error


def _batch_files(messages: list[WriterCommitMessage | None]) -> list[BatchFiles]:
    return [m for m in messages if isinstance(m, BatchFiles)]
