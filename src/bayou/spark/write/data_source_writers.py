"""The batch writer and the streaming sink of the Python data source.

The sink commits every micro-batch exactly once. Each commit has a transaction identifier: the
query's id from its checkpoint, and the number of the micro-batch. If Spark repeats a batch after a
crash between the commit and the checkpoint's entry, the table already has its number and nothing is
written.
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
from bayou.spark.write import StartedWrite, WriteOptions, start_write
from bayou.spark.write.tasks import task_number

__all__ = ["BatchFiles", "DeltaStreamWriter", "DeltaWriter", "TaskFiles", "query_id"]


@dataclass(frozen=True, slots=True)
class TaskFiles(WriterCommitMessage):
    """The result of a task: the encoded actions of its files."""

    actions: bytes = field(repr=False)


class DeltaWriter(DataSourceArrowWriter):
    """A batch write.

    It is planned next to the driver. Spark pickles it for the tasks and for the commit, which run
    in other processes.
    """

    def __init__(self, options: WriteOptions, schema: SparkStructType, *, overwrite: bool) -> None:
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        rows = as_nullable(from_spark(schema, table=options.path))
        self._started = start_write(options, options.table_write(rows, mode))

    def write(  # type: ignore[override]  # pyspark's Arrow writers do the same
        self, iterator: Iterator[pa.RecordBatch]
    ) -> TaskFiles:
        with readable_errors():
            if self._started.done:
                return TaskFiles(b"")
            return TaskFiles(self._started.write_task(iterator, task_number()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with readable_errors():
            self._started.commit(_actions(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # If no message is None, all tasks succeeded and the commit failed. The commit deletes the
        # files itself, or leaves them if its result is unknown.
        if None in messages:
            with readable_errors():
                self._started.delete(_actions(messages))


def _actions(messages: list[WriterCommitMessage | None]) -> list[bytes]:
    return [m.actions for m in messages if isinstance(m, TaskFiles)]


@dataclass(frozen=True, slots=True)
class BatchFiles(WriterCommitMessage):
    """The result of a task of a micro-batch, and the write that it belongs to."""

    started_write: StartedWrite
    actions: bytes = field(repr=False)


class DeltaStreamWriter(DataSourceStreamArrowWriter):
    """The write of a micro-batch.

    For each micro-batch, Spark creates a writer for the tasks and another one, in another process,
    for the commit. The plan of the tasks reaches the commit in their messages.
    """

    def __init__(self, options: WriteOptions, schema: SparkStructType, *, overwrite: bool) -> None:
        if options.checkpoint_location is None:
            raise ArgumentError(
                "checkpointLocation: writeStream.format('delta') needs this option, because a data "
                "source has no access to the session's spark.sql.streaming.checkpointLocation. Set "
                ".option('checkpointLocation', ...).",
                argument="checkpointLocation",
            )
        self._options = options
        rows = as_nullable(from_spark(schema, table=options.path))
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        write = options.table_write(
            rows, mode, operation=Operation.STREAMING_UPDATE, partition_by=options.partition_by
        )
        self._started = start_write(options, write)

    def write(  # type: ignore[override]  # pyspark's Arrow writers do the same
        self, iterator: Iterator[pa.RecordBatch]
    ) -> BatchFiles:
        with readable_errors():
            actions = self._started.write_task(iterator, task_number())
            return BatchFiles(self._started.without_state(), actions)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with readable_errors():
            location = self._options.checkpoint_location
            assert location is not None  # checked on construction
            files = _batch_files(messages)
            started = files[0].started_write if files else self._started
            query = query_id(location, self._options.storage)
            started.with_transaction_identifier(query, batchId).commit([f.actions for f in files])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if None not in messages:  # see `DeltaWriter.abort`
            return
        with readable_errors():
            for files in _batch_files(messages):
                files.started_write.delete([files.actions])


class _CheckpointMetadata(msgspec.Struct, frozen=True):
    id: str


def query_id(checkpoint_location: str, storage: Mapping[str, str]) -> str:
    """The id of a streaming query, from its checkpoint.

    Args:
        checkpoint_location: the query's checkpoint.
        storage: the sink's storage options, also used for the checkpoint.

    Raises:
        ArgumentError: the checkpoint can't be read, or has no id.
    """
    path = f"{checkpoint_location.rstrip('/')}/metadata"
    try:
        engine = for_path(path, storage)
        resolved = engine.files.resolve_path(path)
        data = b"".join(engine.files.read_files([ByteRange(path=resolved)]))
        return msgspec.json.decode(data, type=_CheckpointMetadata).id
    except (FileMissingError, StorageError, msgspec.DecodeError) as error:
        raise ArgumentError(
            f"{path}: the streaming query's id can't be read from its checkpoint: {error} Use a "
            "checkpoint in a local folder or an object store.",
            argument="checkpointLocation",
        ) from error


def _batch_files(messages: list[WriterCommitMessage | None]) -> list[BatchFiles]:
    return [m for m in messages if isinstance(m, BatchFiles)]
