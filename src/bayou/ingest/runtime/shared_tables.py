"""The maintenance and the catalog entry of each table; topics of one table share both."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

from bayou.ingest.config import Configuration, Topic
from bayou.ingest.events import Reporter
from bayou.ingest.maintenance import LastRuns, TopicMaintenance
from bayou.ingest.runtime.catalog_registration import Registration, registration

_MAX_CONCURRENT_REGISTRATIONS = 4


class SharedTables:
    """The maintenance and the catalog entry of each table of a run. Thread-safe.

    Args:
        slots: semaphore that limits the number of tables under maintenance at the same time.

    Attributes:
        registration_slots: semaphore that limits the number of catalog entries that are updated at
            the same time.
    """

    def __init__(
        self, configuration: Configuration, reporter: Reporter, slots: AbstractContextManager[Any]
    ) -> None:
        self._configuration = configuration
        self._reporter = reporter
        self._slots = slots
        self._lock = threading.Lock()
        self._maintenance: dict[str, TopicMaintenance] = {}
        self._users: dict[str, int] = {}
        self._registrations: dict[str, Registration | None] = {}
        self.registration_slots = threading.BoundedSemaphore(_MAX_CONCURRENT_REGISTRATIONS)
        self._changes: dict[str, threading.Lock] = {}

    def change_lock(self, topic: Topic) -> threading.Lock:
        """Return the lock of a topic's table, which prevents repeated conflicts between topics.

        A batch holds the lock while it creates the table, and while it is retried after a conflict.
        The lock is also held while the table is changed to its configured definition.
        """
        with self._lock:
            return self._changes.setdefault(topic.table_key, threading.Lock())

    def open_maintenance(self, topic: Topic, batches: threading.Lock) -> TopicMaintenance:
        """Return the maintenance of a topic's table.

        Call `close_maintenance` when the topic no longer uses it.

        Args:
            batches: the lock that a batch of the topic holds while it changes the table.
        """
        connector = self._configuration.connector
        key = topic.table_key
        with self._lock:
            if key not in self._maintenance:
                self._maintenance[key] = TopicMaintenance(
                    topic,
                    connector.storage.storage_options(),
                    self._reporter,
                    batches=batches,
                    interval=connector.maintenance.seconds,
                    last_runs=LastRuns(self._configuration.state_path, key),
                    slots=self._slots,
                )
            self._users[key] = self._users.get(key, 0) + 1
            return self._maintenance[key]

    def close_maintenance(self, topic: Topic) -> None:
        """Stop the maintenance of a topic's table if no other topic uses it."""
        key = topic.table_key
        with self._lock:
            self._users[key] -= 1
            maintenance = self._maintenance.pop(key) if self._users[key] == 0 else None
        if maintenance is not None:
            maintenance.stop()

    def registration(self, topic: Topic) -> Registration | None:
        """Return the catalog entry of a topic's table; None if no catalog is configured."""
        with self._lock:
            return self._registrations.setdefault(
                topic.table_key, registration(topic, self._configuration.connector)
            )
