"""`bayou read`: print rows of the latest or an earlier version of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.arguments import (
    AsOf,
    AtVersion,
    Columns,
    FromConfig,
    RowsAsJson,
    RowsTo,
    Settings,
    TablePath,
    Where,
    check_time,
    split_names,
)
from bayou.cli.exit_codes import exit_on_error
from bayou.cli.output import rows_output
from bayou.cli.tables import check_columns, open_table

_ROWS_OF_A_TABLE = 20


def read(
    table: TablePath,
    version: AtVersion = None,
    as_of: AsOf = None,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=0,
            help="Maximum number of rows; 0 for all. Default: 20 on a terminal, otherwise all.",
            show_default=False,
        ),
    ] = None,
    config: FromConfig = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Print rows of the latest or an earlier version of a table.

    Example:
        bayou read lake/events --where "day = '05'" --columns id,name --output rows.parquet
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        snapshot = open_table(table, config, settings).snapshot(version, check_time(as_of))
        names = split_names(columns)
        check_columns(snapshot, names, "--columns")
        most = _ROWS_OF_A_TABLE if limit is None and printed.is_table else limit or None
        read_most = most if most is None or not printed.is_table else most + 1
        printed.batches(
            snapshot.to_batches(names, where, read_most),
            empty="no row matches --where" if where else "the table has no rows",
            most=most,
        )
