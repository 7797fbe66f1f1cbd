"""The driver side of a micro-batch: run its tasks, commit dead letters, then rows."""

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
from bayou.ingest.batch.arrow_transfer import decode_rows, driver_bytes
from bayou.ingest.batch.batch_task import BatchTask, BatchTaskResult, crashing_offsets
from bayou.ingest.batch.rows import RowLayout
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.broker import RecreatedTopicCheck
from bayou.ingest.config import Topic
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.decode import merge_fields
from bayou.ingest.decode.formats import RecordFormat
from bayou.ingest.events import AttemptFailed, BatchReport
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.retries import (
    TRANSIENT_ERRORS,
    BatchFailedError,
    attempt_failed_event,
    retry_delay,
)
from bayou.ingest.schema.policy import SchemaPolicy, schema_change_tags
from bayou.ingest.topic_errors import WorkerCrashedError, records_lost_error, translate_errors
from bayou.ingest.upsert import UpsertResult, UpsertTable
from bayou.ingest.upsert.on_executors import CachedRows, merge_on_executors
from bayou.kernel import Snapshot, Transaction
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaTasks, OffsetRange, TopicPartition
from bayou.spark.write.tasks import decode_adds

__all__ = ["MicroBatchWriter"]


class MicroBatchWriter:
    """Writes the micro-batches of one topic sequentially."""

    def __init__(
        self,
        *,
        topic: Topic,
        engine: Engine,
        watch: RecreatedTopicCheck,
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
        self._known_dead_letters: dict[int, dict[int, frozenset[bytes]]] = {}
        self._large: int | None = None  # number of records that exceeded the driver's memory
        self._cached_rows: CachedRows | None = None
        self._set_aside: dict[int, tuple[int, ...]] = {}  # records that crash a Python worker

    def open(self) -> dict[int, int]:
        """Read the current state of the tables.

        Returns:
            The next offset to read of each Kafka partition that the target covers.

        Raises:
            PipelineError: the target doesn't accept this topic's records.
        """
        self._target.open()
        self._policy.layout(self._policy.columns())
        self._covered = self._target.covered
        self._known_dead_letters = self._dead_letters.uncovered_dead_letters(
            self._covered, self._storage_options
        )
        return self._covered

    def process(self, spark: SparkSession, spans: Mapping[int, OffsetSpan]) -> BatchReport:
        """Write a micro-batch to the tables exactly once.

        Args:
            spark: the session that runs its tasks.
            spans: the offsets of the batch, for each Kafka partition.

        Raises:
            RecordsLostError: Kafka doesn't have all records any more.
            BayouError: the batch failed; transient errors are retried `max-retries` times first.
        """
        self._set_aside = {}
        began = time.monotonic()
        retries = self._topic.config.processing.max_retries
        attempt = conflicts = 0
        while True:
            try:
                if attempt == 0:
                    self._target.refresh()
                else:
                    self.open()
                report = self._attempt(spark, spans, began)
                return replace(report, retries=attempt, conflicts=conflicts)
            except RecordsLostError as error:  # a retry wouldn't find more records
                raise records_lost_error(error.message, self._topic.key) from error
            except TRANSIENT_ERRORS as error:
                if isinstance(error, ConcurrentTransactionError):
                    raise self._concurrent_pipeline() from error
                if attempt == retries:
                    raise self._batch_failed(error, attempt) from error
                attempt += 1
                conflicts += isinstance(error, CommitConflictError)
                if self._on_retry is not None:
                    self._on_retry(attempt_failed_event(self._topic, "batch", attempt, error))
            time.sleep(retry_delay(attempt))

    def _attempt(
        self, spark: SparkSession, spans: Mapping[int, OffsetSpan], began: float
    ) -> BatchReport:
        self._refuse_gaps(spans)
        new = {p: s for p, s in spans.items() if s.end > self._covered.get(p, 0)}
        if not new:
            return BatchReport(topic=self._topic.key, seconds=time.monotonic() - began)
        read_at = time.time_ns() // 1000
        with self._release_cached_rows():
            report = self._process_new(spark, new, read_at)
        return replace(report, seconds=time.monotonic() - began)

    def _process_new(
        self, spark: SparkSession, new: Mapping[int, OffsetSpan], read_at: int
    ) -> BatchReport:
        columns = self._policy.columns()
        while True:  # terminates: each iteration adds columns for new fields or refuses them
            layout = self._policy.layout(columns)
            transaction, added = self._begin(layout, new)
            results = self._run_surviving(spark, new, layout, transaction, read_at)
            if any(result.too_many for result in results):
                self._discard(results)
                self._large = sum(span.end - span.start for span in new.values())
                continue
            new_fields = StructType()
            for result in results:
                new_fields = merge_fields(new_fields, result.new_fields)
            if not new_fields.fields:
                break
            self._discard(results)
            columns = self._policy.widened(columns, new_fields)
        try:
            self._watch.check_not_recreated()
        except BayouError:
            self._discard(results)
            raise
        report = BatchReport(
            topic=self._topic.key,
            spans=new,
            dead_letters=sum(r.dead_letters for r in results),
            left_out=sum(r.left_out for r in results),
            ignored=tuple(sorted({name for r in results for name in r.ignored})),
        )
        began = time.monotonic()
        known = self._target.version is not None
        tags = schema_change_tags(report.ignored, self._target.new_columns(layout) if known else ())
        if self._topic.upsert_keys is not None:
            report = self._upsert(report, results, layout, tags)
        else:
            version = self._commit(transaction, results, new, tags)
            if version is not None:
                report = replace(
                    report,
                    rows=sum(r.rows for r in results),
                    version=version,
                    new_columns=added,
                    bytes=sum(add.size for add in decode_adds([r.row_actions for r in results])),
                )
        return replace(report, commit_seconds=time.monotonic() - began)

    def _is_large(self, spans: Mapping[int, OffsetSpan]) -> bool:
        """Whether an upsert's rows may exceed the driver's memory: from half of a size that did."""
        size = sum(span.end - span.start for span in spans.values())
        return self._large is not None and 2 * size >= self._large

    @contextlib.contextmanager
    def _release_cached_rows(self) -> Iterator[None]:
        """Release rows that executors cache for the batch."""
        try:
            yield
        finally:
            if self._cached_rows is not None:
                self._cached_rows.close()
                self._cached_rows = None

    def _run_surviving(
        self,
        spark: SparkSession,
        spans: Mapping[int, OffsetSpan],
        layout: RowLayout,
        transaction: Transaction | None,
        read_at: int,
    ) -> list[BatchTaskResult]:
        """Run the tasks; records that crash a Python worker are located and become dead letters."""

        def crashes(part: Mapping[int, OffsetSpan]) -> bool:
            try:
                self._discard(self._run(spark, part, layout, transaction, read_at))
            except WorkerCrashedError:
                return True
            return False

        try:
            return self._run(spark, spans, layout, transaction, read_at)
        except WorkerCrashedError:
            crashing = crashing_offsets(spans, crashes)
            if not crashing:
                raise
            for partition, offsets in crashing.items():
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
    ) -> list[BatchTaskResult]:
        topic = self._topic.config.kafka_topic
        records = KafkaTasks.of(
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
            known_dead_letters=self._known_dead_letters,
            set_aside=self._set_aside,
            max_bytes=0 if reading.upsert is None else driver_bytes(spark) // len(records.tasks),
        )
        tasks = len(records.tasks)
        with translate_errors(self._topic.key):
            results: list[BatchTaskResult]
            if self._is_large(spans):
                if self._cached_rows is not None:
                    self._cached_rows.close()
                self._cached_rows = CachedRows(spark, task.run_in_chunks, tasks)
                results = self._cached_rows.outcomes()
            else:
                # An RDD, because planning and compiling a DataFrame of task numbers takes 0.1 s.
                numbers = spark.sparkContext.parallelize(range(tasks), tasks)
                results = numbers.map(task.run).collect()
        for result in results:
            if result.failure is not None:
                self._discard(results)
                raise result.failure
        return results

    def _commit(
        self,
        transaction: Transaction | None,
        results: Sequence[BatchTaskResult],
        spans: Mapping[int, OffsetSpan],
        tags: Mapping[str, str],
    ) -> int | None:
        """Commit dead letters, then rows: a crash in between only repeats the batch."""
        rows = decode_adds([r.row_actions for r in results])
        with discard_unless_committed(lambda: self._target.discard(rows)):
            self._commit_dead_letters(results, spans)
        if transaction is None:
            return None
        # A separate block, because the commit of the dead letters isn't the commit of the rows.
        with discard_unless_committed(lambda: self._target.discard(rows)):
            version = self._target.commit(transaction, rows, spans, tags=tags)
        if version is None:
            self._target.discard(rows)
        self._covered = self._target.covered
        return version

    def _upsert(
        self,
        report: BatchReport,
        results: Sequence[BatchTaskResult],
        layout: RowLayout,
        tags: Mapping[str, str],
    ) -> BatchReport:
        """Commit dead letters, then deleted keys, then the target."""
        self._commit_dead_letters(results, report.spans)
        if self._cached_rows is not None and (count := sum(r.rows for r in results)):
            added = self._target.new_columns(layout)
            with translate_errors(self._topic.key):
                merge = self._executor_merge(layout, count)
                result = self._target.upsert_with(merge, layout, report.spans, tags=tags)
            self._covered = self._target.covered
            return result.add_to_report(report, count, added)
        rows = decode_rows(r.encoded_rows for r in results)
        if rows is None and self._target.version is None and not layout.record.fields:
            return report
        if rows is None:
            rows = self._target.no_rows(layout)
        winners = self._target.last_of_each_key(rows)
        added = self._target.new_columns(layout)
        result = self._target.upsert(winners, layout, report.spans, tags=tags)
        self._covered = self._target.covered
        return result.add_to_report(report, rows.num_rows, added)

    def _executor_merge(self, layout: RowLayout, rows: int) -> Callable[..., UpsertResult]:
        cached_rows = self._cached_rows

        def merge(
            table: UpsertTable,
            snapshot: Snapshot,
            transaction_ids: Mapping[str, int],
            table_properties: Mapping[str, str],
        ) -> UpsertResult:
            assert cached_rows is not None
            return merge_on_executors(
                cached_rows,
                table,
                snapshot,
                layout.schema,
                rows=rows,
                storage_options=self._storage_options,
                transaction_ids=transaction_ids,
                table_properties=table_properties,
            )

        return merge

    def _commit_dead_letters(
        self, results: Sequence[BatchTaskResult], spans: Mapping[int, OffsetSpan]
    ) -> None:
        files = decode_adds([r.dead_letter_actions for r in results])
        if files:
            with discard_unless_committed(lambda: self._dead_letters.discard(files)):
                self._dead_letters.commit(files, spans)

    def _begin(
        self, layout: RowLayout, spans: Mapping[int, OffsetSpan]
    ) -> tuple[Transaction | None, tuple[str, ...]]:
        """Start the target's transaction.

        Returns None for an upsert, and if the table doesn't exist and its partition columns aren't
        known yet.
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
                    f"{partition}, but the next batch begins at {span.start}: the table was rolled "
                    "back while this pipeline wrote to it. Start the pipeline again to read those "
                    "records from Kafka again, or restore the table first.",
                    topic=key,
                )

    def _discard(self, results: Sequence[BatchTaskResult]) -> None:
        """Delete the files of a batch that won't be committed."""
        self._target.discard(decode_adds([r.row_actions for r in results]))
        self._dead_letters.discard(decode_adds([r.dead_letter_actions for r in results]))

    def _concurrent_pipeline(self) -> PipelineError:
        return PipelineError(
            f"topic {self._topic.key!r}: another pipeline has written offsets of this topic to "
            f"{self._target.path}, so this pipeline stops. Run only one pipeline for a topic.",
            topic=self._topic.key,
        )

    def _batch_failed(self, error: BayouError, retries: int) -> BatchFailedError:
        attempts = f" after {retries} retries" if retries else ""
        return BatchFailedError(
            f"topic {self._topic.key!r}: a batch failed{attempts}: {error.message}",
            topic=self._topic.key,
        )
