"""`bayou optimize`: small files packed into larger ones."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, FromConfig, Settings, TablePath, opened_table
from bayou.cli.exit_codes import explained
from bayou.cli.output import output_for

__all__ = ["optimize"]


def optimize(
    table: TablePath,
    where: Annotated[
        str | None,
        typer.Option("--where", help="SQL over partition columns: only these partitions."),
    ] = None,
    zorder: Annotated[
        str | None,
        typer.Option("--zorder", help="Columns, separated by commas, to order rows along."),
    ] = None,
    target_size: Annotated[
        int | None,
        typer.Option("--target-size", min=1, help="Bytes of a file. Default: as the table says."),
    ] = None,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Pack small files into larger ones; safe while others write."""
    output = output_for(as_json=as_json)
    with explained(output):
        handle = opened_table(table, config, settings)
        if zorder is None:
            done = handle.optimize(where, target_size)
        else:
            done = handle.zorder([c.strip() for c in zorder.split(",")], where, target_size)
        output.facts(
            "Nothing to do" if done.version is None else "Optimized",
            {
                "version": done.version,
                "files": f"{done.num_files_removed} became {done.num_files_added}"
                if not as_json
                else done.num_files_added,
                "files removed": done.num_files_removed,
                "bytes removed": done.files_removed.total_size,
                "bytes added": done.files_added.total_size,
                "partitions": done.partitions_optimized,
                "files left as they were": done.total_files_skipped,
                "seconds": round((done.end_time_ms - done.start_time_ms) / 1000, 1),
            },
            event="optimized",
        )
