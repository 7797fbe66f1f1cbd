"""Console output: tables, and progress as a live display on a terminal or as plain lines."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayou.cli.output.cells import MAX_LENGTH, format_cell
from bayou.cli.output.control_characters import escape_control_characters, escape_tsv
from bayou.cli.output.interface import ReaderClosedError, Row
from bayou.cli.output.log_lines import LogReporter
from bayou.redaction import without_secrets

if TYPE_CHECKING:
    import pyarrow as pa

    from bayou.ingest.events import Reporter
    from bayou.ingest.monitoring import Monitor

_UNLIMITED_WIDTH = 4_000
"""Console width in characters for output to a pipe or a file, so large that no line is wrapped."""


class ConsoleOutput:
    """Prints text and tables for people; implements `Output` and `RowsOutput`.

    If stdout isn't a terminal, values are tab-separated, and numbers have no thousands separators.

    Args:
        table: print tables even if stdout isn't a terminal.
    """

    is_table = True

    def __init__(self, *, table: bool = False) -> None:
        self._out = _Console(highlight=False, soft_wrap=True)
        self._formats = table or self._out.is_terminal
        self._blank = self._out.is_terminal  # whether to print a blank line before a title
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
        if self._formats:
            known = ((name, value) for name, value in facts.items() if value is not None)
            self._titled(title, _grid((name, Text(_formatted(value))) for name, value in known))
            return
        self._title(title)
        for name, value in facts.items():
            self._line(name, value)

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        if not rows:
            if self._formats or title:
                self._out.print(empty)
            elif empty:
                self.notice(empty)
            return
        if not self._formats:
            self._title(title)
            self._line(*rows[0])
            for row in rows:
                self._line(*row.values())
            return
        numbers = [
            isinstance(value, int | float) and not isinstance(value, bool)
            for value in rows[0].values()
        ]
        cells = [[Text(_formatted(value)) for value in row.values()] for row in rows]
        self._table(title, list(rows[0]), cells, numbers, folds=True)

    def batches(
        self,
        reader: pa.RecordBatchReader,
        *,
        title: str = "",
        empty: str = "",
        max_rows: int | None = None,
    ) -> None:
        from bayou.api.rows.arrow_stream import python_rows

        rows: list[list[Any]] = []
        numbered = [str(number) for number in range(len(reader.schema))]
        for batch in reader:  # numbers as names, because columns of a query may have equal names
            rows += (list(row.values()) for row in python_rows(batch.rename_columns(numbered)))
            if max_rows is not None and len(rows) > max_rows:
                break
        if not rows and (empty or title):
            if empty:
                self._out.print(empty)
            return
        numbers = [_is_number(t) for t in reader.schema.types]
        for max_length in (MAX_LENGTH, 40, 24):  # try shorter strings until the table fits
            cells = [[_cell(value, max_length) for value in row] for row in rows[:max_rows]]
            if self._fits(reader.schema.names, cells):
                break
        self._table(title, reader.schema.names, cells, numbers, folds=False)
        if max_rows is not None and len(rows) > max_rows:
            rows_are = "row is" if max_rows == 1 else "rows are"
            self.notice(f"only {max_rows:,} {rows_are} shown. Use --limit 0 for all")

    def _table(
        self,
        title: str,
        names: Sequence[str],
        rows: list[list[Text]],
        numbers: list[bool],
        *,
        folds: bool,
    ) -> None:
        """Print a table; if it is too wide for the terminal, print each value on its own line.

        Args:
            folds: whether long words, such as paths, may be folded to make the table narrower.
        """
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        titles = [escape_control_characters(name) for name in names]
        for name, number in zip(titles, numbers, strict=True):
            table.add_column(Text(name), justify="right" if number else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        unlimited = self._out.options.update(max_width=_UNLIMITED_WIDTH)
        needed = self._out.measure(table, options=unlimited)
        width = needed.minimum if folds else needed.maximum
        if rows and width > self._out.width:
            self._rows_as_lines(title, titles, rows)
            return
        self._titled(title, table)

    def _line(self, *values: Any) -> None:
        text = "\t".join(escape_tsv(_formatted(value, separators=False)) for value in values)
        self._out.print(Text(text), soft_wrap=True)

    def _fits(self, names: Sequence[str], rows: list[list[Text]]) -> bool:
        """Whether a table fits the width of the terminal."""
        widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]
        return sum(widths) + 3 * len(widths) <= self._out.width

    def _rows_as_lines(self, title: str, names: Sequence[str], rows: list[list[Text]]) -> None:
        """Print each value on its own line, for terminals that are too narrow for the table."""
        self._title(title)
        for number, row in enumerate(rows):
            if number or not title:
                self._out.print()
            self._out.print(_grid(zip(names, row, strict=True)))

    def text(self, title: str, text: str) -> None:
        self._title(title)
        for line in text.splitlines():  # rich crops padded text at the console's width
            self._out.print(Text(f"{'  ' if title else ''}{escape_control_characters(line)}"))

    @contextlib.contextmanager
    def run(self) -> Iterator[Reporter]:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        from bayou.cli.output.progress import LineReporter, RunProgress

        if not self._out.is_terminal:
            yield LineReporter(lambda line: self._out.print(Text(escape_control_characters(line))))
            return
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[topic]}", style="bold"),
            BarColumn(bar_width=20),
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
        padded = Padding(body, (0, 0, 0, 2) if title else 0, expand=False)
        if self._out.is_terminal:
            self._out.print(padded)
            return
        with self._out.capture() as captured:  # rich pads each line to the width of the table
            self._out.print(padded)
        lines = "\n".join(line.rstrip() for line in captured.get().splitlines())
        self._out.print(Text(lines.strip("\n")), soft_wrap=True)

    def _title(self, title: str) -> None:
        if title:
            if self._blank:
                self._out.print()
            self._out.print(Text(title, style="bold"))
        self._blank = True


class _Console(Console):
    """A Rich console that raises `ReaderClosedError`, not `SystemExit`, on a broken pipe."""

    def on_broken_pipe(self) -> None:
        raise ReaderClosedError


def _grid(facts: Iterable[tuple[str, Text]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        table.add_row(Text(escape_control_characters(name), style="dim"), value)
    return table


def _formatted(value: Any, *, separators: bool = True) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}" if separators else str(value)
    if isinstance(value, dt.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}" if separators else value.isoformat()
    return escape_control_characters(str(value)) if separators else str(value)


def _width(text: str | Text) -> int:
    return max(map(cell_len, str(text).split("\n")))


def _cell(value: Any, max_length: int) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    text = str(format_cell(value, max_length)).replace("\n", "\\n").replace("\t", "\\t")
    return Text(escape_control_characters(text))


def _is_number(type: pa.DataType) -> bool:
    from pyarrow import types

    return types.is_integer(type) or types.is_floating(type) or types.is_decimal(type)
