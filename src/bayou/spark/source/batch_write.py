"""Batch writes: append and overwrite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType as SparkStructType

from bayou.kernel import Operation
from bayou.spark.errors import readable_errors
from bayou.spark.source import tasks
from bayou.spark.source.commits import WriteRequest, commit, plan
from bayou.spark.source.options import SourceOptions
from bayou.spark.types import as_nullable, from_spark

__all__ = ["DeltaWriter", "TaskFiles"]


@dataclass(frozen=True, slots=True)
class TaskFiles(WriterCommitMessage):
    """What a task wrote: its `add` actions, encoded."""

    actions: bytes = field(repr=False)


class DeltaWriter(DataSourceArrowWriter):
    """One write: planned beside the driver, run in tasks, committed beside the driver."""

    def __init__(self, options: SourceOptions, schema: SparkStructType, *, overwrite: bool) -> None:
        self._request = WriteRequest(
            options=options,
            schema=as_nullable(from_spark(schema, table=options.path)),
            overwrite=overwrite,
            operation=Operation.WRITE,
        )
        self._plan = plan(self._request)

    def write(  # type: ignore[override]  # pyspark's Arrow writers do the same
        self, iterator: Iterator[pa.RecordBatch]
    ) -> TaskFiles:
        with readable_errors():
            if self._plan.done:
                return TaskFiles(b"")
            return TaskFiles(tasks.write_task(self._plan.engine, self._plan.state, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with readable_errors():
            written = _actions(messages)
            if self._plan.done:
                return
            adds = tasks.decode_adds(written)
            application = self._request.options.application
            if not commit(self._request, self._plan, adds, application):
                tasks.delete_task_files(self._plan.engine, self._plan.path, written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with readable_errors():
            tasks.delete_task_files(self._plan.engine, self._plan.path, _actions(messages))


def _actions(messages: list[WriterCommitMessage | None]) -> list[bytes]:
    return [m.actions for m in messages if isinstance(m, TaskFiles)]
