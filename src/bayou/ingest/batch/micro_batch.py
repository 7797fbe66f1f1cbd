"""The driver side of a micro-batch: runs the tasks, commits dead letters, then commits rows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import SparkSession

from bayou.errors import (
    BayouError,
    CommitConflictError,
    ConcurrentTransactionError,
    PipelineError,
    RecordsLostError,
)
from bayou.ingest.batch.arrow_transfer import decode_rows, driver_bytes, estimated_row_bytes
from bayou.ingest.batch.batch_bytes import record_limit, shorten_spans
from bayou.ingest.batch.batch_task import (
    BatchTask,
    BatchTaskResult,
    crashing_offsets,
    lacks_columns_error,
)
from bayou.ingest.batch.record_timestamps import (
    RangeTime,
    TimesBefore,
    last_times,
    times_before_ranges,
)
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.startup_session import StartupSession, spark_session
from bayou.ingest.batch.target.table_definition import lacks_layout_columns
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.batch.target.target_upserts import TargetUpserts, empty_rows
from bayou.ingest.broker import KafkaSource
from bayou.ingest.config import Topic
from bayou.ingest.decode import merge_fields
from bayou.ingest.events import AttemptFailed, BatchReport
from bayou.ingest.offsets import OffsetSpan, ranges_between
from bayou.ingest.retries import (
    TRANSIENT_ERRORS,
    BatchFailedError,
    attempt_failed_event,
    retry_delay,
)
from bayou.ingest.routing.former_tables import interrupted_rows, within_spans
from bayou.ingest.schema.policy import SchemaPolicy, commit_tags
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.ingest.spark_errors import WorkerCrashedError, records_lost_error, translate_errors
from bayou.ingest.upsert import UpsertResult
from bayou.ingest.upsert.on_executors import BucketedRows, merge_on_executors, write_on_executors
from bayou.kernel import Transaction
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaTasks, OffsetRange, TopicPartition
from bayou.spark.write.tasks import decode_adds


class MicroBatchWriter:
    """Writes the micro-batches of one topic sequentially.

    Args:
        on_retry: called with the failure of an attempt before the attempt is repeated.
        change_lock: a lock for a table that several topics write; None if no other topic writes
            the table. A batch holds the lock while it creates the table, and when it is retried
            after a conflict.
    """

    def __init__(
        self,
        topic: Topic,
        tables: TopicTables,
        source: KafkaSource,
        schema: RecordSchema,
        *,
        on_retry: Callable[[AttemptFailed], None] | None = None,
        change_lock: contextlib.AbstractContextManager[Any] | None = None,
    ) -> None:
        self._topic = topic
        self._tables = tables
        self._target = tables.target
        self._upserts = TargetUpserts(tables.engine, topic, tables.target)
        self._dead_letters = tables.dead_letters
        self._source = source
        self._policy = SchemaPolicy(topic, tables.target, schema)
        self._on_retry = on_retry
        self._change_lock = contextlib.nullcontext() if change_lock is None else change_lock
        self._covered: dict[int, int] = {}
        self._known_dead_letters: dict[int, dict[int, frozenset[bytes]]] = {}
        self._known_rows: dict[int, BitMap64] = {}  # rows in former tables of `route-by`
        self._times: dict[int, int | None] = {}  # last timestamp of each partition, for an upsert
        self._large: int | None = None  # number of offsets that exceeded the driver's memory
        self._merged_in_driver = 0  # the largest number of offsets that didn't
        self._bucketed_rows: BucketedRows | None = None
        self._crashing_offsets: dict[
            int, tuple[int, ...]
        ] = {}  # records that crash a Python worker

    def open(self) -> dict[int, int]:
        """Read the tables; return the next offset of each partition that has committed offsets."""
        self._target.open()
        self._set_opened()
        return self._covered

    @property
    def routed_topics(self) -> tuple[Topic, ...]:
        """Copies of the topic, one for each existing table of `route-by`; see `Topic.routed`."""
        return ()

    @property
    def columns(self) -> StructType:
        """The columns that store record fields in the topic's tables."""
        return self._target.columns

    def table_differences(self) -> tuple[str, ...]:
        """Return the settings that differ between the configuration and the topic's tables."""
        return tuple(map(str, self._target.differences()))

    def apply_definition(self) -> None:
        """Apply the configured definition to the tables; see `TargetTable.apply_definition`."""
        with self._change_lock:
            self._target.open()
            self._target.apply_definition()
        self.open()

    def record_checks(self) -> None:
        """Commit before log cleanup deletes a commit that the check for a RESTORE needs.

        See `TargetTable.record_check`.
        """
        self._target.record_check()

    def _set_opened(self) -> None:
        self._policy.layout(self._policy.columns())
        self._covered = self._target.covered
        self._times = {}
        self._known_dead_letters = self._dead_letters.uncovered_dead_letters(
            self._covered, self._tables.storage_options
        )
        if self._topic.routes is None:
            self._known_rows = interrupted_rows(
                self._topic, self._target.snapshot, self._tables.storage_options
            )

    def _refresh(self) -> None:
        self._target.refresh()

    def process(
        self, spark: SparkSession | StartupSession, spans: Mapping[int, OffsetSpan]
    ) -> BatchReport:
        """Write a micro-batch to the tables exactly once.

        Raises:
            RecordsLostError: Kafka no longer has all records of the batch.
            BayouError: the batch failed. A transient error is raised after `max-retries` retries.
        """
        self._crashing_offsets = {}
        began = time.monotonic()
        retries = self._topic.config.processing.max_retries
        attempt = conflicts = 0
        while True:
            alone = self._target.version is None or conflicts
            try:
                with self._change_lock if alone else contextlib.nullcontext():
                    if attempt == 0:
                        self._refresh()
                    else:
                        self._target.reopen()
                        self._set_opened()
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
        self, spark: SparkSession | StartupSession, spans: Mapping[int, OffsetSpan], began: float
    ) -> BatchReport:
        self._refuse_gaps(spans)
        covered = {p: max(s.start, self._covered.get(p, 0)) for p, s in spans.items()}
        new = ranges_between(covered, {p: s.end for p, s in spans.items()})
        if not new:
            return BatchReport(topic=self._topic.key, seconds=time.monotonic() - began)
        read_at = time.time_ns() // 1000
        with self._delete_bucketed_rows():
            report = self._process_new(spark, new, read_at)
        return replace(report, seconds=time.monotonic() - began)

    def _process_new(
        self, spark: SparkSession | StartupSession, new: Mapping[int, OffsetSpan], read_at: int
    ) -> BatchReport:
        columns = self._policy.columns()
        max_bytes = self._topic.config.processing.max_batch_bytes
        times_before: TimesBefore = {
            p: {span.start: self._times[p]} for p, span in new.items() if p in self._times
        }
        exact_times = True
        # Terminates: each iteration removes records, adds or refuses columns for new fields, or
        # adds timestamps of all partitions.
        while True:
            layout = self._policy.layout(columns)
            transaction, added = self._begin(layout, new)
            known_rows = within_spans(self._known_rows, new)
            new_task = partial(
                self._task,
                layout,
                transaction,
                read_at,
                known_rows=known_rows,
                times_before=times_before,
                exact_times=exact_times,
            )
            results = self._run_surviving(spark, new, new_task, max_bytes=max_bytes)
            smaller, max_bytes = self._within_bytes(new, results, max_bytes)
            if smaller is not None:
                self._discard(results)
                new = smaller
                continue
            if any(result.rows_too_large for result in results):
                self._discard(results)
                self._large = _number_of_offsets(new)
                continue
            new_fields = StructType()
            for result in results:
                new_fields = merge_fields(new_fields, result.new_fields)
            if new_fields.fields:
                self._discard(results)
                columns = self._policy.widened(columns, new_fields)
                continue
            ranges = [time for result in results for time in result.times]
            if not any(result.times_unknown for result in results):
                break
            self._discard(results)
            times_before = times_before_ranges(self._known_times(ranges), ranges)
            exact_times = False
        self._check_not_recreated(results)
        report = self._report(results, new)
        began = time.monotonic()
        known = self._target.version is not None
        tags = commit_tags(report, self._target.new_columns(layout) if known else ())
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
        self._times = last_times(self._times, ranges)
        if report.new_columns:
            self._target.comment_columns()
        return replace(report, commit_seconds=time.monotonic() - began)

    def _known_times(self, ranges: Sequence[RangeTime]) -> Mapping[int, int | None]:
        """For each partition of `ranges`, return the last timestamp before the batch."""
        partitions = {time.partition for time in ranges}
        if partitions - self._times.keys():
            times = self._upserts.last_times()
            self._times = {p: times.get(p) for p in partitions} | self._times
        return self._times

    def _check_not_recreated(self, results: Sequence[BatchTaskResult]) -> None:
        try:
            self._source.recreated.check_not_recreated()
        except BayouError:
            self._discard(results)
            raise

    def _report(
        self, results: Sequence[BatchTaskResult], spans: Mapping[int, OffsetSpan]
    ) -> BatchReport:
        return BatchReport(
            topic=self._topic.key,
            spans=spans,
            record_bytes=sum(r.bytes_read for r in results),
            dead_letters=sum(r.dead_letters for r in results),
            left_out=sum(r.left_out for r in results),
            filtered=sum(r.filtered for r in results),
            ignored=tuple(sorted({name for r in results for name in r.ignored})),
        )

    @staticmethod
    def _within_bytes(
        spans: Mapping[int, OffsetSpan], results: Sequence[BatchTaskResult], max_bytes: int | None
    ) -> tuple[Mapping[int, OffsetSpan] | None, int | None]:
        """Return the offset ranges and the size limit for another attempt to read a batch.

        If no other attempt is needed, the ranges are None.

        - If the batch isn't larger than `max_bytes`, no other attempt is needed.
        - If the batch is larger, the ranges are shortened.
        - If the ranges can't be shortened, the limit is removed (None). The same ranges are read
          again, unless the tasks have already read all records.
        """
        read = sum(r.bytes_read for r in results)
        if max_bytes is None or read <= max_bytes:
            return None, max_bytes
        records = sum(r.records_read for r in results)
        smaller = shorten_spans(spans, record_limit(records, max_bytes, read / records))
        if smaller is not None:
            return smaller, max_bytes
        return (spans if any(r.batch_too_large for r in results) else None), None

    def _is_large(self, spans: Mapping[int, OffsetSpan], task: BatchTask) -> bool:
        """Whether the rows of an upsert may be too large for a merge in the driver.

        This is assumed if they were too large in an earlier batch, and `spans` has at least half as
        many offsets as that batch. If none was too large yet, the size is estimated from the
        types of the columns, unless the driver has merged a batch with as many offsets.
        """
        size = _number_of_offsets(spans)
        if self._large is not None:
            return 2 * size >= self._large
        if task.reading.upsert is None or size <= self._merged_in_driver:
            return False
        row_bytes = estimated_row_bytes(task.reading.layout.schema)
        return size * row_bytes > 2 * task.max_bytes * len(task.records.tasks)

    @contextlib.contextmanager
    def _delete_bucketed_rows(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self._bucketed_rows is not None:
                self._bucketed_rows.close()
                self._bucketed_rows = None

    def _run_surviving(
        self,
        spark: SparkSession | StartupSession,
        spans: Mapping[int, OffsetSpan],
        new_task: Callable[..., BatchTask],
        *,
        max_bytes: int | None,
    ) -> list[Any]:
        """Run the tasks; records that crash a Python worker become dead letters.

        Args:
            new_task, max_bytes: see `_run`.
        """

        def crashes(part: Mapping[int, OffsetSpan]) -> bool:
            try:
                self._discard(self._run(spark, part, new_task, max_bytes=None))
            except WorkerCrashedError:
                return True
            return False

        try:
            return self._run(spark, spans, new_task, max_bytes=max_bytes)
        except WorkerCrashedError:
            crashing = crashing_offsets(spans, crashes)
            if not crashing:
                raise
            for partition, offsets in crashing.items():
                known = self._crashing_offsets.get(partition, ())
                self._crashing_offsets[partition] = tuple(sorted({*known, *offsets}))
            return self._run(spark, spans, new_task, max_bytes=max_bytes)

    def _task(
        self,
        layout: RowLayout,
        transaction: Transaction | None,
        read_at: int,
        spark: SparkSession | StartupSession,
        records: KafkaTasks,
        *,
        known_rows: Mapping[int, Collection[int]],
        times_before: TimesBefore,
        exact_times: bool,
        max_bytes: int | None,
    ) -> BatchTask:
        state = None
        if transaction is not None:
            state = transaction.transaction_state(self._tables.engine).to_bytes()
        reading = self._policy.reading(layout, read_at)
        return BatchTask(
            topic=self._topic.key,
            records=records,
            engine=self._tables.engine.description(),
            table_path=self._target.path,
            dead_letter_path=self._dead_letters.path,
            row_state=state,
            dead_letter_state=self._dead_letters.task_state(),
            reading=reading,
            covered=self._covered,
            known_dead_letters=self._known_dead_letters,
            known_rows=known_rows,
            crashing_offsets=self._crashing_offsets,
            times_before=times_before,
            exact_times=exact_times,
            max_bytes=0 if reading.upsert is None else driver_bytes(spark) // len(records.tasks),
            max_batch_bytes=max_bytes,
        )

    def _run(
        self,
        spark: SparkSession | StartupSession,
        spans: Mapping[int, OffsetSpan],
        new_task: Callable[..., BatchTask],
        *,
        max_bytes: int | None,
    ) -> list[Any]:
        """Run the tasks and return their results.

        Args:
            new_task: function that returns the definition of the tasks. Its arguments are the
                session, the records to read, and `max_bytes`.
            max_bytes: maximum total size of the records in bytes; None for no limit.
        """
        topic = self._topic.config.kafka_topic
        records = KafkaTasks.of(
            self._source.options,
            [OffsetRange(TopicPartition(topic, p), s.start, s.end) for p, s in spans.items()],
            tasks=spark.sparkContext.defaultParallelism,
        )
        task = new_task(spark, records, max_bytes=max_bytes)
        tasks = len(records.tasks)
        with translate_errors(self._topic.key):
            results: list[BatchTaskResult]
            if self._bucketed_rows is not None:
                self._bucketed_rows.close()
                self._bucketed_rows = None
            if self._is_large(spans, task):
                rows, session = _number_of_offsets(spans), spark_session(spark)
                self._bucketed_rows = BucketedRows(session, task.run_in_buckets, tasks, rows)
                results = self._bucketed_rows.results()
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
        """Commit dead letters, then rows; return the new version of the target.

        After a crash between the two commits, the next run repeats the batch. The result is None if
        `transaction` is None, or if the target has already recorded the offsets of `spans`.

        Args:
            tags: tags of the `commitInfo` action in the target's commit.
        """
        rows = decode_adds([r.row_actions for r in results])
        with discard_unless_committed(lambda: self._target.discard(rows)):
            self._commit_dead_letters(results, spans)
        if transaction is None:
            return None
        # One block for each commit, because a block deletes `rows` only if its own commit fails.
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
        """Commit dead letters, deleted keys and rows in this order; return the final report."""
        self._commit_dead_letters(results, report.spans)
        if self._bucketed_rows is not None and (count := sum(r.rows for r in results)):
            added = self._target.new_columns(layout)
            has_deletes = any(r.has_deletes for r in results)
            with translate_errors(self._topic.key):
                result = self._upsert_on_executors(report.spans, layout, tags, has_deletes)
            self._covered = self._target.covered
            return result.add_to_report(report, count, added)
        rows = decode_rows(r.encoded_rows for r in results)
        if self._target.version is None:
            lacks_columns = lacks_layout_columns(self._topic, layout.schema)
            if rows is None and (lacks_columns or not layout.record.fields):
                return report
            if lacks_columns:
                raise lacks_columns_error(self._topic.key, "the table")
        if rows is None:
            rows = empty_rows(layout)
        winners = self._upserts.last_of_each_key(rows)
        added = self._target.new_columns(layout)
        result = self._upserts.upsert(winners, layout, report.spans, tags=tags)
        if self._bucketed_rows is None:
            self._merged_in_driver = max(self._merged_in_driver, _number_of_offsets(report.spans))
        self._covered = self._target.covered
        return result.add_to_report(report, rows.num_rows, added)

    def _upsert_on_executors(
        self,
        spans: Mapping[int, OffsetSpan],
        layout: RowLayout,
        tags: Mapping[str, str],
        has_deletes: bool,
    ) -> UpsertResult:
        rows, columns = self._bucketed_rows, layout.schema
        assert rows is not None
        # In a merge, one task writes all rows of a table partition.
        partitioned = self._topic.config.destination.partition_columns
        if self._target.version is None and not has_deletes and not partitioned:
            write = partial(write_on_executors, rows, columns)
            return self._upserts.create_with(write, layout, spans, tags=tags)
        merge = partial(
            merge_on_executors,
            rows,
            columns,
            has_deletes=has_deletes,
            storage_options=self._tables.storage_options,
        )
        return self._upserts.upsert_with(merge, layout, spans, tags=tags)

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
        """Return a new transaction of the target, and the names of the columns that it adds.

        The transaction is None for an upsert. It is also None if the table can't be created yet,
        because the types of its partition or clustering columns aren't known.
        """
        if self._topic.upsert_keys is not None:
            return None, ()
        if self._target.version is None and lacks_layout_columns(self._topic, layout.schema):
            return None, ()
        return self._target.begin(layout, spans)

    def _refuse_gaps(self, spans: Mapping[int, OffsetSpan]) -> None:
        for partition, span in spans.items():
            covered = self._covered.get(partition)
            if covered is not None and covered < span.start:
                key = self._topic.key
                raise PipelineError(
                    f"topic {key!r}: {self._target.path} was rolled back while this pipeline "
                    f"wrote to it. The table is at offset {covered} of partition {partition}, "
                    f"but the next batch begins at {span.start}. Start the pipeline again; it "
                    "reads the missing records from Kafka. To undo the rollback instead, restore "
                    "the table to the version before the rollback, and then start the pipeline.",
                    topic=key,
                )

    def _discard(self, results: Sequence[BatchTaskResult]) -> None:
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


def _number_of_offsets(spans: Mapping[int, OffsetSpan]) -> int:
    return sum(span.end - span.start for span in spans.values())
