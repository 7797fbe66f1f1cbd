"""The run of one topic, from its preparation to its summary.

The scheduler decides when the next micro-batch of a topic starts. `TopicRun` runs the batch. It
also stores the topic's next offsets, number of failures and totals.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from bayou.errors import BayouError, KafkaError, RecordsLostError, StorageError
from bayou.ingest.batch.batch_bytes import record_limit
from bayou.ingest.batch.startup_session import StartupSession
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.events import Reporter, TopicSummary
from bayou.ingest.local_state import topic_lock
from bayou.ingest.migration import migrate_json
from bayou.ingest.offsets import OffsetSpan, ranges_between
from bayou.ingest.retries import attempt_failed_event, restart_interval, retry_delay
from bayou.ingest.runtime.prepared_topic import PreparedTopic, prepare_topic
from bayou.ingest.runtime.shared_tables import SharedTables
from bayou.ingest.runtime.topic_upkeep import TopicUpkeep
from bayou.ingest.spark_errors import SparkFailedError, to_bayou_error, translate_errors
from bayou.ingest.topic_errors import report_topic_errors

_RETRIED = (KafkaError, StorageError, SparkFailedError)
"""Errors after which a topic's batch is retried."""

_MAX_PARTITIONS_SHOWN = 8


class TopicRun:
    """The run of one topic, from its preparation to its summary.

    Methods don't raise errors of the topic. An error ends the topic's run, and the summary from
    `finish` contains the error.

    Args:
        schema: content of the topic's schema file; None if the topic has no schema file.
        tables: the maintenance and the catalog entries of all tables of the pipeline.
        before: the earlier run of this topic, which this run replaces; None for the first run.
    """

    def __init__(
        self,
        configuration: Configuration,
        topic: Topic,
        schema: str | None,
        reporter: Reporter,
        *,
        tables: SharedTables,
        before: TopicRun | None = None,
    ) -> None:
        self._configuration = configuration
        self._topic = topic
        self._has_schema = schema is not None
        lock = tables.change_lock(topic)
        self._open = partial(prepare_topic, configuration, topic, schema, reporter, lock)
        self._reporter = reporter
        self._resources = ExitStack()
        self._in_batch = threading.Lock()
        self._upkeep = TopicUpkeep(topic, tables, reporter, self._in_batch)
        self._prepared: PreparedTopic | None = None
        self._previous = None if before is None else before.last_prepared
        self._positions: dict[int, int] = {}
        self._bytes_per_record = 0.0
        self._failures = 0
        self._batches = 0
        self._is_needed = False
        self._started = self._ended = False
        self._error: BayouError | None = None
        self._totals = TopicSummary(topic=topic.key, table_path=topic.table_path)
        self._start_time = self._last_commit_time = time.monotonic()
        self._is_finished = False

    @property
    def active(self) -> bool:
        """Whether the topic was started and hasn't ended."""
        return self._started and not self._ended

    @property
    def topic(self) -> Topic:
        return self._topic

    @property
    def position(self) -> dict[int, int]:
        """The next offset to read from each Kafka partition."""
        return dict(self._positions)

    @property
    def last_prepared(self) -> PreparedTopic | None:
        """The result of the last successful preparation in this run or an earlier run."""
        return self._prepared or self._previous

    @property
    def batch_limit(self) -> int:
        """Maximum number of records of the next batch.

        If `max-batch-bytes` is set, the number depends on the record size in the last batch.
        """
        processing = self._topic.config.processing
        return record_limit(
            processing.batch_size, processing.max_batch_bytes, self._bytes_per_record
        )

    @property
    def has_work(self) -> bool:
        """Whether the topic must be started after its preparation.

        False if the preparation failed, or if `once` is true and there are no records to read.
        """
        return self._error is None and self._prepared is not None and self._is_needed

    def prepare(self, *, once: bool) -> None:
        """Prepare the topic; see `prepare_topic`. Migrate its JSON files if migration is enabled.

        If `once` is true and the tables have all records of the Kafka topic, `has_work` is false.
        """
        with self._errors():
            self._topic.check_table()
            self._upkeep.open((self._topic,))
            state_path = self._configuration.state_path
            self._resources.enter_context(topic_lock(state_path, self._topic.key))
            source = self._configuration.json_path(self._topic)
            if source is not None:
                self._reporter.migrated(migrate_json(self._configuration, self._topic, source))
            prepared = self._prepare()
            self._is_needed = not once or prepared.started.waiting > 0

    def report_if_idle(self) -> None:
        """Report the start of the topic if it is prepared but has no work."""
        with self._errors():
            if self._error is None and self._prepared is not None and not self._is_needed:
                self._reporter.topic_started(self._prepared.started)

    @property
    def has_columns(self) -> bool:
        """Whether the table exists or a schema file defines the columns.

        Otherwise, the columns are inferred from the records of the first batch.
        """
        return self._has_schema or self.has_table

    @property
    def has_table(self) -> bool:
        """Whether the topic is prepared and its table exists."""
        return self._prepared is not None and self._prepared.target.version is not None

    @property
    def waiting(self) -> int:
        """Number of offsets that were unread at the last preparation."""
        return 0 if self._prepared is None else self._prepared.started.waiting

    @property
    def has_entries(self) -> bool:
        """Whether tables of the topic have catalog entries, which Spark updates in this run."""
        return self._upkeep.has_entries

    def needs_spark(self) -> bool:
        """Whether the maintenance at the end of a run with `once` needs Spark."""
        with self._errors():
            if self._error is None and self._upkeep.needs_spark():
                return True
        return False

    def use(self, spark: SparkSession) -> None:
        """Set the Spark session for maintenance and for updates of catalog entries."""
        with self._errors():
            self._upkeep.start(spark)

    def start(self, spark: SparkSession | StartupSession) -> None:
        """Report the start of the topic. Must be called before `run_batch`."""
        self._started = True
        if not isinstance(spark, StartupSession):
            self.use(spark)
        with self._errors():
            if self._prepared is not None:
                self._reporter.topic_started(self._prepared.started)
            self._start_time = self._last_commit_time = time.monotonic()

    def run_batch(
        self, spark: SparkSession | StartupSession, end: Mapping[int, int] | None
    ) -> float | None:
        """Run one micro-batch.

        Args:
            end: the end offset of the batch for each Kafka partition. If None, no records are read,
                and the topic is only prepared again.

        Returns:
            If the batch failed and is retried, the seconds until the next attempt; otherwise None.
        """
        with self._in_batch, self._errors():
            if self._ended:
                return None
            try:
                if end is None or self._failures:
                    self._prepare()
                if end is None:
                    self._failures = 0
                else:
                    self._take(spark, end)
            except Exception as exception:
                error = to_bayou_error(exception, self._topic.key)
                self._record_start(error)
                pause = self.retry_pause(error, self._failures + 1)
                if pause is None:
                    raise error from exception
                self._failures += 1
                return pause
        return None

    def retry_pause(self, error: BayouError, failures: int) -> float | None:
        """Return the pause before a retry after a failure, and report the retry.

        Args:
            failures: number of consecutive failures.

        Returns:
            Seconds until the next attempt; None if the topic ends with this error.
        """
        retries = self._topic.config.processing.max_retries
        if isinstance(error, RecordsLostError):
            retries = max(1, retries)  # on-data-loss applies when the topic is prepared again
        if not isinstance(error, _RETRIED) or failures > retries:
            return None
        event = attempt_failed_event(self._topic, "topic", failures, error)
        self._reporter.attempt_failed(replace(event, of=retries))
        return retry_delay(failures)

    def end(self, error: BayouError | None = None) -> None:
        with self._in_batch:
            self._ended = True
            self._error = self._error or error

    def maintain(self) -> None:
        """Start maintenance and updates of catalog entries that are due, in the background."""
        with self._errors():
            self._upkeep.poll_registrations()
        if self._started:
            with self._errors():
                self._upkeep.poll()

    def complete(self) -> None:
        """Update the catalog entries and run maintenance, at the end of a run with `once`.

        Waits until all updates and all maintenance that is due are done.
        """
        if self._error is None and self._started:
            with self._errors():
                self._upkeep.complete_registrations()
        if self._error is None and self._started:
            with self._errors():
                self._upkeep.complete()

    def stop_maintenance(self) -> None:
        """Stop the maintenance of the topic's tables.

        A task in progress ends after its current step.
        """
        with self._errors():
            self._upkeep.close()

    def finish(self, *, restart: bool = False) -> TopicSummary:
        """End the topic after its current batch, and return the summary.

        The first call also reports the summary. Later calls only return it. If `restart` is true
        and the topic ended with a transient error, the summary contains the seconds until the
        topic's restart.
        """
        if self._is_finished:
            return self._totals
        self._is_finished = True
        with self._errors():
            self._upkeep.close()
        self.end()
        with self._errors():
            self._upkeep.close()  # the tables that the last batch has opened
        with self._errors():
            if self._error is None:
                self._upkeep.end_registrations()
        with self._errors():
            self._resources.close()
        self._totals = replace(
            self._totals,
            seconds=self._last_commit_time - self._start_time,
            error=self._error,
            restart=restart_interval(self._topic, self._error) if restart else None,
        )
        with self._errors():
            self._reporter.topic_finished(self._totals)
        return self._totals

    def abandon(self) -> None:
        """Release the topic's resources without waiting for a running batch."""
        self._ended = True
        with self._errors():
            self._resources.close()

    def _errors(self) -> AbstractContextManager[None]:
        """Return a context manager that suppresses an exception and ends this topic instead."""
        return report_topic_errors(self._topic.key, self._fail)

    def _fail(self, error: BayouError) -> None:
        self._ended = True
        self._error = self._error or error

    def _prepare(self) -> PreparedTopic:
        prepared = self._open(before=self.last_prepared)
        self._upkeep.open(prepared.writer.routed_topics)
        self._prepared, self._positions = prepared, dict(prepared.positions)
        self._totals = replace(self._totals, version=prepared.target.version)
        return prepared

    def _record_start(self, error: BayouError) -> None:
        """Record the start offsets in the dead letter table, unless offsets are committed already.

        After a `StorageError`, nothing is recorded now. The next attempt prepares the topic again,
        and this preparation records the start offsets.
        """
        if self._prepared is not None and not isinstance(error, StorageError):
            with suppress(BayouError):
                self._prepared.record_start()

    def _take(self, spark: SparkSession | StartupSession, end: Mapping[int, int]) -> None:
        """Run a batch up to the offsets in `end`. The caller must hold the lock `_in_batch`."""
        assert self._prepared is not None  # `start` is called after `prepare`
        spans = ranges_between(self._positions, end)
        self._batches += 1
        with translate_errors(self._topic.key):
            description = _job_description(self._topic.key, self._batches, spans)
            spark.sparkContext.setJobDescription(description)
        limit = self.batch_limit
        report = self._prepared.writer.process(spark, spans)
        self._failures = 0
        end = {**end, **{p: span.end for p, span in report.spans.items()}}
        if offsets := sum(s.end - s.start for s in report.spans.values()):
            self._bytes_per_record = report.record_bytes / offsets
        # After another preparation, the position may already be beyond this end.
        self._positions |= {p: max(o, self._positions.get(p, 0)) for p, o in end.items()}
        self._totals = replace(
            self._totals,
            rows=self._totals.rows + report.rows,
            dead_letters=self._totals.dead_letters + report.dead_letters,
            filtered=self._totals.filtered + report.filtered,
            commits=self._totals.commits + (report.version is not None),
            version=self._prepared.target.version,
        )
        self._last_commit_time = time.monotonic()
        if report.spans:
            is_full = report.records >= limit or report.spans != spans
            self._upkeep.open(self._prepared.writer.routed_topics)
            self._upkeep.count_batch(report, is_behind=is_full)
            self._reporter.batch_committed(report)


def _job_description(topic: str, number: int, spans: Mapping[int, OffsetSpan]) -> str:
    parts = [f"{p}: {s.start}-{s.end - 1}" for p, s in sorted(spans.items())]
    more = len(parts) - _MAX_PARTITIONS_SHOWN
    shown = ", ".join(parts[:_MAX_PARTITIONS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"bayou topic {topic}, batch {number}, offsets {shown or 'none'}"
