"""`bayou optimize`: compact small files, or cluster rows along a Z-order."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, FromConfig, Settings, TablePath, open_table
from bayou.cli.exit_codes import exit_on_error
from bayou.cli.output import output_for


def optimize(
    table: TablePath,
    where: Annotated[
        str | None,
        typer.Option("--where", help="SQL condition on partition columns."),
    ] = None,
    zorder: Annotated[
        str | None,
        typer.Option("--zorder", help="Comma-separated columns of the Z-order."),
    ] = None,
    target_size: Annotated[
        int | None,
        typer.Option(
            "--target-size", min=1, help="File size in bytes. Default: the table's property."
        ),
    ] = None,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Compact small files into larger ones. Other writers may be active."""
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        handle = open_table(table, config, settings)
        if zorder is None:
            metrics = handle.optimize(where, target_size)
        else:
            metrics = handle.zorder([c.strip() for c in zorder.split(",")], where, target_size)
        output.facts(
            "Nothing to do" if metrics.version is None else "Optimized",
            {
                "version": metrics.version,
                "files": f"{metrics.num_files_removed} became {metrics.num_files_added}"
                if not as_json
                else metrics.num_files_added,
                "files removed": metrics.num_files_removed,
                "bytes removed": metrics.files_removed.total_size,
                "bytes added": metrics.files_added.total_size,
                "partitions": metrics.partitions_optimized,
                "files left as they were": metrics.total_files_skipped,
                "seconds": round((metrics.end_time_ms - metrics.start_time_ms) / 1000, 1),
            },
            event="optimized",
        )
