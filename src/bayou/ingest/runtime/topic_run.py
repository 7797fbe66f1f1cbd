"""One topic of a run, from its preparation to its summary.

The scheduler decides when the next micro-batch of a topic is due; `TopicRun` executes it and keeps
the topic's position, retries and totals.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from bayou.errors import BayouError, KafkaError, RecordsLostError, StorageError
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.events import Reporter, TopicSummary
from bayou.ingest.maintenance import LastRuns, TopicMaintenance
from bayou.ingest.migration import migrate_json
from bayou.ingest.offsets import OffsetSpan, ranges_between
from bayou.ingest.retries import attempt_failed_event, restart_interval, retry_delay
from bayou.ingest.runtime.prepared_topic import PreparedTopic, prepare_topic
from bayou.ingest.state import topic_lock
from bayou.ingest.topic_errors import (
    SparkFailedError,
    report_topic_errors,
    to_bayou_error,
    translate_errors,
)

__all__ = ["TopicRun"]

_RETRIED = (KafkaError, StorageError, SparkFailedError)
"""Errors of a topic that may be gone at the next attempt."""

_MAX_PARTITIONS_SHOWN = 8


class TopicRun:
    """One topic of a run, from its preparation to its summary.

    No method raises an exception of its topic: every exception ends the topic, and `finish` puts
    it into the summary.

    Args:
        schema: content of the topic's JSON schema file.
        reporter: receives the topic's events.
        upkeep_slots: limits how many topics run maintenance at the same time.
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
        self._open = partial(prepare_topic, configuration, topic, schema, reporter)
        self._reporter = reporter
        self._upkeep_slots = upkeep_slots
        self._resources = ExitStack()
        self._in_batch = threading.Lock()
        self._upkeep: TopicMaintenance | None = None
        self._prepared: PreparedTopic | None = None
        self._positions: dict[int, int] = {}
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
        """Whether the topic was started and has not ended."""
        return self._started and not self._ended

    @property
    def topic(self) -> Topic:
        """The topic's configuration."""
        return self._topic

    @property
    def position(self) -> dict[int, int]:
        """The next offset to read, for each partition."""
        return dict(self._positions)

    @property
    def has_work(self) -> bool:
        """Whether the topic was prepared and has to be started."""
        return self._error is None and self._prepared is not None and self._is_needed

    def prepare(self, *, once: bool) -> None:
        """Query broker and tables; `finish` reports an error.

        Args:
            once: a topic whose records are all in the table has no work.
        """
        with self._errors():
            self._upkeep = self._new_upkeep()
            state_path = self._configuration.state_path
            self._resources.enter_context(topic_lock(state_path, self._topic.key))
            source = self._configuration.json_path(self._topic)
            if source is not None:
                self._reporter.migrated(migrate_json(self._configuration, self._topic, source))
            prepared = self._prepare()
            self._is_needed = not once or prepared.waiting > 0

    def report_if_idle(self) -> None:
        """Report the start of a topic that is prepared and has no work."""
        with self._errors():
            if self._error is None and self._prepared is not None and not self._is_needed:
                self._reporter.topic_started(self._prepared.started)

    def start(self) -> None:
        """Report the start; from now on the scheduler calls `run_batch`."""
        self._started = True
        with self._errors():
            if self._prepared is not None:
                self._reporter.topic_started(self._prepared.started)
            self._start_time = self._last_commit_time = time.monotonic()

    def run_batch(self, spark: SparkSession, end: Mapping[int, int] | None) -> float | None:
        """Run one micro-batch.

        Args:
            end: the offset behind the last record to take, for each partition; None to query broker
                and tables again and take nothing.

        Returns:
            Seconds to wait before the next attempt, if this one failed and is retried; else None.
        """
        with self._in_batch, self._errors():
            if self._ended:
                return None
            try:
                if end is None or self._failures:
                    self._prepare()
                if end is not None:
                    self._take(spark, end)
            except Exception as exception:
                error = to_bayou_error(exception, self._topic.key)
                pause = self.retry_pause(error, self._failures + 1)
                if pause is None:
                    raise error from exception
                self._failures += 1
                return pause
        return None

    def retry_pause(self, error: BayouError, failures: int) -> float | None:
        """Report a failure that is retried.

        Args:
            failures: how many attempts in a row failed, this one included.

        Returns:
            Seconds to wait before the next attempt; None if the topic ends with this error.
        """
        retries = self._topic.config.processing.max_retries
        if isinstance(error, RecordsLostError):
            retries = max(1, retries)  # on-data-loss decides when the topic is prepared again
        if not isinstance(error, _RETRIED) or failures > retries:
            return None
        event = attempt_failed_event(self._topic, "topic", failures, error)
        self._reporter.attempt_failed(replace(event, of=retries))
        return retry_delay(failures)

    def end(self, error: BayouError | None = None) -> None:
        """Run no further batch; waits for the running one."""
        with self._in_batch:
            self._ended = True
            self._error = self._error or error

    def maintain(self) -> None:
        """Start maintenance that is due, in the background."""
        if self._upkeep is not None and self._started:
            with self._errors():
                self._upkeep.poll()

    def complete(self) -> None:
        """Run maintenance that is due, after the last batch of a run with `once`."""
        if self._error is None and self._started and self._upkeep is not None:
            with self._errors():
                self._upkeep.complete()

    def finish(self, *, restart: bool = False) -> TopicSummary:
        """End the topic after its running batch and report its summary, the first time.

        Args:
            restart: the topic is started again if its error may pass.
        """
        if self._is_finished:
            return self._totals
        self._is_finished = True
        with self._errors():
            if self._upkeep is not None:
                self._upkeep.stop()
        self.end()
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
        """Release everything without waiting for a running batch."""
        self._ended = True
        with self._errors():
            self._resources.close()

    def _errors(self) -> AbstractContextManager[None]:
        """The boundary of the topic: an exception inside ends this topic only."""
        return report_topic_errors(self._topic.key, self._fail)

    def _fail(self, error: BayouError) -> None:
        self._ended = True
        self._error = self._error or error

    def _new_upkeep(self) -> TopicMaintenance:
        connector = self._configuration.connector
        return TopicMaintenance(
            self._topic,
            connector.storage.storage_options(),
            self._reporter,
            batches=self._in_batch,
            every=connector.maintenance.seconds,
            last_runs=LastRuns(self._configuration.state_path, self._topic.key),
            slots=self._upkeep_slots,
        )

    def _prepare(self) -> PreparedTopic:
        prepared = self._open()
        self._prepared, self._positions = prepared, dict(prepared.positions)
        self._totals = replace(self._totals, version=prepared.target.version)
        return prepared

    def _take(self, spark: SparkSession, end: Mapping[int, int]) -> None:
        """Run a batch while `_in_batch` is held."""
        assert self._prepared is not None  # `start` follows `prepare`
        spans = ranges_between(self._positions, end)
        self._batches += 1
        with translate_errors(self._topic.key):
            description = _job_description(self._topic.key, self._batches, spans)
            spark.sparkContext.setJobDescription(description)
        report = self._prepared.writer.process(spark, spans)
        self._failures = 0
        # The topic may have been prepared again and be beyond an end that was determined before.
        self._positions |= {p: max(o, self._positions.get(p, 0)) for p, o in end.items()}
        self._totals = replace(
            self._totals,
            rows=self._totals.rows + report.rows,
            dead_letters=self._totals.dead_letters + report.dead_letters,
            commits=self._totals.commits + (report.version is not None),
            version=self._prepared.target.version,
        )
        self._last_commit_time = time.monotonic()
        if report.spans:
            if self._upkeep is not None:
                batch_size = self._topic.config.processing.batch_size
                self._upkeep.count_batch(report, is_behind=report.records >= batch_size)
            self._reporter.batch_committed(report)


def _job_description(topic: str, number: int, spans: Mapping[int, OffsetSpan]) -> str:
    """The description of a batch's jobs in Spark's UI."""
    parts = [f"{p}: {s.start}-{s.end - 1}" for p, s in sorted(spans.items())]
    more = len(parts) - _MAX_PARTITIONS_SHOWN
    shown = ", ".join(parts[:_MAX_PARTITIONS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"bayou topic {topic}, batch {number}, offsets {shown or 'none'}"
