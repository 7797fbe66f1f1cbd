"""The run of one topic, from opening its table to its summary.

Its batches come from its own streaming query (`begin`), or from the scheduler (`begin_turns`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bayou.engines import for_path
from bayou.errors import BayouError, KafkaError, RecordsLostError, StorageError
from bayou.ingest.background_task import Errand
from bayou.ingest.batch.micro_batch import MicroBatchWriter
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.broker import TopicWatch, describe_topic
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.events import Reporter, TopicStarted, TopicSummary
from bayou.ingest.maintenance import LastRuns, TopicUpkeep
from bayou.ingest.migration import migrate_json
from bayou.ingest.offsets import batch_end, ranges_between
from bayou.ingest.retries import failed_attempt, pause_before, restart_interval
from bayou.ingest.runtime.start_positions import start_positions
from bayou.ingest.runtime.streaming_query import BatchQuery
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.topic_format import topic_columns, topic_format
from bayou.ingest.state import hadoop_path, topic_state
from bayou.ingest.topic_errors import SparkFailedError, as_error, errors_of_topic, translated

__all__ = ["TopicRun"]

_TRANSIENT_ERRORS = (KafkaError, StorageError, SparkFailedError)
"""Errors of a query, or of opening its topic, that may be transient."""

_STABLE_AFTER = 120.0
"""Seconds after which a running query counts as stable and its retry count is reset."""


class TopicRun:
    """The run of one topic.

    No method raises an exception of the topic: an exception ends the topic, and `finish` returns it
    in the summary.
    """

    def __init__(
        self,
        configuration: Configuration,
        topic: Topic,
        schema: str | None,
        reporter: Reporter,
        *,
        upkeep_slots: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._configuration = configuration
        self._topic = topic
        self._schema = schema
        self._reporter = reporter
        self._resources = ExitStack()
        self._query: BatchQuery | None = None
        self._queries = 0
        self._failures = 0
        self._recovery: Errand | None = None
        self._closing = threading.Event()
        self.has_work = False
        self._in_batch = threading.Lock()
        self._upkeep_slots = upkeep_slots
        self._upkeep: TopicUpkeep | None = None
        self._in_turns = False
        self._failed = False
        self._ended = False
        self._error: BayouError | None = None
        self._summary: TopicSummary | None = None
        self._rows = self._dead_letters = self._commits = 0
        self._version: int | None = None
        self._began = self._last = time.monotonic()

    @property
    def active(self) -> bool:
        """Whether the query runs or is about to be restarted."""
        if self._recovery is not None and self._recovery.under_way:
            return True
        if self._failed:
            return False
        if self._in_turns:
            return not self._ended
        active = False
        with self._errors():
            active = self._query is not None and self._query.active
        return active  # noqa: RET504  # an exception leaves it False

    @property
    def topic(self) -> Topic:
        """The topic's configuration."""
        return self._topic

    @property
    def position(self) -> dict[int, int]:
        """For each partition the next offset to read."""
        return dict(self._position)

    def prepare(self, *, once: bool) -> None:
        """Read the positions from broker and tables; an error ends up in the summary.

        With `once`, a topic whose records are all in the table has no work.
        """
        with self._errors():
            self._upkeep = self._new_upkeep()
            self._state = self._resources.enter_context(
                topic_state(self._configuration.state_path, self._topic.key)
            )
            source = self._configuration.json_path(self._topic)
            if source is not None:
                self._reporter.migrated(migrate_json(self._configuration, self._topic, source))
            self._started = self._open()
            self.has_work = not once or self._started.waiting > 0

    def tell_if_idle(self) -> None:
        """Report the start of a prepared topic without work."""
        with self._errors():
            if self._error is None and not self.has_work:
                self._reporter.topic_started(self._started)

    def begin(self, spark: SparkSession, *, once: bool) -> None:
        """Start the query if there is work; an error ends up in the summary."""
        if not self.has_work:
            return
        with self._errors():
            self._reporter.topic_started(self._started)
            self._began = self._last = time.monotonic()
            try:
                self._start_query(spark, once=once)
            except BayouError as error:
                if not self._may_retry(error):
                    raise
                self._recovery = Errand(lambda: self._recover(spark, None, once=once))

    def begin_turns(self) -> None:
        """Start the topic without a query: the scheduler calls `turn` when there are records."""
        self._in_turns = True
        with self._errors():
            self._reporter.topic_started(self._started)
            self._began = self._last = time.monotonic()

    def turn(self, spark: SparkSession, end: Mapping[int, int] | None) -> float | None:
        """Process the records up to the end offsets; an error ends up in the summary.

        Args:
            end: the end offset of each partition; None to read the positions from broker and table
                again.

        Returns:
            Seconds to wait before the next turn if brokers, store or Spark failed and `max-retries`
            isn't exhausted, otherwise None.
        """
        with self._in_batch, self._errors():
            if self._ended:
                return None
            try:
                if end is None or self._failures:
                    self._open()
                if end is not None:
                    self._process(spark, end)
            except Exception as fault:
                error = as_error(fault, self._topic.key, self._configuration.state_path)
                if not self._may_retry(error):
                    raise error from fault
                return pause_before(self._failures)
        return None

    def end_turns(self, error: BayouError | None = None) -> None:
        """End the topic's turns: all records are processed, or an error prevents further turns."""
        with self._in_batch:
            self._ended = True
            self._error = self._error or error

    def recover(self, spark: SparkSession, *, once: bool) -> bool:
        """Restart a query after an error of brokers, store or Spark, at most `max-retries` times.

        The count is reset when a query runs for a while or completes a batch.

        Returns:
            True if a background thread restarts the query after a pause, from the table's position
            at that time. False if the topic has ended.
        """
        recovers = False
        with self._errors():
            recovers = self._begin_recovery(spark, once=once)
        return recovers  # noqa: RET504  # as in `active`

    def _begin_recovery(self, spark: SparkSession, *, once: bool) -> bool:
        query = self._query
        if query is None or self._error is not None:
            return False
        error = query.failure()
        if error is None:
            return False
        if time.monotonic() - self._query_began > _STABLE_AFTER:
            self._failures = 0
        if not self._may_retry(error):
            return False
        self._query = None
        self._recovery = Errand(lambda: self._recover(spark, query, once=once))
        return True

    def maintain(self) -> None:
        """Start due maintenance of the table in the background."""
        if self._upkeep is not None and (self._query is not None or self._in_turns):
            with self._errors():
                self._upkeep.poll()

    def complete(self) -> None:
        """Run due maintenance of the table after the last batch, before the run ends."""
        if self._error is None and self.has_work and self._upkeep is not None:
            with self._errors():
                self._upkeep.complete()

    def finish(self, *, restart: bool = False) -> TopicSummary:
        """End the query after its running batch and report the summary; idempotent.

        Args:
            restart: whether the topic may be restarted after a transient error.
        """
        if self._summary is not None:
            return self._summary
        with self._errors():
            self._end_recovery()
        with self._errors():
            if self._upkeep is not None:
                self._upkeep.stop()
        with self._errors():
            self._end_query()
        with self._errors():
            self._resources.close()
        self._summary = self._new_summary(restart=restart)
        with self._errors():
            self._reporter.topic_finished(self._summary)
        return self._summary

    def _end_query(self) -> None:
        query = self._query
        if query is not None or self._in_turns:
            with self._in_batch:
                self._ended = True
        if query is not None:
            self._query = None
            failure = None if query.active else query.failure()
            query.stop()
            if failure is not None and not self._is_retried(failure, self._failures + 1):
                self._error = self._error or failure

    def _new_summary(self, *, restart: bool) -> TopicSummary:
        return TopicSummary(
            topic=self._topic.key,
            table_path=self._topic.table_path,
            rows=self._rows,
            dead_letters=self._dead_letters,
            commits=self._commits,
            version=self._version,
            seconds=self._last - self._began,
            error=self._error,
            restart=restart_interval(self._topic, self._error) if restart else None,
        )

    def abandon(self) -> None:
        """Release all resources, even during a batch. Does nothing after `finish`."""
        self._ended = True
        self._closing.set()
        query, self._query = self._query, None
        with self._errors():
            if query is not None:
                query.stop()
        with self._errors():
            self._resources.close()

    def _errors(self) -> AbstractContextManager[None]:
        """Context in which an exception ends this topic and no other."""
        return errors_of_topic(self._topic.key, self._fail)

    def _fail(self, error: BayouError) -> None:
        self._failed = self._ended = True
        self._error = self._error or error

    def _new_upkeep(self) -> TopicUpkeep:
        connector = self._configuration.connector
        return TopicUpkeep(
            self._topic,
            connector.storage.storage_options(),
            self._reporter,
            batches=self._in_batch,
            every=connector.maintenance.seconds,
            last_runs=LastRuns(self._configuration.state_path, self._topic.key),
            slots=self._upkeep_slots,
        )

    def _open(self) -> TopicStarted:
        connector = self._configuration.connector
        config = self._topic.config
        kafka = describe_topic(config.kafka_topic, connector.kafka.client_properties())
        storage_options = connector.storage.storage_options()
        engine = for_path(self._topic.table_path, storage_options)
        target = TargetTable(engine, self._topic, kafka)
        dead_letters = DeadLetterTable(engine, self._topic, kafka)
        columns = topic_columns(self._topic, self._schema)
        writer = MicroBatchWriter(
            topic=self._topic,
            engine=engine,
            watch=TopicWatch(kafka, connector.kafka.client_properties(), key=self._topic.key),
            target=target,
            dead_letters=dead_letters,
            json_schema=self._schema,
            schema_columns=columns,
            storage_options=storage_options,
            kafka_options=self._kafka_options(kafka.name),
            record_format=topic_format(self._configuration, self._topic, self._schema),
            on_retry=self._reporter.attempt_failed,
        )
        self._position = start_positions(
            self._topic,
            kafka,
            writer=writer,
            target=target,
            dead_letters=dead_letters,
            storage_options=storage_options,
            reporter=self._reporter,
        )
        self._version = target.version
        waiting = sum(max(0, kafka.bounds[p].end - o) for p, o in self._position.items())
        self._kafka, self._writer, self._target = kafka, writer, target
        return TopicStarted(
            topic=self._topic.key,
            kafka_topic=kafka.name,
            table_path=target.path,
            partitions=len(kafka.bounds),
            waiting=waiting,
            positions=dict(self._position),
            unseen_masks=unseen_masks(self._topic, target.merged(target.columns, columns)),
        )

    def _kafka_options(self, topic: str) -> dict[str, str]:
        properties = self._configuration.connector.kafka.client_properties()
        return {"subscribe": topic, **{f"kafka.{name}": v for name, v in properties.items()}}

    def _start_query(self, spark: SparkSession, *, once: bool) -> None:
        processing = self._topic.config.processing
        start = {self._kafka.name: {str(p): o for p, o in self._position.items()}}
        options = {
            **self._kafka_options(self._kafka.name),
            "startingOffsets": json.dumps(start),
            "maxOffsetsPerTrigger": str(processing.batch_size),
        }
        if not once:
            options["minOffsetsPerTrigger"] = str(processing.batch_size)
            options["maxRecordDelay"] = f"{int(processing.flush_interval * 1000)}ms"
        self._queries += 1
        self._checkpoint = self._state / str(self._queries)
        self._query_began = time.monotonic()
        with translated(self._topic.key, self._configuration.state_path):
            # The query only plans offsets: tasks read the records of a batch themselves.
            records = spark.readStream.format("bayou-kafka").options(**options).load()
            writer = (
                records.writeStream.foreachBatch(self._on_batch)
                .option("checkpointLocation", hadoop_path(self._checkpoint))
                .queryName(f"bayou {self._topic.key}")
            )
            writer = writer.trigger(availableNow=True) if once else writer
            state_path = self._configuration.state_path
            self._query = BatchQuery(writer.start(), topic=self._topic.key, state_path=state_path)

    def _may_retry(self, error: BayouError) -> bool:
        """Count a failure; return whether it is retried, and report the retry."""
        self._failures += 1
        if not self._is_retried(error, self._failures):
            return False
        event = failed_attempt(self._topic, "query", self._failures, error)
        self._reporter.attempt_failed(replace(event, of=self._retries(error)))
        return True

    def _is_retried(self, error: BayouError, failures: int) -> bool:
        """Whether a retry follows this number of failures, the last of which is `error`."""
        return isinstance(error, _TRANSIENT_ERRORS) and failures <= self._retries(error)

    def _retries(self, error: BayouError) -> int:
        retries = self._topic.config.processing.max_retries
        # One retry opens the topic again, which applies on-data-loss.
        return max(1, retries) if isinstance(error, RecordsLostError) else retries

    def _recover(self, spark: SparkSession, failed: BatchQuery | None, *, once: bool) -> None:
        """Restart the query at the table's position; wait between failed attempts."""
        with self._errors():
            if failed is not None:
                failed.stop()  # releases its name in Spark
            while not self._closing.wait(pause_before(self._failures)):
                try:
                    self._open()
                    if not self._closing.is_set():
                        self._start_query(spark, once=once)
                    return
                except Exception as fault:
                    error = as_error(fault, self._topic.key, self._configuration.state_path)
                    if not self._closing.is_set() and not self._may_retry(error):
                        raise error from fault

    def _end_recovery(self) -> None:
        """Prevent the start of another query."""
        self._closing.set()
        if self._recovery is not None:
            self._recovery.finish()

    def _on_batch(self, records: DataFrame, batch_id: int) -> None:
        with self._in_batch:
            if self._ended:
                return  # the checkpoint is deleted after the run; the table is unchanged
            try:
                end = batch_end(self._checkpoint, batch_id, self._kafka.name, key=self._topic.key)
                self._process(records.sparkSession, end)
            except RecordsLostError:
                raise  # the query is restarted, and on-data-loss decides
            except Exception as fault:
                error = as_error(fault, self._topic.key, self._configuration.state_path)
                if isinstance(fault, BayouError) or not isinstance(error, _TRANSIENT_ERRORS):
                    self._error = error
                    self._ended = True
                raise

    def _process(self, spark: SparkSession, end: Mapping[int, int]) -> None:
        """Process a batch; the caller holds `_in_batch`."""
        report = self._writer.process(spark, ranges_between(self._position, end))
        self._failures = 0
        # A reopened topic may already be beyond an end that was read before.
        self._position |= {p: max(o, self._position.get(p, 0)) for p, o in end.items()}
        self._rows += report.rows
        self._dead_letters += report.dead_letters
        self._commits += report.version is not None
        self._version = self._target.version
        self._last = time.monotonic()
        if report.spans:
            if self._upkeep is not None:
                batch_size = self._topic.config.processing.batch_size
                self._upkeep.took(report, more_waits=report.records >= batch_size)
            self._reporter.batch_committed(report)
