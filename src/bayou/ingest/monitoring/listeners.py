"""Several listeners as one.

A run with everything that watches it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bayou.ingest.config import Configuration
from bayou.ingest.config.operations import MonitoringConfig
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

__all__ = ["Listeners", "Monitor", "monitored"]


class Listeners:
    """Tells every listener what happened, in their order; implements `Reporter`.

    Events that a listener has no method for pass it by, so that one that knows few events listens
    to a pipeline that knows more.
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
        told = [getattr(listener, name) for listener in self._listeners if hasattr(listener, name)]

        def tell(event: Any) -> None:
            for method in told:
                method(event)

        return tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
    """What watches a run.

    Attributes:
        store: to be told by the run; knows its status.
        url: the status page, None where no port was opened.
    """

    store: StatusStore
    url: str | None


@contextlib.contextmanager
def monitored(configuration: Configuration, *, watch: bool = False) -> Iterator[Monitor]:
    """Watch a run for as long as this holds.

    Args:
        configuration: says whether and where a port is opened (`connector.monitoring`).
        watch: ask brokers and tables now and then although no port is opened.

    Raises:
        PrerequisiteError: the address can't be listened at.
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
