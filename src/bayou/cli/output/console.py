"""Console output: tables, and progress as a live display on a terminal or as plain lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from bayou.cli.output.control_characters import escape_control_characters
from bayou.cli.output.interface import ReaderClosedError, Row
from bayou.cli.output.log_lines import LogReporter
from bayou.cli.output.progress import LineReporter, RunProgress
from bayou.ingest.events import Reporter
from bayou.redaction import without_secrets

if TYPE_CHECKING:
    from bayou.ingest.monitoring import Monitor

_UNLIMITED_WIDTH = 4_000
"""Console width for output to a pipe or a file: so large that no path or reason is wrapped."""


class ConsoleOutput:
    """Prints text and tables for people; implements `Output`."""

    def __init__(self) -> None:
        self._out = _Console(highlight=False, soft_wrap=True)
        if not self._out.is_terminal:
            self._out.width = _UNLIMITED_WIDTH
        self._err = _Console(highlight=False, stderr=True, soft_wrap=True)

    def step(self, text: str) -> None:
        self._out.print(
            Text.assemble(("• ", "cyan"), escape_control_characters(without_secrets(text)))
        )

    def notice(self, text: str) -> None:
        self._err.print(
            Text.assemble(("note: ", "yellow"), escape_control_characters(without_secrets(text)))
        )

    def error(self, message: str, *, kind: str) -> None:
        for line in without_secrets(message).splitlines():
            self._err.print(Text.assemble(("error: ", "bold red"), escape_control_characters(line)))

    def facts(self, title: str, facts: Mapping[str, Any], *, event: str) -> None:
        self._titled(title, _facts(facts))

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        if not rows:
            self._out.print(empty)
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name, value in rows[0].items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            table.add_column(
                Text(escape_control_characters(name)),
                justify="right" if number else "left",
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(Text(_formatted(value)) for value in row.values()))
        unlimited = self._out.options.update(max_width=_UNLIMITED_WIDTH)
        if self._out.measure(table, options=unlimited).minimum > self._out.width:
            self._rows_as_lines(title, rows)
            return
        self._titled(title, table)

    def _rows_as_lines(self, title: str, rows: Sequence[Row]) -> None:
        """Print each value on its own line, for terminals that are too narrow for the table."""
        self._title(title)
        for number, row in enumerate(rows):
            if number or not title:
                self._out.print()
            self._out.print(_facts(row))

    def text(self, title: str, text: str) -> None:
        self._title(title)
        for line in text.splitlines():  # rich crops padded text at the console's width
            self._out.print(Text(f"{'  ' if title else ''}{escape_control_characters(line)}"))

    @contextlib.contextmanager
    def run(self) -> Iterator[Reporter]:
        if not self._out.is_terminal:
            yield LineReporter(lambda line: self._out.print(Text(escape_control_characters(line))))
            return
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[topic]}", style="bold"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[status]}"),
            console=self._out,
        )
        with progress:
            yield RunProgress(progress)

    @property
    def is_live(self) -> bool:
        return self._out.is_terminal

    @contextlib.contextmanager
    def watch(self, monitor: Monitor) -> Iterator[Reporter]:
        if not self._out.is_terminal:
            yield LogReporter(lambda line: self._out.print(Text(escape_control_characters(line))))
            return
        from bayou.cli.output.live_table import LiveView, live

        with live(self._out, LiveView(monitor.store.status, monitor.url)):
            yield monitor.store

    def _titled(self, title: str, body: Any) -> None:
        self._title(title)
        self._out.print(Padding(body, (0, 0, 0, 2) if title else 0, expand=False))

    def _title(self, title: str) -> None:
        if title:
            self._out.print()
            self._out.print(Text(title, style="bold"))


class _Console(Console):
    """A rich console that raises `ReaderClosedError`, not `SystemExit`, on a broken pipe."""

    def on_broken_pipe(self) -> None:
        raise ReaderClosedError


def _facts(facts: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(Text(escape_control_characters(name), style="dim"), Text(_formatted(value)))
    return table


def _formatted(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else escape_control_characters(str(value))
