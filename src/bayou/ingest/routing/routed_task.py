"""The executor side of a micro-batch with `route-by`: splits records, and writes data files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields

import pyarrow as pa

from bayou.errors import BayouError
from bayou.ingest.batch.batch_task import (
    ABORTS,
    BatchTask,
    BatchTaskResult,
    TaskRun,
    lacks_columns_error,
)
from bayou.ingest.batch.record_reader import RecordReader, RecordReading
from bayou.ingest.routing.router import RecordRouter, RecordRouting
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.actions import encode_actions
from bayou.protocol.schema import StructType
from bayou.spark.write.tasks import decode_adds, delete_task_files, write_task

_WAITING_BYTES = 64 << 20
"""Size in bytes of the rows in memory at which the rows of one table are written to a file.

The table is the one with the most bytes in memory.
"""


_CONCURRENT_FILES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutput:
    """A table, and the state that a task needs to write rows to the table. Can be pickled.

    Attributes:
        row_state: serialized state of the transaction for the table's rows. It is None if the table
            can't be created yet, because the types of its partition or clustering columns aren't
            known.
    """

    engine: EngineDescription
    table_path: str
    row_state: bytes | None
    reading: RecordReading


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult:
    """The result of a task for one table. Can be pickled.

    Attributes:
        row_actions: encoded `add` actions of the data files that the task wrote to the table.
        new_fields: fields of the table's records that have no column. If there are any, the task
            has deleted its data files, and the batch must be run again.
    """

    rows: int = 0
    row_actions: bytes = b""
    ignored: frozenset[str] = frozenset()
    new_fields: StructType = field(default_factory=StructType)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedResult(BatchTaskResult):
    """The result of a task of a micro-batch with `route-by`.

    Attributes:
        tables: the result for each table, by the table's index in `RoutedBatchTask.outputs`.
        new_fields: fields without a column that the router reads.
        new_values: for each value whose table isn't known yet, the number of records with the
            value. If there are any, the task has written nothing, and the batch must be run again.
    """

    tables: Mapping[int, TableResult] = field(default_factory=dict)
    new_values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedBatchTask(BatchTask):
    """The definition that all tasks of a micro-batch with `route-by` share. Can be pickled.

    Attributes:
        outputs: the tables. The number of a table is its index; the first is the default table.
    """

    routing: RecordRouting
    outputs: tuple[TableOutput, ...]

    def run(self, task_number: int) -> RoutedResult:
        """Route, decode and write the records of one task."""
        try:
            return _RoutedTaskRun(self, task_number).run(self.records.read(task_number))
        except BayouError as error:
            return RoutedResult(failure=error)


class _RunAgainError(Exception):
    """The batch must be run again with more columns or tables."""


_ABORTS: tuple[type[Exception], ...] = (*ABORTS, _RunAgainError)


class _RoutedTaskRun(TaskRun):
    def __init__(self, task: RoutedBatchTask, task_number: int) -> None:
        super().__init__(task, task_number)
        self._outputs = task.outputs
        self._router = RecordRouter(task.routing)
        self._readers: dict[int, RecordReader] = {}
        self._counts: dict[int, int] = {}
        self._rows_waiting: dict[int, list[pa.RecordBatch]] = {}
        self._sizes: dict[int, int] = {}
        self._row_actions: dict[int, list[bytes]] = {}

    def run(self, batches: Iterator[pa.RecordBatch]) -> RoutedResult:
        try:
            for batch in self._counter.count(batches):
                source = self._without_crashing(self._new_records(batch))
                if source.num_rows:
                    self._take(source)
            if self._runs_again:
                raise _RunAgainError
            self._flush_all()
            self._write_dead_letters()
        except _ABORTS as error:
            return self._routed(self._aborted_routed(error))
        return self._routed(self._result())

    @property
    def _runs_again(self) -> bool:
        return bool(
            self._router.new_fields.fields
            or self._router.new_values
            or any(reader.new_fields.fields for reader in self._readers.values())
        )

    def _take(self, source: pa.RecordBatch) -> None:
        routed = self._router.split(source)
        if routed.dead_letters is not None:
            self._refuse(routed.dead_letters)
        for number, records in routed.tables.items():
            reader = self._readers.get(number)
            if reader is None:
                reader = self._readers[number] = RecordReader(self._outputs[number].reading)
            for rows, dead_letters in reader.read(records):
                if dead_letters is not None:
                    self._refuse(dead_letters)
                if rows is not None:
                    self._add(number, rows)

    def _add(self, number: int, rows: pa.RecordBatch) -> None:
        self._counts[number] = self._counts.get(number, 0) + rows.num_rows
        if self._runs_again:
            return
        self._rows_waiting.setdefault(number, []).append(rows)
        self._sizes[number] = self._sizes.get(number, 0) + rows.nbytes
        while sum(self._sizes.values()) >= _WAITING_BYTES:
            self._flush(max(self._sizes, key=self._sizes.__getitem__))

    def _flush_all(self) -> None:
        """Write the remaining rows of all tables, several tables in parallel."""
        with ThreadPoolExecutor(_CONCURRENT_FILES) as pool:
            # The pool waits for all writes, so that all files are known after an error.
            for _ in pool.map(self._flush, list(self._rows_waiting)):
                pass

    def _flush(self, number: int) -> None:
        output, rows = self._outputs[number], self._rows_waiting.pop(number)
        self._sizes.pop(number)
        if output.row_state is None:
            raise lacks_columns_error(self._task.topic, output.table_path)
        actions = write_task(output.engine, output.row_state, rows)
        self._row_actions.setdefault(number, []).append(actions)

    def _aborted_routed(self, error: Exception) -> BatchTaskResult:
        for number, actions in self._row_actions.items():
            output = self._outputs[number]
            delete_task_files(output.engine, output.table_path, actions)
        self._row_actions = {}
        return self._aborted(error)

    def _routed(self, result: BatchTaskResult) -> RoutedResult:
        tables = {
            number: TableResult(
                rows=self._counts.get(number, 0),
                row_actions=encode_actions(decode_adds(self._row_actions.get(number, []))),
                ignored=reader.ignored,
                new_fields=reader.new_fields,
            )
            for number, reader in self._readers.items()
        }
        known = {name.name: getattr(result, name.name) for name in fields(result)}
        known |= {
            "rows": sum(self._counts.values()),
            "filtered": self._router.filtered,
            "new_fields": self._router.new_fields,
            "ignored": frozenset().union(*(reader.ignored for reader in self._readers.values())),
        }
        return RoutedResult(**known, tables=tables, new_values=dict(self._router.new_values))
