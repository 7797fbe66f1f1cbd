"""What a command can print.

A listener whose reader may go away, or whose disk may be full, while a pipeline runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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

if TYPE_CHECKING:
    from bayou.ingest.monitoring import Monitor

__all__ = ["Output", "Row", "Unheard", "UnreadError"]


Row = Mapping[str, Any]


class UnreadError(BrokenPipeError):
    """Whoever read the output has gone away; no other pipe's end, such as that of Spark's JVM."""


class Output(Protocol):
    """Results go to stdout; notices, progress and errors of the console form to stderr or stdout
    as suits people, of the JSON form as one object a line.
    """

    def step(self, text: str) -> None:
        """Something begins that takes a while."""
        ...

    def notice(self, text: str) -> None:
        """A side remark, one line."""
        ...

    def error(self, message: str, *, kind: str) -> None:
        """What went wrong and what to do; `kind` is the error's type."""
        ...

    def facts(self, title: str, facts: Mapping[str, Any], *, event: str) -> None:
        """A few named values; `event` is what machines know them by."""
        ...

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        """A table; all rows have the keys of the first. `empty` is said where there are none."""
        ...

    def text(self, title: str, text: str) -> None:
        """Something to read or to copy, printed as it stands."""
        ...

    def run(self) -> AbstractContextManager[Reporter]:
        """Progress of a pipeline that ends."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether `watch` shows a status that moves, for which the pipeline is to be watched."""
        ...

    def watch(self, monitor: Monitor) -> AbstractContextManager[Reporter]:
        """What a pipeline does that goes on until it is stopped."""
        ...


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
