"""The maintenance and the catalog entries of all tables of a topic during a run.

A topic with `route-by` has several tables. Batches can add more tables during the run.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from bayou.errors import BayouError
from bayou.ingest.config import Topic
from bayou.ingest.events import BatchReport, Reporter
from bayou.ingest.maintenance import TopicMaintenance
from bayou.ingest.retries import attempt_failed_event
from bayou.ingest.runtime.background_registration import BackgroundRegistration
from bayou.ingest.runtime.shared_tables import SharedTables


class TopicUpkeep:
    """The maintenance and the catalog entries of the tables of one topic.

    Batches call `open` and `count_batch` in their threads. Other threads may call the other methods
    at the same time, so these methods iterate over copies.

    Args:
        batches: the lock that a batch of the topic holds while it is running.
    """

    def __init__(
        self, topic: Topic, tables: SharedTables, reporter: Reporter, batches: threading.Lock
    ) -> None:
        self._topic = topic
        self._tables = tables
        self._reporter = reporter
        self._batches = batches
        self._spark: SparkSession | None = None
        self._opened: dict[str, Topic] = {}
        self._closed: set[str] = set()
        self._maintenance: dict[str, TopicMaintenance] = {}
        self._registrations: dict[str, BackgroundRegistration] = {}

    def open(self, topics: Sequence[Topic]) -> None:
        """Open the maintenance and the catalog entries of tables, unless they are already open.

        Args:
            topics: for each table, the copy of the topic that writes to it; see `Topic.routed`.
        """
        for topic in topics:
            path = topic.table_path
            if path in self._opened:
                continue
            registration = self._tables.registration(topic)
            if registration is not None:
                self._registrations[path] = BackgroundRegistration(
                    topic.key,
                    registration,
                    slots=self._tables.registration_slots,
                    on_failure=self._registration_failed,
                    stops=path == self._topic.table_path,
                )
                self._registrations[path].request()
            self._maintenance[path] = self._tables.open_maintenance(topic, self._batches)
            self._opened[path] = topic
            if self._spark is not None:
                self._maintenance[path].use_executors(self._spark)

    def start(self, spark: SparkSession) -> None:
        """Set the Spark session for maintenance and for updates of catalog entries."""
        self._spark = spark
        for maintenance in list(self._maintenance.values()):
            maintenance.use_executors(spark)

    def count_batch(self, report: BatchReport, *, is_behind: bool) -> None:
        """Count the records of a committed batch, and request updates of catalog entries.

        Args:
            is_behind: whether Kafka probably has more records to read.
        """
        routed = {rows.table_path: rows.rows for rows in report.tables}
        default = replace(report, rows=report.rows - sum(routed.values()))
        for path, maintenance in self._maintenance.items():
            if path == self._topic.table_path:
                maintenance.count_batch(default, is_behind=is_behind)
            elif path in routed:
                rows = BatchReport(topic=report.topic, rows=routed[path], seconds=report.seconds)
                maintenance.count_batch(rows, is_behind=is_behind)
        for path, registration in self._registrations.items():
            if path == self._topic.table_path or path in routed:
                registration.request()

    def poll(self) -> None:
        """Start maintenance that is due, in the background."""
        for maintenance in list(self._maintenance.values()):
            maintenance.poll()

    def poll_registrations(self) -> None:
        """Start the updates of catalog entries that are due, in the background.

        Raises:
            BayouError: the last update has failed with a permanent error.
        """
        if self._spark is not None:
            for registration in list(self._registrations.values()):
                registration.poll(self._spark)

    def complete(self) -> None:
        """Run maintenance that is due and wait for it."""
        for maintenance in list(self._maintenance.values()):
            maintenance.complete()

    @property
    def has_entries(self) -> bool:
        """Whether tables of the topic have catalog entries, which Spark updates in this run."""
        return bool(self._registrations)

    def needs_spark(self) -> bool:
        """Whether maintenance that is due must run on executors, because a table is large."""
        maintenance = list(self._maintenance.values())
        return any(table.needs_spark() for table in maintenance)

    def complete_registrations(self) -> None:
        """Update the catalog entries, and wait until they are updated.

        Raises:
            BayouError: an update failed.
        """
        if self._spark is not None:
            for registration in list(self._registrations.values()):
                registration.complete(self._spark)

    def end_registrations(self) -> None:
        """Wait up to two seconds for each requested update of a catalog entry.

        If an update takes longer, the next run repeats it.
        """
        if self._spark is not None:
            for registration in list(self._registrations.values()):
                registration.end(self._spark)

    def close(self) -> None:
        """Stop the maintenance of tables that no other topic uses.

        A batch that is running may open tables later, so call this method again after the batch.
        """
        for path, topic in list(self._opened.items()):
            if path not in self._closed:
                self._closed.add(path)
                self._tables.close_maintenance(topic)

    def _registration_failed(self, error: BayouError, failures: int, pause: float) -> None:
        event = attempt_failed_event(self._topic, "registration", failures, error)
        self._reporter.attempt_failed(replace(event, of=None, pause=pause))
