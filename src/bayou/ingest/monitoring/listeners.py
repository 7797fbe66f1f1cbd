"""Combines several reporters, and starts the monitoring of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bayou.ingest.config import Configuration
from bayou.ingest.config.connector.operations import MonitoringConfig
from bayou.ingest.events import (
    AttemptFailed,
    BatchReport,
    MaintenanceReport,
    MigrationReport,
    RecordsLost,
    Reporter,
    TopicStarted,
    TopicSummary,
)
from bayou.ingest.monitoring.server import StatusServer
from bayou.ingest.monitoring.status_store import StatusStore
from bayou.ingest.monitoring.watch import Watch


class Listeners:
    """A `Reporter` that forwards each event to several listeners, in order.

    It also forwards calls of other methods, but only to the listeners that have the method.
    """

    def __init__(self, *listeners: Reporter) -> None:
        self._listeners = listeners

    def topic_started(self, event: TopicStarted) -> None:
        for listener in self._listeners:
            listener.topic_started(event)

    def batch_committed(self, event: BatchReport) -> None:
        for listener in self._listeners:
            listener.batch_committed(event)

    def attempt_failed(self, event: AttemptFailed) -> None:
        for listener in self._listeners:
            listener.attempt_failed(event)

    def records_lost(self, event: RecordsLost) -> None:
        for listener in self._listeners:
            listener.records_lost(event)

    def migrated(self, event: MigrationReport) -> None:
        for listener in self._listeners:
            listener.migrated(event)

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        for listener in self._listeners:
            listener.maintenance_finished(event)

    def topic_finished(self, event: TopicSummary) -> None:
        for listener in self._listeners:
            listener.topic_finished(event)

    def __getattr__(self, name: str) -> Callable[[Any], None]:
        if name.startswith("_"):
            raise AttributeError(name)
        methods = [getattr(each, name) for each in self._listeners if hasattr(each, name)]

        def forward(event: Any) -> None:
            for method in methods:
                method(event)

        return forward


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
    """The status of a run and the URL of its status page.

    Attributes:
        store: collects the status of the run. It must receive the events of the run.
        url: URL of the status page; None if monitoring over HTTP is disabled.
    """

    store: StatusStore
    url: str | None


@contextlib.contextmanager
def monitored(configuration: Configuration, *, watch: bool = False) -> Iterator[Monitor]:
    """Context manager that monitors a run until the run ends.

    Brokers and tables are polled if `connector.monitoring` is configured, or if `watch` is true.
    """
    config = configuration.connector.monitoring
    store = StatusStore(configuration)
    serves = config is not None and config.enabled
    with contextlib.ExitStack() as stack:
        url: str | None = None
        if config is not None and serves:
            server = StatusServer(config, store)
            stack.callback(server.close)
            url = server.url
        if serves or watch:
            interval = (config or MonitoringConfig()).interval_seconds
            stack.enter_context(Watch(configuration, store, interval))
        yield Monitor(store=store, url=url)
