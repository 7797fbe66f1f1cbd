"""`bayou read`: rows of a table, now or as they were."""

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
    opened_table,
)
from bayou.cli.exit_codes import explained
from bayou.cli.output import output_for

__all__ = ["cell", "read"]

_MOST_TEXT = 60


def read(
    table: TablePath,
    version: AtVersion = None,
    timestamp: AtTime = None,
    filter: Annotated[
        str | None,
        typer.Option("--filter", "-f", help="SQL, such as \"day = '05' AND id > 3\"."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Names, separated by commas; all unless given.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Most rows; 0 for no limit.")
    ] = 20,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print rows of a table, now or as they were."""
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.api.arrow_stream import python_rows

        snapshot = opened_table(table, config, settings).snapshot(version, timestamp)
        names = None if columns is None else [c.strip() for c in columns.split(",")]
        reader = snapshot.to_batches(names, filter, limit or None)
        if as_json:
            for batch in reader:  # beside `event` a column of that name would be lost
                output.rows("", [{"row": row} for row in python_rows(batch)], event="row")
            return
        rows = [row for batch in reader for row in python_rows(batch)]
        shown = len(rows)
        output.rows(
            "",
            [{name: cell(value) for name, value in row.items()} for row in rows],
            event="row",
            empty="no such row" if filter else "the table has no rows",
        )
        if limit and shown == limit:
            output.notice(f"version {snapshot.version}; {limit} rows shown, --limit 0 shows all")


def cell(value: Any) -> Any:
    """A value of a row as a line has room for it."""
    match value:
        case bool() | None | float():
            return value
        case int():
            return str(value)
        case dt.datetime():
            return value.isoformat(sep=" ")
        case bytes():
            text = value.decode(errors="backslashreplace")
        case dict() | list():
            text = msgspec.json.encode(value, enc_hook=str).decode()
        case _:
            text = str(value)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
