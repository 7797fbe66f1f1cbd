"""`bayou uniform`: write and register the Iceberg metadata of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import output_for
from bayou.cli.shared_arguments import AsJson, FromConfig, Settings, TablePath
from bayou.cli.tables import open_table
from bayou.cli.usage import Command, Group

uniform = typer.Typer(
    cls=Group,
    help="Write or register the Iceberg metadata of a table.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@uniform.command("sync", cls=Command)
def sync(
    table: TablePath,
    full: Annotated[
        bool, typer.Option("--full", help="Convert all files again, as one snapshot.")
    ] = False,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the Iceberg metadata that a table lacks.

    The table needs delta.universalFormat.enabledFormats = iceberg. Commits then also write Iceberg
    metadata. This command adds missing metadata if a conversion failed or a process was killed.

    Example:
        bayou uniform sync lake/events
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        result = open_table(table, config, settings).iceberg.sync(full=full)
        output.facts(
            "Converted to Iceberg" if result.converted else "Nothing to do",
            {
                "version": result.version,
                "version before": result.base_version,
                "metadata file": result.metadata_file,
                **({"converted": result.converted} if as_json else {}),
            },
            event="converted",
        )


@uniform.command("register", cls=Command)
def register(
    table: TablePath,
    identifier: Annotated[
        str,
        typer.Argument(metavar="NAMESPACE.TABLE", help="Name in the catalog.", show_default=False),
    ],
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="NAME",
            help="A catalog of pyiceberg's configuration. Default: its default catalog.",
            show_default=False,
        ),
    ] = None,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Register a table in an Iceberg catalog, or update its entry.

    The catalog must be in pyiceberg's configuration (~/.pyiceberg.yaml, or variables such as
    PYICEBERG_CATALOG__WAREHOUSE__URI).

    Example:
        bayou uniform register lake/events sales.events --catalog warehouse
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        metadata = open_table(table, config, settings).iceberg.register(identifier, catalog)
        output.facts(
            "Registered", {"table": identifier, "metadata file": metadata}, event="registered"
        )
