"""`bayou vacuum`: files that no version within the retention needs, deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, FromConfig, Settings, TablePath, opened_table
from bayou.cli.exit_codes import explained
from bayou.cli.output import output_for

__all__ = ["vacuum"]

_SHOWN = 20


def vacuum(
    table: TablePath,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Delete nothing, say what would be deleted.")
    ] = False,
    retention_hours: Annotated[
        float | None,
        typer.Option(
            "--retention-hours", min=0, help="Not below the table's own, a week unless set."
        ),
    ] = None,
    lite: Annotated[
        bool, typer.Option("--lite", help="Look at the log only: quicker, leaves stray files.")
    ] = False,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete files that no version within the retention needs.

    Time travel beyond the retention ends.
    """
    output = output_for(as_json=as_json)
    with explained(output):
        handle = opened_table(table, config, settings)
        done = handle.vacuum(retention_hours, dry_run=dry_run, lite=lite)
        if dry_run:
            files = done.inventory.select(["path", "size"])
            shown = files if as_json else files.slice(0, _SHOWN)
            output.rows("", shown.to_pylist(), event="file", empty="no file")
            if not as_json and files.num_rows > _SHOWN:
                output.notice(f"{files.num_rows - _SHOWN:,} more; --json lists all")
        output.facts(
            "Would be deleted" if dry_run else "Deleted",
            {
                "files and empty folders": done.num_files_to_delete
                if dry_run
                else done.num_deleted_files,
                "bytes": done.size_of_data_to_delete,
                "folders looked at": done.num_vacuumed_directories,
                **({"dry run": dry_run} if as_json else {}),
            },
            event="vacuumed",
        )
