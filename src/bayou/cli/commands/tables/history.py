"""`bayou history`: print the commits of a table."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import rows_output
from bayou.cli.shared_arguments import (
    FromConfig,
    RowsAsJson,
    RowsTo,
    Settings,
    TablePath,
    format_utc,
)
from bayou.cli.tables import open_table


def history(
    table: TablePath,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=1,
            help="Number of newest commits; all by default.",
            show_default=False,
        ),
    ] = None,
    config: FromConfig = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Print the commits of a table, newest first.

    Example:
        bayou history lake/events --limit 5
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        commits = open_table(table, config, settings).history(limit=limit)
        printed.rows("", history_rows(commits) if printed.is_table else commits, event="commit")


def history_rows(commits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each commit: version, time, operation, number of rows and files, engine."""
    return [
        {
            "version": str(commit["version"]),
            "time (UTC)": format_utc(commit.get("timestamp")),
            "operation": commit.get("operation"),
            "rows": _metric(commit, "numOutputRows"),
            "files": _metric(commit, "numFiles", "numAddedFiles"),
            "engine": str(commit.get("engineInfo") or "").split(" (")[0],
        }
        for commit in commits
    ]


def _metric(commit: Mapping[str, Any], *names: str) -> int | None:
    metrics = commit.get("operationMetrics") or {}
    for name in names:
        # Metrics of other writers may be missing or malformed.
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return int(metrics[name])
    return None
