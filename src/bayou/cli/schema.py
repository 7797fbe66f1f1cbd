"""`bayou schema show` and `bayou schema diff`: the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli.arguments import (
    AsJson,
    AtTime,
    AtVersion,
    FromConfig,
    Settings,
    TablePath,
    named_topics,
    opened_table,
)
from bayou.cli.exit_codes import FAILED, WRONG_USAGE, explained
from bayou.cli.output import output_for

if TYPE_CHECKING:
    from bayou.api import SnapshotHandle, TableHandle

__all__ = ["schema"]

schema = typer.Typer(
    help="The columns of a table, and how they changed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@schema.command()
def show(
    table: TablePath,
    version: AtVersion = None,
    timestamp: AtTime = None,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show the columns of a table, now or as they were."""
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.inspection import schema_rows

        snapshot = opened_table(table, config, settings).snapshot(version, timestamp)
        partitioned = set(snapshot.partition_columns)
        output.rows(
            "",
            [
                {**row, "partition": row["column"] in partitioned}
                for row in schema_rows(snapshot.schema)
            ],
            event="column",
        )


@schema.command()
def diff(
    table: TablePath,
    before: Annotated[
        int | None,
        typer.Option("--from", min=0, help="A version; default: the first that can be read."),
    ] = None,
    after: Annotated[
        int | None, typer.Option("--to", min=0, help="A version; default: the latest.")
    ] = None,
    schema_file: Annotated[
        bool,
        typer.Option(
            "--schema-file",
            help="With --config: what the topic's schema file would change about the table.",
        ),
    ] = False,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two versions of a table.

    Exit code 1 where anything does.
    """
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.inspection import compare_schemas

        handle = opened_table(table, config, settings)
        if schema_file:
            if config is None:
                output.error("--schema-file needs --config", kind="UsageError")
                raise typer.Exit(WRONG_USAGE)
            if before is not None or after is not None:
                told = "--schema-file compares with the latest version: leave --from and --to out"
                output.error(told, kind="UsageError")
                raise typer.Exit(WRONG_USAGE)
            from bayou.ingest.config import load_configuration
            from bayou.ingest.inspection import schema_file_changes

            configuration = load_configuration(config, settings=settings or ())
            (topic,) = named_topics(configuration, [table])
            changes = schema_file_changes(configuration, topic, handle.snapshot())
        else:
            first = handle.snapshot(before) if before is not None else _first(handle)
            changes = compare_schemas(first.schema, handle.snapshot(after).schema)
        output.rows(
            "",
            [{"column": c.column, "before": c.before, "after": c.after} for c in changes],
            event="column_change",
            empty="no difference",
        )
        if changes:
            raise typer.Exit(FAILED)


def _first(handle: TableHandle) -> SnapshotHandle:
    """The earliest version that can be read; commits before it may still be there."""
    from bayou.errors import VersionNotFoundError

    try:
        return handle.snapshot(handle.history()[-1]["version"])
    except VersionNotFoundError as gone:
        if gone.earliest is None:
            raise
        return handle.snapshot(gone.earliest)
