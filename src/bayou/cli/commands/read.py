"""`bayou read`: print rows of the latest or an earlier version of a table."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import msgspec
import typer

from bayou.cli.arguments import (
    AsJson,
    AtTime,
    AtVersion,
    FromConfig,
    Settings,
    TablePath,
    open_table,
)
from bayou.cli.exit_codes import exit_on_error
from bayou.cli.output import output_for

_MAX_CELL_LENGTH = 60


def read(
    table: TablePath,
    version: AtVersion = None,
    timestamp: AtTime = None,
    filter: Annotated[
        str | None,
        typer.Option("--filter", "-f", help="SQL condition such as \"day = '05' AND id > 3\"."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Comma-separated columns; all by default.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Maximum number of rows; 0 for no limit.")
    ] = 20,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print rows of the latest or an earlier version of a table."""
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        from bayou.api.arrow_stream import python_rows

        snapshot = open_table(table, config, settings).snapshot(version, timestamp)
        names = None if columns is None else [c.strip() for c in columns.split(",")]
        reader = snapshot.to_batches(names, filter, limit or None)
        if as_json:
            for batch in reader:  # nested rows, because a column may be named `event`
                output.rows("", [{"row": row} for row in python_rows(batch)], event="row")
            return
        rows = [row for batch in reader for row in python_rows(batch)]
        output.rows(
            "",
            [{name: format_cell(value) for name, value in row.items()} for row in rows],
            event="row",
            empty="no row matches the filter" if filter else "the table has no rows",
        )
        if limit and len(rows) == limit:
            output.notice(
                f"version {snapshot.version}: only {limit} rows are shown. Use --limit 0 for all"
            )


def format_cell(value: Any) -> Any:
    """Return a column's value as the printed table shows it; long strings are shortened."""
    match value:
        case bool() | None | float():
            return value
        case int():
            return str(value)
        case dt.datetime():
            return value.isoformat(sep=" ")
        case bytes():
            string = value.decode(errors="backslashreplace")
        case dict() | list():
            string = msgspec.json.encode(value, enc_hook=str).decode()
        case _:
            string = str(value)
    return string if len(string) <= _MAX_CELL_LENGTH else f"{string[: _MAX_CELL_LENGTH - 1]}…"
