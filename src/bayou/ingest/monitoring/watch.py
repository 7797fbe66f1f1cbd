"""Looks at brokers and tables now and then, in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from bayou.errors import BayouError
from bayou.ingest.broker import topic_ends
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.inspection import TopicTables
from bayou.ingest.inspection.kafka_records import first_record_time
from bayou.ingest.monitoring.status_store import StatusStore
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.topic_errors import topic_error
from bayou.redaction import without_secrets

__all__ = ["Watch"]

_TABLES_EVERY = 60.0
_SMALL_FILE = 16 << 20
_COUNTED_FILES = 20_000
"""Above this many files their sizes aren't looked at."""


class Watch:
    """Asks the brokers for the ends of topics that run or have failed, and tables for their sizes.

    Args:
        configuration: the topics, and how to reach brokers and store.
        store: told what was found.
        interval: seconds between two looks.
    """

    def __init__(self, configuration: Configuration, store: StatusStore, interval: float) -> None:
        self._configuration = configuration
        self._properties = configuration.connector.kafka.client_properties()
        self._store = store
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bayou-watch", daemon=True)
        self._tables_due: dict[str, float] = {}
        self._table_errors: dict[str, str] = {}  # until the next look at that table

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def look(self) -> None:
        """Once, at the brokers' topics and the tables of those that run."""
        error: str | None = None
        running, behind = set(self._store.active()), set(self._store.behind())
        topics = [topic for topic in self._configuration.topics if topic.key in behind]
        if topics:
            try:
                untold = self._brokers(topics) & running
            except BayouError as refused:
                error = refused.message
            else:
                if untold:
                    names = ", ".join(repr(key) for key in sorted(untold))
                    error = (
                        f"The Kafka brokers don't tell where these topics end: {names}. They "
                        "aren't there, or the user may not describe them."
                    )
        for topic in topics:
            if topic.key in running and self._tables_due.get(topic.key, 0.0) <= time.monotonic():
                self._table_errors.pop(topic.key, None)
                try:
                    self._tables(topic)
                except Exception as fault:  # noqa: BLE001  # a table ends no look at the others
                    self._table_errors[topic.key] = topic_error(fault, topic.key).message
                self._tables_due[topic.key] = time.monotonic() + _TABLES_EVERY
        of_tables = (told for key, told in self._table_errors.items() if key in running)
        self._store.watched(error or next(of_tables, None))

    def _run(self) -> None:
        # Short looks first, so that a page has something to show soon.
        pause = min(1.0, self._interval)
        while not self._over.wait(pause):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  # a look never ends the pipeline
                self._store.watched(
                    without_secrets(f"Unexpected {type(error).__name__} while looking: {error}")
                )
            pause = self._interval if self._store.active() else pause

    def _brokers(self, topics: list[Topic]) -> set[str]:
        """Look at all; gives those that the brokers don't tell about."""
        ends = topic_ends({topic.config.kafka_topic for topic in topics}, self._properties)
        untold = {t.key for t in topics if t.config.kafka_topic not in ends}
        for topic in topics:
            if topic.key in untold and topic.key in self._store.active():
                continue  # what was known is no look
            found = ends.get(topic.config.kafka_topic, {})
            unknown = self._store.unknown_arrivals(topic.key, found)
            self._store.ends_seen(topic.key, found, self._arrivals(topic, unknown, found))
        return untold

    def _arrivals(
        self, topic: Topic, unknown: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, float]:
        arrivals: dict[int, float] = {}
        for partition, position in unknown.items():
            span = OffsetSpan(start=position, end=ends[partition])
            with contextlib.suppress(BayouError):  # the pipeline says it, if it matters
                moment = first_record_time(
                    self._properties, topic.config.kafka_topic, partition, span
                )
                if moment is not None:
                    arrivals[partition] = moment
        return arrivals

    def _tables(self, topic: Topic) -> None:
        tables = TopicTables.of(self._configuration, topic)
        if not tables.target.exists():
            return
        detail = tables.target.detail()
        small: int | None = None
        if detail.num_files <= _COUNTED_FILES:
            sizes: Any = tables.target.snapshot(detail.version).files().column("size")
            small = pc.sum(pc.less(sizes, pa.scalar(_SMALL_FILE))).as_py() or 0
        letters = tables.dead_letters.snapshot().row_count() if tables.dead_letters.exists() else 0
        self._store.table_seen(
            topic.key,
            version=detail.version,
            files=detail.num_files,
            small_files=small,
            table_bytes=detail.size_in_bytes,
            letters=letters,
        )
