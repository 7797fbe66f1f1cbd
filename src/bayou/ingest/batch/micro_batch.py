"""The driver's part of a micro-batch: run its tasks, commit what they wrote, dead letters first."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from bayou.errors import (
    BayouError,
    CommitConflictError,
    ConcurrentTransactionError,
    PipelineError,
    RecordsLostError,
)
from bayou.ingest.batch.arrow_transfer import driver_bytes, gathered_rows
from bayou.ingest.batch.batch_task import BatchTask, TaskOutcome, crashing_offsets
from bayou.ingest.batch.rows import RowLayout
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.broker import TopicWatch
from bayou.ingest.config import Topic
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.decode import merge_fields
from bayou.ingest.decode.formats import RecordFormat
from bayou.ingest.events import AttemptFailed, BatchReport
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.retries import WORTH_A_RETRY, BatchFailedError, failed_attempt, pause_before
from bayou.ingest.schema.policy import SchemaPolicy, told_in_history
from bayou.ingest.topic_errors import WorkerCrashedError, records_lost, translated
from bayou.ingest.upsert import UpsertOutcome, UpsertTable
from bayou.ingest.upsert.on_executors import KeptRows, merge_on_executors
from bayou.kernel import Snapshot, Transaction
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaShares, OffsetRange, TopicPartition
from bayou.spark.write.tasks import decode_adds

__all__ = ["MicroBatchWriter"]


class MicroBatchWriter:
    """Writes the micro-batches of one topic, one after another."""

    def __init__(
        self,
        *,
        topic: Topic,
        engine: Engine,
        watch: TopicWatch,
        target: TargetTable,
        dead_letters: DeadLetterTable,
        json_schema: str | None,
        schema_columns: StructType,
        storage_options: Mapping[str, str],
        kafka_options: Mapping[str, str],
        record_format: RecordFormat | None = None,
        on_retry: Callable[[AttemptFailed], None] | None = None,
    ) -> None:
        self._topic = topic
        self._engine = engine
        self._watch = watch
        self._target = target
        self._dead_letters = dead_letters
        self._policy = SchemaPolicy(
            topic, target, json_schema=json_schema, schema_columns=schema_columns
        )
        self._storage_options = storage_options
        self._kafka_options = kafka_options
        self._record_format = RecordFormat() if record_format is None else record_format
        self._on_retry = on_retry
        self._covered: dict[int, int] = {}
        self._known_letters: dict[int, dict[int, frozenset[bytes]]] = {}
        self._large: int | None = None  # so many records were too many for the driver
        self._kept: KeptRows | None = None
        self._set_aside: dict[int, tuple[int, ...]] = {}  # records that end a worker process

    def open(self) -> dict[int, int]:
        """Read where the tables stand.

        Returns:
            For each Kafka partition that the target covers the next offset to read.

        Raises:
            PipelineError: the target can't take this topic's records.
        """
        self._target.open()
        self._policy.layout(self._policy.columns())
        self._covered = self._target.covered
        self._known_letters = self._dead_letters.decided(self._covered, self._storage_options)
        return self._covered

    def process(self, spark: SparkSession, spans: Mapping[int, OffsetSpan]) -> BatchReport:
        """Put a micro-batch into the tables, exactly once.

        Args:
            spark: the session that runs its tasks.
            spans: the offsets that the batch covers, for each Kafka partition.

        Raises:
            RecordsLostError: Kafka doesn't have them all any more.
            BayouError: it can't be done; after `max-retries` retries where one might help.
        """
        self._set_aside = {}
        began = time.monotonic()
        retries = self._topic.config.processing.max_retries
        attempt = conflicts = 0
        while True:
            try:
                if attempt == 0:
                    self._target.follow()
                else:
                    self.open()
                report = self._attempt(spark, spans, began)
                return replace(report, retries=attempt, conflicts=conflicts)
            except RecordsLostError as error:  # a second look at them finds no more
                raise records_lost(error.message, self._topic.key) from error
            except WORTH_A_RETRY as error:
                if isinstance(error, ConcurrentTransactionError):
                    raise self._second_copy() from error
                if attempt == retries:
                    raise self._given_up(error, attempt) from error
                attempt += 1
                conflicts += isinstance(error, CommitConflictError)
                if self._on_retry is not None:
                    self._on_retry(failed_attempt(self._topic, "batch", attempt, error))
            time.sleep(pause_before(attempt))

    def _attempt(
        self, spark: SparkSession, spans: Mapping[int, OffsetSpan], began: float
    ) -> BatchReport:
        self._refuse_gaps(spans)
        new = {p: s for p, s in spans.items() if s.end > self._covered.get(p, 0)}
        if not new:
            return BatchReport(topic=self._topic.key, seconds=time.monotonic() - began)
        read_at = time.time_ns() // 1000
        with self._letting_go():
            report = self._decided(spark, new, read_at)
        return replace(report, seconds=time.monotonic() - began)

    def _decided(
        self, spark: SparkSession, new: Mapping[int, OffsetSpan], read_at: int
    ) -> BatchReport:
        columns = self._policy.columns()
        while True:  # ends: every turn makes a column of a new field, or refuses its name
            layout = self._policy.layout(columns)
            transaction, added = self._begin(layout, new)
            outcomes = self._surviving(spark, new, layout, transaction, read_at)
            if any(outcome.too_many for outcome in outcomes):
                self._discard(outcomes)
                self._large = sum(span.end - span.start for span in new.values())
                continue
            new_fields = StructType()
            for outcome in outcomes:
                new_fields = merge_fields(new_fields, outcome.new_fields)
            if not new_fields.fields:
                break
            self._discard(outcomes)
            columns = self._policy.widened(columns, new_fields)
        try:
            self._watch.check_still_there()
        except BayouError:
            self._discard(outcomes)
            raise
        report = BatchReport(
            topic=self._topic.key,
            spans=new,
            dead_letters=sum(o.dead_letters for o in outcomes),
            left_out=sum(o.left_out for o in outcomes),
            ignored=tuple(sorted({name for o in outcomes for name in o.ignored})),
        )
        began = time.monotonic()
        known = self._target.version is not None
        tags = told_in_history(report.ignored, self._target.new_columns(layout) if known else ())
        if self._topic.upsert_keys is not None:
            report = self._upsert(report, outcomes, layout, tags)
        else:
            version = self._commit(transaction, outcomes, new, tags)
            if version is not None:
                report = replace(
                    report,
                    rows=sum(o.rows for o in outcomes),
                    version=version,
                    new_columns=added,
                    bytes=sum(add.size for add in decode_adds([o.row_actions for o in outcomes])),
                )
        return replace(report, commit_seconds=time.monotonic() - began)

    def _is_large(self, spans: Mapping[int, OffsetSpan]) -> bool:
        """Whether an upsert's rows won't fit into the driver: half of what hasn't is much, too."""
        size = sum(span.end - span.start for span in spans.values())
        return self._large is not None and 2 * size >= self._large

    @contextlib.contextmanager
    def _letting_go(self) -> Iterator[None]:
        """Nothing stays with the executors."""
        try:
            yield
        finally:
            if self._kept is not None:
                self._kept.close()
                self._kept = None

    def _surviving(
        self,
        spark: SparkSession,
        spans: Mapping[int, OffsetSpan],
        layout: RowLayout,
        transaction: Transaction | None,
        read_at: int,
    ) -> list[TaskOutcome]:
        """As `_run`; records that end a worker process are found, and become dead letters."""

        def crashes(part: Mapping[int, OffsetSpan]) -> bool:
            try:
                self._discard(self._run(spark, part, layout, transaction, read_at))
            except WorkerCrashedError:
                return True
            return False

        try:
            return self._run(spark, spans, layout, transaction, read_at)
        except WorkerCrashedError:
            found = crashing_offsets(spans, crashes)
            if not found:
                raise
            for partition, offsets in found.items():
                known = self._set_aside.get(partition, ())
                self._set_aside[partition] = tuple(sorted({*known, *offsets}))
            return self._run(spark, spans, layout, transaction, read_at)

    def _run(
        self,
        spark: SparkSession,
        spans: Mapping[int, OffsetSpan],
        layout: RowLayout,
        transaction: Transaction | None,
        read_at: int,
    ) -> list[TaskOutcome]:
        topic = self._topic.config.kafka_topic
        records = KafkaShares.of(
            self._kafka_options,
            [OffsetRange(TopicPartition(topic, p), s.start, s.end) for p, s in spans.items()],
            tasks=spark.sparkContext.defaultParallelism,
        )
        state = None
        if transaction is not None:
            state = transaction.transaction_state(self._engine).to_bytes()
        reading = self._policy.reading(layout, self._record_format, read_at)
        task = BatchTask(
            topic=self._topic.key,
            records=records,
            engine=self._engine.description(),
            table_path=self._target.path,
            dead_letter_path=self._dead_letters.path,
            row_state=state,
            dead_letter_state=self._dead_letters.task_state(),
            reading=reading,
            covered=self._covered,
            decided=self._known_letters,
            set_aside=self._set_aside,
            most_bytes=0 if reading.upsert is None else driver_bytes(spark) // len(records.shares),
        )
        shares = len(records.shares)
        with translated(self._topic.key):
            outcomes: list[TaskOutcome]
            if self._is_large(spans):
                if self._kept is not None:
                    self._kept.close()
                self._kept = KeptRows(spark, task.pieces, shares)
                outcomes = self._kept.outcomes()
            else:
                # An RDD: SQL would plan and compile for 0.1 s what hands out a few numbers.
                numbers = spark.sparkContext.parallelize(range(shares), shares)
                outcomes = numbers.map(task.run).collect()
        for outcome in outcomes:
            if outcome.failure is not None:
                self._discard(outcomes)
                raise outcome.failure
        return outcomes

    def _commit(
        self,
        transaction: Transaction | None,
        outcomes: Sequence[TaskOutcome],
        spans: Mapping[int, OffsetSpan],
        tags: Mapping[str, str],
    ) -> int | None:
        """Dead letters first: a crash in between leaves records to do again, none undecided."""
        rows = decode_adds([o.row_actions for o in outcomes])
        with discard_unless_committed(lambda: self._target.discard(rows)):
            self._commit_letters(outcomes, spans)
        if transaction is None:
            return None
        # A block of its own: the commit of the dead letters says nothing about the rows.
        with discard_unless_committed(lambda: self._target.discard(rows)):
            version = self._target.commit(transaction, rows, spans, tags=tags)
        if version is None:
            self._target.discard(rows)
        self._covered = self._target.covered
        return version

    def _upsert(
        self,
        report: BatchReport,
        outcomes: Sequence[TaskOutcome],
        layout: RowLayout,
        tags: Mapping[str, str],
    ) -> BatchReport:
        """Dead letters first, then deleted keys, then the target."""
        self._commit_letters(outcomes, report.spans)
        if self._kept is not None and (count := sum(o.rows for o in outcomes)):
            added = self._target.new_columns(layout)
            with translated(self._topic.key):
                merge = self._merged(layout, count)
                done = self._target.upsert_by(merge, layout, report.spans, tags=tags)
            self._covered = self._target.covered
            return done.told(report, count, added)
        rows = gathered_rows(o.gathered for o in outcomes)
        if rows is None and self._target.version is None and not layout.record.fields:
            return report
        if rows is None:
            rows = self._target.no_rows(layout)
        winners = self._target.decide(rows)
        added = self._target.new_columns(layout)
        done = self._target.upsert(winners, layout, report.spans, tags=tags)
        self._covered = self._target.covered
        return done.told(report, rows.num_rows, added)

    def _merged(self, layout: RowLayout, rows: int) -> Callable[..., UpsertOutcome]:
        kept = self._kept

        def merge(
            table: UpsertTable,
            snapshot: Snapshot,
            transaction_ids: Mapping[str, int],
            table_properties: Mapping[str, str],
        ) -> UpsertOutcome:
            assert kept is not None
            return merge_on_executors(
                kept,
                table,
                snapshot,
                layout.schema,
                rows=rows,
                storage_options=self._storage_options,
                transaction_ids=transaction_ids,
                table_properties=table_properties,
            )

        return merge

    def _commit_letters(
        self, outcomes: Sequence[TaskOutcome], spans: Mapping[int, OffsetSpan]
    ) -> None:
        letters = decode_adds([o.dead_letter_actions for o in outcomes])
        if letters:
            with discard_unless_committed(lambda: self._dead_letters.discard(letters)):
                self._dead_letters.commit(letters, spans)

    def _begin(
        self, layout: RowLayout, spans: Mapping[int, OffsetSpan]
    ) -> tuple[Transaction | None, tuple[str, ...]]:
        """The target's transaction; None while there is no table and no telling how to make it, and
        where rows are upserted, whose transaction begins when they are known.
        """
        if self._topic.upsert_keys is not None:
            return None, ()
        if self._target.version is None:
            names = layout.schema.names
            if any(c not in names for c in self._topic.config.destination.partition_columns):
                return None, ()
        return self._target.begin(layout, spans)

    def _refuse_gaps(self, spans: Mapping[int, OffsetSpan]) -> None:
        for partition, span in spans.items():
            covered = self._covered.get(partition)
            if covered is not None and covered < span.start:
                key = self._topic.key
                raise PipelineError(
                    f"topic {key!r}: {self._target.path} is at offset {covered} of partition "
                    f"{partition}, the next batch begins at {span.start}: the table was rolled "
                    "back while this pipeline wrote to it. Start the pipeline again to take those "
                    "records from Kafka once more, or bring the table back first.",
                    topic=key,
                )

    def _discard(self, outcomes: Sequence[TaskOutcome]) -> None:
        """Delete what tasks wrote for a batch that won't be committed."""
        self._target.discard(decode_adds([o.row_actions for o in outcomes]))
        self._dead_letters.discard(decode_adds([o.dead_letter_actions for o in outcomes]))

    def _second_copy(self) -> PipelineError:
        return PipelineError(
            f"topic {self._topic.key!r}: another pipeline has written offsets of this topic to "
            f"{self._target.path}, so that this one stops; run one copy only.",
            topic=self._topic.key,
        )

    def _given_up(self, error: BayouError, retries: int) -> BatchFailedError:
        tried = f" after {retries} retries" if retries else ""
        return BatchFailedError(
            f"topic {self._topic.key!r}: a batch failed{tried}: {error.message}",
            topic=self._topic.key,
        )
