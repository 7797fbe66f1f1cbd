"""Selects a command's output and row limit from `--json`, `--output` and `--limit`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import typer

from bayou.cli.output.interface import Output, RowsOutput
from bayou.errors import ArgumentError

_ROWS_OF_A_TABLE = 20


def output_for(*, as_json: bool) -> Output:
    """Return the JSON output or the console output.

    Only the module of the returned class is imported, so that `--help` is fast.
    """
    if as_json:
        from bayou.cli.output.json import JsonOutput

        return JsonOutput()
    from bayou.cli.output.console import ConsoleOutput

    return ConsoleOutput()


def rows_output(value: str | None, *, as_json: bool = False) -> RowsOutput:
    """Return the output of a command that prints rows.

    Args:
        value: the option `--output`: a format or a file. If None, rows are printed as a table on a
            terminal, and as tab-separated lines otherwise.
        as_json: the option `--json`, which means `--output jsonl`.
    """
    from bayou.cli.output.pandas_import import skip_pandas
    from bayou.cli.output.row_formats import Destination, RowFormat, parse_destination

    try:
        if as_json and value is not None:
            raise ArgumentError(
                f"--json: the option means --output jsonl, but --output is {value}. Use only one "
                "of the two options.",
                argument="json",
            )
        if value is not None:
            destination = parse_destination(value)
        elif as_json:
            destination = Destination(format=RowFormat.JSONL)
        else:
            terminal = sys.stdout is not None and sys.stdout.isatty()
            destination = Destination(format=RowFormat.TABLE if terminal else RowFormat.TSV)
    except ArgumentError as error:
        from bayou.cli.output.console import ConsoleOutput

        ConsoleOutput().error(error.message, kind=type(error).__name__)
        raise typer.Exit(2) from error
    skip_pandas()
    if destination.format is RowFormat.TABLE:
        from bayou.cli.output.console import ConsoleOutput

        return ConsoleOutput(table=True)
    from bayou.cli.output.data import DataOutput

    return DataOutput(destination)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimit:
    """How many rows a command reads and prints; None stands for all rows.

    Attributes:
        shown: number of rows to print.
        read: number of rows to read. If the rows are printed as a table, this is `shown` + 1, so
            that the command knows whether there are more rows.
    """

    shown: int | None
    read: int | None


def row_limit(printed: RowsOutput, limit: int | None) -> RowLimit:
    """Convert a value of `--limit` to a `RowLimit`.

    Args:
        limit: the value. 0 means no limit. If None, the limit is 20 rows for a table, and there is
            no limit for other formats.
    """
    shown = _ROWS_OF_A_TABLE if limit is None and printed.is_table else limit or None
    one_more = 1 if printed.is_table else 0
    return RowLimit(shown=shown, read=None if shown is None else shown + one_more)
