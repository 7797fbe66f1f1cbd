"""Several listeners as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

__all__ = ["Listeners"]


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
