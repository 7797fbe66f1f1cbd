"""`bayou optimize`: compact small files, or cluster rows along a Z-order."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli import completions
from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import output_for
from bayou.cli.shared_arguments import AsJson, DryRun, FromConfig, Settings, TablePath, split_names
from bayou.cli.tables import check_columns, open_table


def optimize(
    table: TablePath,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "-w",
            metavar="SQL",
            help="SQL condition on partition columns.",
            show_default=False,
        ),
    ] = None,
    zorder: Annotated[
        str | None,
        typer.Option(
            "--zorder",
            metavar="COLUMN,...",
            help="Comma-separated columns of the Z-order.",
            show_default=False,
            autocompletion=completions.columns,
        ),
    ] = None,
    target_size: Annotated[
        int | None,
        typer.Option(
            "--target-size",
            metavar="BYTES",
            min=1,
            help="File size in bytes. Default: the table's property.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Compact small files into larger ones. Other processes can write at the same time.

    Example:
        bayou optimize lake/events --zorder customer_id,user_id --dry-run
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output, where=where):
        handle = open_table(table, config, settings)
        names = split_names(zorder)
        if names is None:
            metrics = handle.optimize(where, target_size, dry_run=dry_run)
        else:
            check_columns(handle.snapshot(), names, "--zorder")
            metrics = handle.optimize.z_order(names, where, target_size, dry_run=dry_run)
        if metrics.num_files_removed == 0:
            title = "Nothing to do"
        else:
            title = "Would be rewritten" if dry_run else "Optimized"
        if dry_run and not as_json:
            output.facts(
                title,
                {
                    "files": metrics.num_files_removed,
                    "bytes": metrics.files_removed.total_size,
                    "partitions": metrics.partitions_optimized,
                    "files left as they were": metrics.total_files_skipped,
                },
                event="optimized",
            )
            return
        became = f"{metrics.num_files_removed:,} became {metrics.num_files_added:,}"
        output.facts(
            title,
            {
                "version": metrics.version,
                "files": metrics.num_files_added if as_json else became,
                "files removed": metrics.num_files_removed,
                "bytes removed": metrics.files_removed.total_size,
                "bytes added": metrics.files_added.total_size,
                "partitions": metrics.partitions_optimized,
                "files left as they were": metrics.total_files_skipped,
                "seconds": round((metrics.end_time_ms - metrics.start_time_ms) / 1000, 1),
                **({"dry run": dry_run} if as_json else {}),
            },
            event="optimized",
        )
