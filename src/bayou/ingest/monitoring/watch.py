"""Polls brokers and tables in a background thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from bayou.api import TableHandle, table
from bayou.errors import BayouError
from bayou.ingest.broker import end_offsets
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.dead_letters.reason_kinds import count_kinds
from bayou.ingest.inspection import TopicTables, group_letters
from bayou.ingest.inspection.kafka_records import first_record_time
from bayou.ingest.monitoring.status import RoutedTable
from bayou.ingest.monitoring.status_store import StatusStore
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.routing.inspection import routed_topics
from bayou.ingest.topic_errors import topic_error
from bayou.kernel.arrow.compute import pc
from bayou.redaction import without_secrets

_TABLES_INTERVAL = 60.0
_SMALL_FILE = 16 << 20
_MAX_COUNTED_LETTERS = 200_000
"""Maximum number of dead letters that are counted by kind of reason."""
_MAX_COUNTED_FILES = 20_000
"""Maximum number of data files of a topic whose small files are counted."""


def _iceberg_lag(handles: Sequence[TableHandle]) -> int | None:
    """Return the number of table versions that aren't in the table's Iceberg metadata yet.

    None if no table has Iceberg metadata.

    Args:
        handles: the tables. The result is the maximum over these tables.
    """
    lags = [lag for handle in handles if (lag := handle.iceberg.lag()) is not None]
    return max(lags, default=None)


class Watch:
    """Context manager that polls brokers and tables in a background thread.

    The end offsets of running and failed topics are polled, and the tables of running topics.
    """

    def __init__(self, configuration: Configuration, store: StatusStore, interval: float) -> None:
        self._configuration = configuration
        self._properties = configuration.connector.kafka.client_properties()
        self._store = store
        self._interval = interval
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bayou-watch", daemon=True)
        self._tables_due: dict[str, float] = {}
        self._counted: dict[str, int] = {}  # versions of dead letter tables, by topic
        self._table_errors: dict[str, str] = {}  # until the table is read again

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()

    def look(self) -> None:
        """Poll the brokers, and the tables that were last polled at least a minute ago."""
        error: str | None = None
        running, behind = set(self._store.active()), set(self._store.behind())
        topics = [self._configuration.topic(key) for key in sorted(behind)]
        if topics:
            try:
                missing = self._poll_brokers(topics) & running
            except BayouError as failure:
                error = failure.message
            else:
                if missing:
                    names = ", ".join(repr(key) for key in sorted(missing))
                    error = (
                        f"The Kafka brokers don't report the end offsets of these topics: {names}. "
                        "Check that they exist, and that the user is allowed to describe them."
                    )
        for topic in topics:
            if topic.key in running and self._tables_due.get(topic.key, 0.0) <= time.monotonic():
                self._table_errors.pop(topic.key, None)
                try:
                    self._poll_tables(topic)
                except Exception as fault:  # noqa: BLE001  # other tables are polled after a failure
                    self._table_errors[topic.key] = topic_error(fault, topic.key).message
                self._tables_due[topic.key] = time.monotonic() + _TABLES_INTERVAL
        table_errors = (message for key, message in self._table_errors.items() if key in running)
        self._store.watched(error or next(table_errors, None))

    def _run(self) -> None:
        # The first interval is short, so that the status page soon has values.
        pause = min(1.0, self._interval)
        while not self._closing.wait(pause):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  # a failure never stops the pipeline
                self._store.watched(
                    without_secrets(f"Unexpected {type(error).__name__} while polling: {error}")
                )
            pause = self._interval if self._store.active() else pause

    def _poll_brokers(self, topics: list[Topic]) -> set[str]:
        """Poll the end offsets of topics; return the keys of topics that no broker reports."""
        ends = end_offsets({topic.config.kafka_topic for topic in topics}, self._properties)
        missing = {t.key for t in topics if t.config.kafka_topic not in ends}
        for topic in topics:
            if topic.key in missing and topic.key in self._store.active():
                continue  # keep the known values
            topic_end = ends.get(topic.config.kafka_topic, {})
            unknown = self._store.unknown_arrivals(topic.key, topic_end)
            self._store.set_end_offsets(
                topic.key, topic_end, self._arrivals(topic, unknown, topic_end)
            )
        return missing

    def _arrivals(
        self, topic: Topic, unknown: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, float]:
        arrivals: dict[int, float] = {}
        for partition, position in unknown.items():
            span = OffsetSpan(start=position, end=ends[partition])
            with contextlib.suppress(BayouError):  # the pipeline reports the error if relevant
                timestamp = first_record_time(
                    self._properties, topic.config.kafka_topic, partition, span
                )
                if timestamp is not None:
                    arrivals[partition] = timestamp
        return arrivals

    def _poll_tables(self, topic: Topic) -> None:
        tables = TopicTables.of(self._configuration, topic)
        if not tables.target.exists():
            return
        detail = tables.target.detail()
        handles, details = [tables.target], [detail]
        routed: list[RoutedTable] | None = None
        if topic.routes is not None:
            options = self._configuration.connector.storage.storage_options()
            routed = []
            for of_route in routed_topics(topic, tables.target.snapshot()):
                handle = table(of_route.table_path, options)
                if not handle.exists():
                    continue
                handles.append(handle)
                details.append(handle.detail())
                routed.append(
                    RoutedTable(
                        table=of_route.routed_table or "",
                        table_path=of_route.table_path,
                        version=details[-1].version,
                        files=details[-1].num_files,
                        bytes=details[-1].size_in_bytes,
                    )
                )
        small: int | None = None
        if sum(each.num_files for each in details) <= _MAX_COUNTED_FILES:
            small = 0
            for handle, each in zip(handles, details, strict=True):
                sizes: Any = handle.snapshot(each.version).files().column("size")
                small += pc.sum(pc.less(sizes, pa.scalar(_SMALL_FILE))).as_py() or 0
        dead_letters = tables.dead_letters
        letters = 0
        reasons: dict[str, int] | None = {}
        if dead_letters.exists():
            snapshot = dead_letters.snapshot()
            letters = tables.count_letters(snapshot)
            reasons = self._reasons(topic.key, tables, snapshot.version, letters)
        self._store.set_table(
            topic.key,
            version=detail.version,
            files=sum(each.num_files for each in details),
            small_files=small,
            table_bytes=sum(each.size_in_bytes for each in details),
            iceberg_lag=_iceberg_lag(handles),
            letters=letters,
            reasons=reasons,
            routed_tables=routed,
        )

    def _reasons(
        self, topic: str, tables: TopicTables, version: int, letters: int
    ) -> dict[str, int] | None:
        """Count the dead letters by kind of reason.

        The result is None if the dead letter table hasn't changed since the last count. It is an
        empty dict if there are too many dead letters to count.

        Args:
            version: the latest version of the dead letter table.
            letters: number of dead letters of the topic.
        """
        if self._counted.get(topic) == version:
            return None
        self._counted[topic] = version
        if letters > _MAX_COUNTED_LETTERS:
            return {}
        return count_kinds({group.reason: group.count for group in group_letters(tables)})
