"""`bayou vacuum`: delete files that no version within the retention period needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import output_for
from bayou.cli.shared_arguments import AsJson, FromConfig, Settings, TablePath, Yes, confirm
from bayou.cli.tables import open_table
from bayou.errors import ArgumentError

if TYPE_CHECKING:
    from bayou.api import TableHandle
    from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics

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
            metavar="HOURS",
            min=0,
            help="Retention period; at least the table's own, which is a week by default.",
        ),
    ] = None,
    lite: Annotated[
        bool,
        typer.Option("--lite", help="Find files in the log only: faster; keeps untracked files."),
    ] = False,
    yes: Yes = False,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete files that no version within the retention period needs.

    Versions older than the retention period can't be read afterwards. On a terminal, the command
    asks for confirmation.

    Example:
        bayou vacuum lake/events --dry-run
        bayou vacuum lake/events --yes
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        handle = open_table(table, config, settings)
        if not dry_run and not yes and sys.stdin.isatty():
            planned = _vacuum(handle, retention_hours, dry_run=True, lite=lite)
            if planned.num_files_to_delete:
                megabytes = planned.size_of_data_to_delete / 1e6
                confirm(
                    f"Delete {planned.num_files_to_delete:,} files and folders, "
                    f"{megabytes:,.1f} MB, permanently?",
                    yes=yes,
                )
        result = _vacuum(handle, retention_hours, dry_run=dry_run, lite=lite)
        if dry_run:
            files = result.inventory.select(["path", "size"])
            shown = files if as_json else files.slice(0, _SHOWN)
            output.rows("", shown.to_pylist(), event="file", empty="no files")
            if not as_json and files.num_rows > _SHOWN:
                output.notice(
                    f"{files.num_rows - _SHOWN:,} more files. Use --json to list all files"
                )
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


def _vacuum(
    handle: TableHandle, retention_hours: float | None, *, dry_run: bool, lite: bool
) -> VacuumMetrics:
    try:
        return handle.vacuum(retention_hours, dry_run=dry_run, full=not lite)
    except ArgumentError as error:  # the error's message names arguments of the Python method
        message = error.message.partition(" Remove retention_hours")[0]
        if message == error.message:
            raise
        raise ArgumentError(
            f"{message} Remove --retention-hours. If nobody else uses the table, you can shorten "
            "the table property delta.deletedFileRetentionDuration instead.",
            argument="retention_hours",
        ) from error
