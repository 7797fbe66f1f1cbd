"""A listener whose reader may go away, or whose disk may be full, while a pipeline runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bayou.cli.output.interface import UnreadError
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

__all__ = ["Unheard"]

Event = TypeVar("Event")


class Unheard:
    """Tells a listener, and keeps from the pipeline that it couldn't be told; a `Reporter`.

    An event is told in the middle of a batch: what fails there would be that batch's failure.

    Args:
        listener: writes to a terminal, a pipe or a file.
        gone: called when nobody reads what it writes any more.
    """

    def __init__(self, listener: Reporter, gone: Callable[[], None]) -> None:
        self._listener = listener
        self._gone = gone

    def topic_started(self, event: TopicStarted) -> None:
        self._tell(self._listener.topic_started, event)

    def batch_committed(self, event: BatchReport) -> None:
        self._tell(self._listener.batch_committed, event)

    def attempt_failed(self, event: AttemptFailed) -> None:
        self._tell(self._listener.attempt_failed, event)

    def records_lost(self, event: RecordsLost) -> None:
        self._tell(self._listener.records_lost, event)

    def migrated(self, event: MigrationReport) -> None:
        self._tell(self._listener.migrated, event)

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        self._tell(self._listener.maintenance_finished, event)

    def topic_finished(self, event: TopicSummary) -> None:
        self._tell(self._listener.topic_finished, event)

    def _tell(self, told: Callable[[Event], None], event: Event) -> None:
        try:
            told(event)
        except UnreadError:
            self._gone()
        except (OSError, ValueError):
            """A full disk, a closed file, letters that its encoding doesn't have: a line less."""
