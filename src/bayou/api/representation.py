"""The representation of a table as text, and as HTML for notebooks."""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Sequence
from dataclasses import dataclass

from bayou.api.rows.read import row_count_from_statistics
from bayou.errors import BayouError
from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.table_detail import file_totals

_MAX_COLUMNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Description:
    """The title and the (name, value) pairs that a representation shows."""

    title: str
    facts: Sequence[tuple[str, str]]
    columns: Sequence[tuple[str, str]]
    num_hidden: int


def as_text(engine: Engine, table: Table) -> str:
    """Describe the latest version: version, last commit, rows, files, size and columns."""
    description = _described(engine, table)
    if isinstance(description, str):
        return f"bayou.table({table.path!r})  # {description}"
    lines = [f"bayou.table({table.path!r})"]
    lines += [f"  {name:<12}{value}" for name, value in description.facts]
    width = max((len(name) for name, _ in description.columns), default=0)
    lines += [
        f"  {'' if number else 'columns':<12}{name:<{width}}  {column_type}".rstrip()
        for number, (name, column_type) in enumerate(description.columns)
    ]
    if description.num_hidden:
        lines.append(f"  {'':<12}... {description.num_hidden} more")
    return "\n".join(lines)


def as_html(engine: Engine, table: Table) -> str:
    """Describe the latest version as an HTML table."""
    description = _described(engine, table)
    if isinstance(description, str):
        return f"<div><b>{html.escape(table.path)}</b>: {html.escape(description)}</div>"
    hidden = [("...", f"{description.num_hidden} more")] if description.num_hidden else []
    return (
        f"<div><b>{html.escape(description.title)}</b>"
        f"{_html_table(description.facts)}"
        f"{_html_table([*description.columns, *hidden], header=('column', 'type'))}</div>"
    )


def _described(engine: Engine, table: Table) -> _Description | str:
    """Describe the latest version; return an error message if the version can't be read."""
    try:
        snapshot = table.latest_snapshot(engine)
        totals = file_totals(engine, snapshot)
        rows = row_count_from_statistics(engine, snapshot)
        commit = table.history(engine, 1)
    except BayouError as error:
        return str(error).split(". ")[0].removeprefix(f"{table.path}: ")
    facts = [
        ("name", snapshot.metadata.name or ""),
        ("description", snapshot.metadata.description or ""),
        ("version", _version(snapshot, commit)),
        ("rows", "unknown, because a file has no statistics" if rows is None else f"{rows:,}"),
        ("files", f"{totals.files:,}, {_size(totals.size)}"),
        ("clustered by", ", ".join(".".join(path) for path in snapshot.clustering_columns)),
    ]
    columns = [(field.name, _type(snapshot, field.name)) for field in snapshot.schema]
    return _Description(
        title=snapshot.metadata.name or table.path,
        facts=[(name, value) for name, value in facts if value],
        columns=columns[:_MAX_COLUMNS],
        num_hidden=len(columns[_MAX_COLUMNS:]),
    )


def _version(snapshot: Snapshot, commit: Sequence[dict[str, object]]) -> str:
    time = dt.datetime.fromtimestamp(snapshot.timestamp // 1000, dt.UTC)
    operation = f", {commit[0].get('operation')}" if commit else ""
    return f"{snapshot.version} ({time:%Y-%m-%d %H:%M:%S} UTC{operation})"


def _type(snapshot: Snapshot, name: str) -> str:
    field = snapshot.schema.select([name]).fields[0]
    notes = [
        note
        for note, applies in (
            ("not null", not field.nullable),
            ("partition", name in snapshot.partition_columns),
        )
        if applies
    ]
    return f"{field.data_type} ({', '.join(notes)})" if notes else str(field.data_type)


def _size(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{size} bytes" if unit == "bytes" else f"{amount:,.1f} {unit}"


def _html_table(rows: Sequence[tuple[str, str]], header: tuple[str, str] | None = None) -> str:
    heading = "" if header is None else "<tr>" + "".join(f"<th>{h}</th>" for h in header) + "</tr>"
    body = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<table>{heading}{body}</table>"
