"""Batch writes through Spark's data source API: append and overwrite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType as SparkStructType

from bayou.kernel.commands.write import WriteMode
from bayou.spark.errors import readable_errors
from bayou.spark.types import as_nullable, from_spark
from bayou.spark.write import WriteOptions, begin
from bayou.spark.write.tasks import task_number

__all__ = ["DeltaWriter", "TaskFiles"]


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
