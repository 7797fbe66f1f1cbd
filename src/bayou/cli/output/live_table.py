"""A live table of all topics, failed and late ones first, for a run on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bayou.cli.output.control_characters import escape_control_characters
from bayou.ingest.monitoring import PipelineStatus, TopicStatus

_STATES = {"running": "green", "stopped": "dim", "waiting": "yellow", "failed": "bold red"}


class LiveView:
    """A Rich renderable that displays the current status of each topic in a table."""

    def __init__(self, status: Callable[[], PipelineStatus], url: str | None) -> None:
        self._status = status
        self._url = url

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        status = self._status()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("topic", "state", "last commit"):
            table.add_column(name, overflow="fold")
        for name in ("version", "rows", "rows/s", "lag", "freshness", "dead letters"):
            table.add_column(name, justify="right")
        ordered = sorted(status.topics, key=_rank)
        for topic in ordered:
            table.add_row(*_cells(topic))
        yield table
        for topic in ordered:
            if topic.error is not None:
                yield Text.assemble(("error: ", "bold red"), escape_control_characters(topic.error))
        page = f"{self._url}  " if self._url else ""
        yield Text(f"{page}up {_duration(status.at - status.began)}, Ctrl-C stops", style="dim")


def live(console: Console, view: LiveView) -> Live:
    """Return a context manager that displays the view and refreshes it twice a second."""
    return Live(view, console=console, refresh_per_second=2, transient=False)


def _rank(topic: TopicStatus) -> int:
    """Return a sort key: failed topics first, then late topics, as on the status page."""
    return 0 if topic.state == "failed" else 1 if topic.late else 2


def _cells(topic: TopicStatus) -> list[Text]:
    last = "" if topic.last_commit is None else f"{_duration(time.time() - topic.last_commit)} ago"
    freshness = "" if topic.freshness is None else _duration(topic.freshness)
    if topic.objective is not None:
        freshness += f" of {_duration(topic.objective)}"
    return [
        Text(escape_control_characters(topic.topic), style="bold"),
        Text(topic.state, style=_STATES[topic.state]),
        Text(last),
        Text("" if topic.version is None else str(topic.version)),
        Text(f"{topic.rows:,}"),
        Text(f"{topic.rows_per_second:,.0f}"),
        Text("" if topic.waiting is None else f"{topic.waiting:,}"),
        Text(freshness, style="bold red" if topic.late else ""),
        Text(f"{topic.dead_letters:,}", style="yellow" if topic.dead_letters else ""),
    ]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
