"""The batch writer and the streaming sink of the Python data source.

The sink commits every micro-batch exactly once. Each commit has a transaction identifier: the query
id from the checkpoint, and the number of the micro-batch (batch id). If the table already has the
identifier, Spark has repeated a committed batch, and nothing is written.

If an older copy of the checkpoint is restored, a new batch can have the same number as a committed
batch. The sink raises an error if the offsets of the two batches differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType as SparkStructType

from bayou.engines import from_description
from bayou.errors import ArgumentError, SchemaError
from bayou.kernel import Operation
from bayou.kernel.commands.write import WriteMode
from bayou.protocol.schema import StructType
from bayou.spark.errors import readable_errors
from bayou.spark.executors.versions_read import versions_read
from bayou.spark.types import as_nullable, from_spark
from bayou.spark.write import StartedWrite, WriteOptions, start_write
from bayou.spark.write.query_checkpoint import (
    OFFSETS_TAG,
    check_repeated_batch,
    offsets_digest,
    query_id,
)
from bayou.spark.write.stream_casts import NumberCasts, cast_batches, cast_schema, number_casts
from bayou.spark.write.tasks import task_number


@dataclass(frozen=True, slots=True)
class TaskFiles(WriterCommitMessage):
    """The result of a task of a batch write.

    Attributes:
        actions: the encoded actions of the files that the task wrote.
        versions_read: for an overwrite, the versions of the target table that this executor has
            read for the query. Empty for other writes.
    """

    actions: bytes = field(repr=False)
    versions_read: frozenset[int] = frozenset()


class DeltaWriter(DataSourceArrowWriter):
    """The writer of a batch write.

    The constructor plans the write, in a Python process on the driver's machine. Spark pickles the
    writer for the tasks and for the commit, which run in other processes.
    """

    def __init__(self, options: WriteOptions, schema: SparkStructType, *, overwrite: bool) -> None:
        mode = options.mode or (WriteMode.OVERWRITE if overwrite else WriteMode.APPEND)
        rows = _rows(schema, options.path)
        write = options.table_write(
            rows,
            mode,
            operation=options.operation,
            is_managed=options.is_managed,
            partition_by=options.partition_by,
            cluster_by=options.cluster_by,
        )
        self._started = start_write(options, write)

    def write(  # type: ignore[override]  # pyspark's Arrow writers do the same
        self, iterator: Iterator[pa.RecordBatch]
    ) -> TaskFiles:
        with readable_errors():
            if self._started.done:
                return TaskFiles(b"")
            actions = self._started.write_task(iterator, task_number())
            if not self._started.write.overwrites:
                return TaskFiles(actions)
            return TaskFiles(actions, versions_read(self._started.plan.table))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with readable_errors():
            versions = [v for m in messages if isinstance(m, TaskFiles) for v in m.versions_read]
            self._started.commit(_actions(messages), rows_read_from=min(versions, default=None))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # If no message is None, all tasks succeeded and the commit failed. A failed commit has
        # deleted the files, unless it is unknown whether it succeeded.
        if None in messages:
            with readable_errors():
                self._started.delete(_actions(messages))


def _actions(messages: list[WriterCommitMessage | None]) -> list[bytes]:
    return [m.actions for m in messages if isinstance(m, TaskFiles)]


@dataclass(frozen=True, slots=True)
class BatchFiles(WriterCommitMessage):
    """The result of a task of a micro-batch.

    Attributes:
        started_write: the planned write that the task has used. The commit uses the same planned
            write; see `DeltaStreamWriter`.
        actions: the encoded actions of the files that the task wrote.
    """

    started_write: StartedWrite
    actions: bytes = field(repr=False)


class DeltaStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a micro-batch.

    For each micro-batch, Spark creates two writers in separate processes, and both plan the write.
    The tasks use the plan of the first writer, and return the plan with their results
    (`BatchFiles`). Spark calls `commit` of the second writer, which commits with the plan of the
    first writer.
    """

    def __init__(self, options: WriteOptions, schema: SparkStructType, *, overwrite: bool) -> None:
        if options.checkpoint_location is None:
            raise ArgumentError(
                "checkpointLocation: writeStream.format('delta') needs this option, because a data "
                "source has no access to the session's spark.sql.streaming.checkpointLocation. Set "
                ".option('checkpointLocation', ...).",
                argument="checkpointLocation",
            )
        # A batch has only the query's transaction identifier, as in delta-spark. With `txnAppId`,
        # which the session's conf may set for batch writes, all batches could be skipped. The
        # output mode `complete` always replaces all rows, as in delta-spark.
        options = replace(options, application=None, dynamic_partitions=False, replace_where=None)
        self._options = options
        rows = _rows(schema, options.path)
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        write = options.table_write(
            rows, mode, operation=Operation.STREAMING_UPDATE, partition_by=options.partition_by
        )
        self._casts: NumberCasts = {}
        try:
            self._started = start_write(options, write)
        except SchemaError:
            self._casts = number_casts(options, rows)
            if not self._casts:
                raise
            write = replace(write, schema=cast_schema(rows, self._casts))
            self._started = start_write(options, write)

    def write(  # type: ignore[override]  # pyspark's Arrow writers do the same
        self, iterator: Iterator[pa.RecordBatch]
    ) -> BatchFiles:
        with readable_errors():
            batches = cast_batches(iterator, self._casts) if self._casts else iterator
            actions = self._started.write_task(batches, task_number())
            return BatchFiles(self._started.without_state(), actions)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with readable_errors():
            location = self._options.checkpoint_location
            assert location is not None  # checked on construction
            files = _batch_files(messages)
            started = files[0].started_write if files else self._started
            storage = self._options.storage
            query = query_id(location, storage)
            offsets = offsets_digest(location, batchId, storage)
            started = started.with_transaction_identifier(query, batchId)
            if offsets is not None:
                started = started.with_tags({OFFSETS_TAG: offsets})
            if not started.commit([f.actions for f in files]).files_committed:
                check_repeated_batch(
                    from_description(started.engine),
                    started.plan.table,
                    checkpoint_location=location,
                    query=query,
                    batch_id=batchId,
                    offsets=offsets,
                )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if None not in messages:  # see `DeltaWriter.abort`
            return
        with readable_errors():
            for files in _batch_files(messages):
                files.started_write.delete([files.actions])


def _rows(schema: SparkStructType, table: str) -> StructType:
    """Convert the schema of rows. All columns are nullable in the result.

    Raises:
        SchemaError: the rows have no columns. Spark passes none of these rows to Python.
    """
    if not schema.fields:
        raise SchemaError(
            f"{table}: the rows to write have no columns. Add a column to the rows.", table=table
        )
    return as_nullable(from_spark(schema, table=table))


def _batch_files(messages: list[WriterCommitMessage | None]) -> list[BatchFiles]:
    return [m for m in messages if isinstance(m, BatchFiles)]
