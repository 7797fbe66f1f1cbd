"""One topic of a run, from its preparation to its summary.

The scheduler decides when the next micro-batch of a topic starts. `TopicRun` runs the batch, and
holds the topic's position, number of failures and totals.
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
    """One topic of a run, from its preparation to its summary.

    Methods don't raise errors of the topic. An error ends the topic, and `finish` returns it in the
    summary.

    Args:
        schema: content of the topic's schema file.
        tables: the maintenance and the catalog entries of all tables of the pipeline.
        before: the finished run of this topic that this run replaces; None for the first run.
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
        """The next offset to read, for each partition."""
        return dict(self._positions)

    @property
    def last_prepared(self) -> PreparedTopic | None:
        """The result of the last successful preparation, of this run or an earlier run."""
        return self._prepared or self._previous

    @property
    def batch_limit(self) -> int:
        """Maximum number of records of the next batch.

        If `max-batch-bytes` is set, the number depends on the size of the last batch's records.
        """
        processing = self._topic.config.processing
        return record_limit(
            processing.batch_size, processing.max_batch_bytes, self._bytes_per_record
        )

    @property
    def has_work(self) -> bool:
        """Whether the preparation succeeded, and the topic must be started."""
        return self._error is None and self._prepared is not None and self._is_needed

    def prepare(self, *, once: bool) -> None:
        """Read the topic's partitions and offsets, and open the tables; see `prepare_topic`.

        If `once` is true and the table has all records of the topic, `has_work` is false.
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
        """Report the start of a topic that is prepared and has no work."""
        with self._errors():
            if self._error is None and self._prepared is not None and not self._is_needed:
                self._reporter.topic_started(self._prepared.started)

    @property
    def has_columns(self) -> bool:
        """Whether the table exists or a schema file defines the columns.

        Otherwise the columns are inferred from the records of a batch.
        """
        return self._has_schema or self.has_table

    @property
    def has_table(self) -> bool:
        """Whether the topic is prepared and its table exists."""
        return self._prepared is not None and self._prepared.target.version is not None

    @property
    def waiting(self) -> int:
        """Number of records in the topic that weren't in the table at the last preparation."""
        return 0 if self._prepared is None else self._prepared.started.waiting

    @property
    def has_entries(self) -> bool:
        """Whether tables of the topic have catalog entries, which this run updates with Spark."""
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
            end: the end offset of the batch, for each partition. If None, no records are read, and
                the topic is only prepared again.

        Returns:
            Seconds to wait before the next attempt if this attempt failed and is retried; else
            None.
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
        """Decide whether a failure is retried, and report the retry.

        Returns:
            Seconds to wait before the next attempt; None if the topic ends with this error.
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
        """Start due maintenance and due updates of catalog entries, in the background."""
        with self._errors():
            self._upkeep.poll_registrations()
        if self._started:
            with self._errors():
                self._upkeep.poll()

    def complete(self) -> None:
        """Run due maintenance and wait for it, at the end of a run with `once`."""
        if self._error is None and self._started:
            with self._errors():
                self._upkeep.complete_registrations()
        if self._error is None and self._started:
            with self._errors():
                self._upkeep.complete()

    def stop_maintenance(self) -> None:
        """End running maintenance after its current step, and start no more maintenance."""
        with self._errors():
            self._upkeep.close()

    def finish(self, *, restart: bool = False) -> TopicSummary:
        """Wait for the topic's running batch, end the topic, and return its summary.

        The first call also passes the summary to the reporter. Later calls only return the summary.
        If `restart` is true, the summary of a topic with a transient error contains the time until
        the topic's restart.
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
        """Record the start offsets after a failed batch, if no offsets are committed yet.

        After a `StorageError`, nothing is recorded. The next attempt prepares the topic again,
        which records the start offsets.
        """
        if self._prepared is not None and not isinstance(error, StorageError):
            with suppress(BayouError):
                self._prepared.record_start()

    def _take(self, spark: SparkSession | StartupSession, end: Mapping[int, int]) -> None:
        """Run a batch. The caller holds the lock `_in_batch`."""
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
