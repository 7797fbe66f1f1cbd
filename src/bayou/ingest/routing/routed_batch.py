"""The driver side of a micro-batch with `route-by`.

The *default table* is the table of `destination.table-path`. The *routed tables* are all other
tables of the topic. A batch makes these commits, in this order:

1. The dead letters to the dead letter table.
2. The registration of new tables to the default table.
3. Rows to each routed table.
4. Rows and the offsets of the batch to the default table.

If a run ends before the last commit, the next run repeats the batch. The repeated batch skips the
dead letters and rows that the tables already have.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from bayou.ingest.batch.batch_task import BatchTaskResult
from bayou.ingest.batch.micro_batch import MicroBatchWriter
from bayou.ingest.batch.startup_session import StartupSession
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.broker import KafkaSource
from bayou.ingest.config import Topic
from bayou.ingest.decode import merge_fields
from bayou.ingest.events import AttemptFailed, BatchReport, RoutedRows
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.ingest.routing.routed_columns import RoutedColumns, RoutedOutput, all_columns
from bayou.ingest.routing.routed_tables import RoutedTable, RoutedTables, for_each_table
from bayou.ingest.routing.routed_task import RoutedBatchTask, RoutedResult, TableOutput
from bayou.ingest.routing.router import DEFAULT_TABLE, RecordRouting
from bayou.ingest.schema.policy import commit_tags
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.actions import AddFile
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaTasks
from bayou.spark.write.tasks import decode_adds


class RoutedBatchWriter(MicroBatchWriter):
    """Writes the micro-batches of one topic to the topic's default table and routed tables."""

    def __init__(
        self,
        topic: Topic,
        tables: TopicTables,
        source: KafkaSource,
        schema: RecordSchema,
        *,
        kafka: KafkaTopic,
        on_retry: Callable[[AttemptFailed], None] | None = None,
        change_lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        super().__init__(topic, tables, source, schema, on_retry=on_retry, change_lock=change_lock)
        self._schema = schema
        self.tables = RoutedTables(topic, kafka, tables, schema)
        self._policy = self.tables.default.policy

    @property
    def routed_topics(self) -> tuple[Topic, ...]:
        """A copy of the topic for each routed table that exists; see `Topic.routed`."""
        return tuple(table.topic for table in self.tables.existing)

    @property
    def columns(self) -> StructType:
        """The columns that store record fields in the topic's tables."""
        return all_columns((super().columns, *(t.target.columns for t in self.tables.existing)))

    def table_differences(self) -> tuple[str, ...]:
        """Return the settings in the configuration that the topic's tables don't match."""
        routed = (
            f"{table.topic.routed_table}: {difference}"
            for table in self.tables.existing
            for difference in table.target.differences()
        )
        return (*super().table_differences(), *routed)

    def apply_definition(self) -> None:
        """Change the tables to the configured definition; see `TargetTable.apply_definition`."""
        with self._change_lock:
            for table in self.tables.existing:
                table.target.open()
                if table.target.differences():
                    table.target.apply_definition()
        super().apply_definition()

    def record_checks(self) -> None:
        """Call `TargetTable.record_check` for the target and for each routed table that exists."""
        super().record_checks()
        for_each_table(lambda table: table.target.record_check(), self.tables.existing)

    def _set_opened(self) -> None:
        super()._set_opened()
        self.tables.open()

    def _refresh(self) -> None:
        super()._refresh()
        self.tables.refresh()

    def _process_new(
        self, spark: SparkSession | StartupSession, new: Mapping[int, OffsetSpan], read_at: int
    ) -> BatchReport:
        max_bytes = self._topic.config.processing.max_batch_bytes
        columns = RoutedColumns(self._topic, self.tables, self._schema, read_at)
        # Terminates: each iteration removes records, or adds or refuses columns or tables.
        while True:
            outputs = columns.outputs()
            routing = columns.routing(outputs)
            new_task = partial(self._routed_task, outputs, routing, new)
            results: list[RoutedResult] = self._run_surviving(
                spark, new, new_task, max_bytes=max_bytes
            )
            smaller, max_bytes = self._within_bytes(new, results, max_bytes)
            if smaller is not None:
                self._discard(results)
                new = smaller
                continue
            if not _extend(columns, outputs, results):
                break
            self._discard(results)
        self._check_not_recreated(results)
        report = self._report(results, new)
        began = time.monotonic()
        report = self._commit_all(outputs, results, report)
        return replace(report, commit_seconds=time.monotonic() - began)

    def _routed_task(
        self,
        outputs: Sequence[RoutedOutput],
        routing: RecordRouting,
        spans: Mapping[int, OffsetSpan],
        _: SparkSession | StartupSession,
        records: KafkaTasks,
        *,
        max_bytes: int | None,
    ) -> RoutedBatchTask:
        return RoutedBatchTask(
            topic=self._topic.key,
            records=records,
            engine=self._tables.engine.description(),
            table_path=self._target.path,
            dead_letter_path=self._dead_letters.path,
            row_state=None,
            dead_letter_state=self._dead_letters.task_state(),
            reading=outputs[DEFAULT_TABLE].reading,
            covered=self._covered,
            known_dead_letters=self._known_dead_letters,
            known_rows=self.tables.known_rows(spans),
            crashing_offsets=self._crashing_offsets,
            max_batch_bytes=max_bytes,
            routing=routing,
            outputs=tuple(
                TableOutput(
                    engine=output.table.engine.description(),
                    table_path=output.table.target.path,
                    row_state=_state(output),
                    reading=output.reading,
                )
                for output in outputs
            ),
        )

    def _commit_all(
        self, outputs: Sequence[RoutedOutput], results: Sequence[RoutedResult], report: BatchReport
    ) -> BatchReport:
        """Commit dead letters, then rows to the routed tables, then rows to the default table."""
        files = _files(results)
        spans = report.spans
        default, *others = outputs
        with self._discarded(outputs, files):
            self._commit_dead_letters(results, spans)
        if default.transaction is None:  # no table can be created: all lack partition columns
            return report
        written = [(n, o) for n, o in enumerate(others, start=1) if files.get(n)]
        layout = default.layout
        transaction = default.transaction
        added = default.added
        if written and self._target.version is None:
            with self._discarded(outputs, files):
                self._target.create(transaction)
                transaction, _ = self._target.begin(layout, {})
        with self._discarded(outputs, files):
            self.tables.register(output.table for _, output in written)
        adds = files.get(DEFAULT_TABLE, [])
        with discard_unless_committed(lambda: self._target.discard(adds)):
            routed = self._commit_routed(written, files, results, spans)
        ids = {**self._target.transaction_ids(spans), **self.tables.version_ids()}
        known = self._target.version is not None
        tags = commit_tags(report, added if known else ())
        with discard_unless_committed(lambda: self._target.discard(adds)):
            version = self._target.commit(
                transaction.with_transaction_ids(ids), adds, spans, tags=tags
            )
        if version is None:
            self._target.discard(adds)
        self.tables.recorded()
        self._covered = self._target.covered
        if added:
            self._target.comment_columns()
        all_files = [add for adds in files.values() for add in adds]
        return replace(
            report,
            rows=sum(r.rows for r in results),
            version=version,
            new_columns=added,
            bytes=sum(add.size for add in all_files),
            tables=tuple(routed),
        )

    def _commit_routed(
        self,
        written: Sequence[tuple[int, RoutedOutput]],
        files: Mapping[int, Sequence[AddFile]],
        results: Sequence[RoutedResult],
        spans: Mapping[int, OffsetSpan],
    ) -> list[RoutedRows]:
        reports: dict[int, RoutedRows] = {}
        numbers = {output.table: number for number, output in written}
        by_table = {output.table: output for _, output in written}

        def commit(table: RoutedTable) -> None:
            number, output = numbers[table], by_table[table]
            reports[number] = self._commit_table(
                output, files[number], spans, [r.tables.get(number) for r in results]
            )

        for_each_table(commit, list(numbers))
        return [reports[number] for number, _ in written]

    def _commit_table(
        self,
        output: RoutedOutput,
        adds: Sequence[AddFile],
        spans: Mapping[int, OffsetSpan],
        results: Sequence[Any],
    ) -> RoutedRows:
        table, target = output.table, output.table.target
        assert output.transaction is not None  # the tasks only succeed if the table can be created
        created = target.version is None
        # Omit partitions whose offsets the table has recorded already: an interrupted batch may
        # have committed to this table, but not to the default table.
        new = {p: s for p, s in spans.items() if s.end > target.covered.get(p, 0)}
        ids = {**target.transaction_ids(new), **self.tables.written_ids(table)}
        ignored = {name for r in results if r is not None for name in r.ignored}
        report = BatchReport(topic=self._topic.key, ignored=tuple(sorted(ignored)))
        tags = commit_tags(report, () if created else output.added)
        with discard_unless_committed(lambda: target.discard(adds)):
            version = target.commit(
                output.transaction.with_transaction_ids(ids), adds, new, tags=tags
            )
        self.tables.written(table)
        if output.added:
            target.comment_columns()
        assert version is not None  # the commit isn't skipped, because it increments an identifier
        return RoutedRows(
            table=table.topic.routed_table or "",
            table_path=table.topic.table_path,
            rows=sum(r.rows for r in results if r is not None),
            version=version,
            created=created,
            new_columns=() if created else output.added,
        )

    @contextlib.contextmanager
    def _discarded(
        self, outputs: Sequence[RoutedOutput], files: Mapping[int, Sequence[AddFile]]
    ) -> Iterator[None]:
        """Context manager that deletes data files if an error in its block prevents their commit.

        Args:
            outputs: the tables to which the batch writes.
            files: the data files of each table. The keys are indexes in `outputs`.
        """

        def discard() -> None:
            for number, adds in files.items():
                outputs[number].table.target.discard(adds)

        with discard_unless_committed(discard):
            yield

    def _discard(self, results: Sequence[BatchTaskResult]) -> None:
        super()._discard(results)
        # The index of a table stays the same if the batch is repeated with additional tables.
        for number, table in enumerate((self.tables.default, *self.tables.routed)):
            adds = _files(results).get(number)
            if adds:
                table.target.discard(adds)


def _state(output: RoutedOutput) -> bytes | None:
    if output.transaction is None:
        return None
    return output.transaction.transaction_state(output.table.engine).to_bytes()


def _extend(
    columns: RoutedColumns, outputs: Sequence[RoutedOutput], results: Sequence[RoutedResult]
) -> bool:
    """Add the columns and tables that the records of a batch lack; return whether any were added.

    Args:
        columns: the object to which columns and tables are added.
        outputs: the tables to which the batch writes.
        results: the results of the batch's tasks, with new fields and new values of records.
    """
    values: Counter[str] = Counter()
    for result in results:
        values.update(result.new_values)
    return columns.extend(
        outputs,
        routing_fields=_merged(result.new_fields for result in results),
        new_fields=[
            _merged(r.tables[number].new_fields for r in results if number in r.tables)
            for number in range(len(outputs))
        ],
        values=values,
    )


def _merged(schemas: Iterable[StructType]) -> StructType:
    merged = StructType()
    for schema in schemas:
        merged = merge_fields(merged, schema)
    return merged


def _files(results: Sequence[Any]) -> dict[int, list[AddFile]]:
    """Return the data files that tasks wrote to each table.

    The keys are indexes in `RoutedBatchTask.outputs`.
    """
    actions: dict[int, list[bytes]] = {}
    for result in results:
        for number, table in result.tables.items():
            if table.row_actions:
                actions.setdefault(number, []).append(table.row_actions)
    files = {number: decode_adds(messages) for number, messages in actions.items()}
    return {number: adds for number, adds in files.items() if adds}
