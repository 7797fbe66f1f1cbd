"""`bayou vacuum`: delete files that no version within the retention period needs."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, FromConfig, Settings, TablePath, open_table
from bayou.cli.exit_codes import exit_on_error
from bayou.cli.output import output_for

_SHOWN = 20


def vacuum(
    table: TablePath,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files without deleting them.")
    ] = False,
    retention_hours: Annotated[
        float | None,
        typer.Option(
            "--retention-hours",
            min=0,
            help="Retention period; at least the table's own, which is a week by default.",
        ),
    ] = None,
    lite: Annotated[
        bool,
        typer.Option("--lite", help="Find files in the log only: faster; keeps untracked files."),
    ] = False,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete files that no version within the retention period needs.

    Versions beyond the retention can't be read afterwards.
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        handle = open_table(table, config, settings)
        result = handle.vacuum(retention_hours, dry_run=dry_run, lite=lite)
        if dry_run:
            files = result.inventory.select(["path", "size"])
            shown = files if as_json else files.slice(0, _SHOWN)
            output.rows("", shown.to_pylist(), event="file", empty="no files")
            if not as_json and files.num_rows > _SHOWN:
                output.notice(f"{files.num_rows - _SHOWN:,} more files. Use --json to list all")
        output.facts(
            "Would be deleted" if dry_run else "Deleted",
            {
                "files and empty folders": result.num_files_to_delete
                if dry_run
                else result.num_deleted_files,
                "bytes": result.size_of_data_to_delete,
                "folders looked at": result.num_vacuumed_directories,
                **({"dry run": dry_run} if as_json else {}),
            },
            event="vacuumed",
        )
