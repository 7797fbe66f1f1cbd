"""`bayou read`: print rows of the latest or an earlier version of a table."""

from __future__ import annotations

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import row_limit, rows_output
from bayou.cli.shared_arguments import (
    AsOf,
    AtVersion,
    Columns,
    FromConfig,
    Limit,
    RowsAsJson,
    RowsTo,
    Settings,
    TablePath,
    Where,
    check_time,
    split_names,
)
from bayou.cli.tables import check_columns, open_table


def read(
    table: TablePath,
    version: AtVersion = None,
    as_of: AsOf = None,
    where: Where = None,
    columns: Columns = None,
    limit: Limit = None,
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
    with exit_on_error(printed, where=where):
        snapshot = open_table(table, config, settings).snapshot(version, check_time(as_of))
        names = split_names(columns)
        check_columns(snapshot, names, "--columns")
        rows_limit = row_limit(printed, limit)
        printed.batches(
            snapshot.to_batches(names, where, rows_limit.read),
            empty="no row matches --where" if where else "the table has no rows",
            max_rows=rows_limit.shown,
        )
