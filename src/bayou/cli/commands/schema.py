"""`bayou schema show` and `bayou schema diff`: print and compare the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli.exit_on_error import FAILED, WRONG_USAGE, exit_on_error
from bayou.cli.output import rows_output
from bayou.cli.shared_arguments import (
    AsOf,
    AtVersion,
    FromConfig,
    RowsAsJson,
    RowsTo,
    Settings,
    TablePath,
    check_time,
)
from bayou.cli.tables import open_table
from bayou.cli.usage import Command, Group

if TYPE_CHECKING:
    from bayou.api import SnapshotHandle, TableHandle

schema = typer.Typer(
    cls=Group,
    help="Show the columns of a table, or their changes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@schema.command(cls=Command)
def show(
    table: TablePath,
    version: AtVersion = None,
    as_of: AsOf = None,
    config: FromConfig = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Show the columns of the latest or an earlier version of a table.

    Example:
        bayou schema show lake/events --version 3
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        from bayou.ingest.inspection import schema_rows

        snapshot = open_table(table, config, settings).snapshot(version, check_time(as_of))
        partition_columns = set(snapshot.partition_columns)
        printed.rows(
            "",
            [
                {**row, "partition": row["column"] in partition_columns}
                for row in schema_rows(snapshot.schema)
            ],
            event="column",
        )


@schema.command(cls=Command)
def diff(
    table: TablePath,
    before: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="N",
            min=0,
            help="First version. Default: the earliest readable.",
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(
            "--to",
            metavar="N",
            min=0,
            help="Second version. Default: the latest.",
            show_default=False,
        ),
    ] = None,
    schema_file: Annotated[
        bool,
        typer.Option(
            "--schema-file",
            help="With --config: compare the table with the topic's schema file.",
        ),
    ] = False,
    config: FromConfig = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Show the differences between the schemas of two versions of a table.

    The exit code is 1 if there are differences.

    Example:
        bayou schema diff lake/events --from 3 --to 7
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        from bayou.ingest.inspection import compare_schemas

        handle = open_table(table, config, settings)
        if schema_file:
            if config is None:
                printed.error("--schema-file: no configuration. Add --config", kind="UsageError")
                raise typer.Exit(WRONG_USAGE)
            if before is not None or after is not None:
                printed.error(
                    "--schema-file: the file is compared with the latest version. Remove --from "
                    "and --to",
                    kind="UsageError",
                )
                raise typer.Exit(WRONG_USAGE)
            from bayou.ingest.config import load_configuration
            from bayou.ingest.inspection import schema_file_changes

            configuration = load_configuration(config, settings=settings or ())
            changes = schema_file_changes(
                configuration, configuration.topic(table), handle.snapshot()
            )
        else:
            first = handle.snapshot(before) if before is not None else _first(handle)
            changes = compare_schemas(first.schema, handle.snapshot(after).schema)
        printed.rows(
            "",
            [{"column": c.column, "before": c.before, "after": c.after} for c in changes],
            event="column_change",
            empty="no difference",
        )
        if changes:
            raise typer.Exit(FAILED)


def _first(handle: TableHandle) -> SnapshotHandle:
    """Return the snapshot of the earliest version that can be read.

    The history can also contain older commits. Their versions can't be read, because log cleanup
    has deleted other files that these versions need.
    """
    from bayou.errors import VersionNotFoundError

    try:
        return handle.snapshot(handle.history()[-1]["version"])
    except VersionNotFoundError as error:
        if error.earliest is None:
            raise
        return handle.snapshot(error.earliest)
