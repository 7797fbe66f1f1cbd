"""Progress of a pipeline in a Jupyter notebook."""

from __future__ import annotations

import html
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayou.errors import PrerequisiteError

if TYPE_CHECKING:
    from bayou.ingest.events import (
        AttemptFailed,
        BatchReport,
        MaintenanceReport,
        MigrationReport,
        RecordsLost,
        TopicStarted,
        TopicSummary,
    )


class NotebookProgress:
    """Shows a progress bar for each topic in a Jupyter notebook; implements `Reporter`.

    Examples:
        >>> configuration = load_configuration("pipeline.yaml")
        >>> summaries = run_pipeline(configuration, once=True, reporter=NotebookProgress())
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._lock = threading.Lock()
        self._display = _create_display()

    def topic_started(self, event: TopicStarted) -> None:
        self._change(event.topic, _Topic(waiting=event.waiting))

    def batch_committed(self, event: BatchReport) -> None:
        topic = self._topics[event.topic]
        topic.records += event.records
        topic.dead_letters += event.dead_letters
        topic.commits += event.version is not None
        self._change(event.topic, topic)

    def attempt_failed(self, event: AttemptFailed) -> None:
        self._note(event.topic, f"retry {event.retry} of {event.of}: {event.error.message}")

    def records_lost(self, event: RecordsLost) -> None:
        self._note(event.topic, "Kafka deleted records before they were read")

    def migrated(self, event: MigrationReport) -> None:
        self._note(event.topic, f"{event.rows:,} rows migrated from {event.source}")

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        self._note(event.topic, f"{event.task}: {event.result}")

    def topic_finished(self, event: TopicSummary) -> None:
        error = None if event.error is None else event.error.message
        self._note(event.topic, error or f"finished in {event.seconds:.1f} s", finished=True)

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr>{topic.cells(name)}</tr>" for name, topic in self._topics.items())
        return f"<table>{rows}</table>"

    def _note(self, name: str, note: str, *, finished: bool = False) -> None:
        topic = self._topics.setdefault(name, _Topic(waiting=0))
        topic.note, topic.finished = note, topic.finished or finished
        self._change(name, topic)

    def _change(self, name: str, topic: _Topic) -> None:
        with self._lock:  # events arrive from several threads
            self._topics[name] = topic
            self._display.update(self)


@dataclass(slots=True)
class _Topic:
    waiting: int
    records: int = 0
    dead_letters: int = 0
    commits: int = 0
    note: str = ""
    finished: bool = False

    def cells(self, name: str) -> str:
        total = max(self.waiting, self.records)
        share = 1.0 if self.finished or not total else self.records / total
        counts = f"{self.records:,} of {total:,} records, {self.commits} commits"
        if self.dead_letters:
            counts += f", {self.dead_letters:,} dead letters"
        return (
            f"<td>{html.escape(name)}</td>"
            f'<td><progress value="{share:.3f}" max="1"></progress></td>'
            f"<td>{counts}</td><td>{html.escape(self.note)}</td>"
        )


def _create_display() -> Any:
    """Create an updatable output in the running notebook cell."""
    try:
        import IPython.display
    except ImportError as error:
        raise PrerequisiteError(
            "NotebookProgress: IPython isn't installed. Use NotebookProgress in a Jupyter "
            "notebook, or use another reporter.",
            what="IPython",
        ) from error
    module: Any = IPython.display
    return module.display(module.HTML(""), display_id=True) or _NoDisplay()


class _NoDisplay:
    """A display that shows nothing, used outside of a notebook."""

    def update(self, _content: object) -> None:
        return
