"""Planning a cold table of very many files in one process, beside its peers.

usage: plan_million_files.py [--files N] [--runs N]

Every number is of a process of its own, the median of the runs. The peers are `deltalake` and
plain pyarrow reading the same columns of the checkpoint; the budgets are those of the design.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import million_files
from rich.console import Console
from rich.table import Table as Grid

POINT = "day = DATE '2022-03-04' AND id = 62062500"
COLUMNS = ["path", "partitionValues", "size", "modificationTime", "stats"]


def plan(table: str, predicate: str | None = None) -> int:
    """Count live files by streaming the scan's batches."""
    from bayou.engines.arrow import ArrowEngine
    from bayou.kernel import Table

    engine = ArrowEngine()
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder()
    if predicate is not None:
        scan = scan.with_filter(predicate)
    return sum(files.num_selected for files in scan.build().scan_files(engine))


def deltalake_load(table: str) -> int:
    """`deltalake` loads the snapshot, which it does before anything else."""
    import deltalake

    return deltalake.DeltaTable(table).version()


def deltalake_files(table: str) -> int:
    """`deltalake` hands out the live files as Arrow."""
    import deltalake

    return deltalake.DeltaTable(table).get_add_actions().num_rows


def pyarrow_columns(table: str) -> int:
    """Pyarrow reads the columns that planning needs, and nothing else happens."""
    import pyarrow.parquet as pq

    path = Path(table) / "_delta_log" / f"{0:020}.checkpoint.parquet"
    with pq.ParquetFile(path, memory_map=True) as file:
        batches = file.iter_batches(columns=[f"add.{name}" for name in COLUMNS])
        return sum(batch.num_rows for batch in batches)


WORK: dict[str, Callable[[str], int]] = {
    "bayou": plan,
    "bayou-point": lambda table: plan(table, POINT),
    "deltalake-load": deltalake_load,
    "deltalake": deltalake_files,
    "pyarrow": pyarrow_columns,
}


def run(console: Console, files: int, runs: int) -> None:
    """Measure both shapes of the checkpoint and print a table for each."""
    for one_row_group in (False, True):
        table = million_files.table_with(files, one_row_group=one_row_group)
        measured = {
            name: measure.repeat([__file__, "--measure", name, str(table)], runs) for name in WORK
        }
        live = million_files.live_files(files)
        assert measured["bayou"].result == measured["deltalake"].result == live
        shape = "one row group" if one_row_group else "several row groups"
        console.print(_grid(f"Plan {live:,} files, checkpoint in {shape}", measured))


def _grid(title: str, measured: dict[str, measure.Measurement]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    for heading in ("", "seconds", "peak MB", "bayou: time", "bayou: memory", "budget"):
        grid.add_column(heading, justify="left" if heading in ("", "budget") else "right")
    ours = measured["bayou"]
    labels = {
        "bayou": ("bayou, all files", ""),
        "bayou-point": ("bayou, point filter", ""),
        "deltalake-load": ("deltalake, load only", ""),
        "deltalake": ("deltalake, load and list", "<= 0.35x time and memory"),
        "pyarrow": ("pyarrow, same columns", "<= 1.5x time"),
    }
    for name, (label, budget) in labels.items():
        peer = measured[name]
        ratios = (
            ("", "")
            if name.startswith("bayou")
            else (
                f"{ours.seconds / peer.seconds:.2f}x",
                f"{ours.peak_bytes / peer.peak_bytes:.2f}x",
            )
        )
        grid.add_row(label, f"{peer.seconds:.2f}", f"{peer.peak_bytes / 1e6:,.0f}", *ratios, budget)
    return grid


def main(arguments: Sequence[str]) -> None:
    """The command line; `--measure` is the measured process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "TABLE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        what, table = options.measure
        measure.report(lambda: WORK[what](table))
    else:
        run(Console(), options.files, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
