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
COLUMNS = ("path", "partitionValues", "size", "modificationTime")


Work = Callable[[], int]


def bayou_files(table: str, predicate: str | None = None, *, statistics: bool = False) -> Work:
    """Count live files by streaming the scan's batches."""
    import pyarrow as pa

    from bayou.engines.arrow import ArrowEngine
    from bayou.kernel import Table

    pa.array([""])  # where pandas is installed, pyarrow imports it for the first list it is given
    if predicate is not None:
        import sqlglot  # noqa: F401  # parses the filter

    def count() -> int:
        engine = ArrowEngine()
        builder = Table.for_path(engine, table).latest_snapshot(engine).scan_builder()
        builder = builder.with_filter(predicate)
        if statistics:
            builder = builder.with_statistics()
        return sum(files.num_selected for files in builder.build().scan_files(engine))

    return count


def deltalake_load(table: str) -> Work:
    """`deltalake` loads the snapshot, which it does before anything else."""
    import deltalake

    return lambda: deltalake.DeltaTable(table).version()


def deltalake_files(table: str) -> Work:
    """`deltalake` hands out the live files as Arrow."""
    import deltalake

    return lambda: deltalake.DeltaTable(table).get_add_actions().num_rows


def pyarrow_columns(table: str, columns: Sequence[str]) -> Work:
    """Pyarrow reads columns of the checkpoint's adds, and nothing else happens."""
    import pyarrow.parquet as pq

    def count() -> int:
        path = Path(table) / "_delta_log" / f"{0:020}.checkpoint.parquet"
        with pq.ParquetFile(path, memory_map=True) as file:
            batches = file.iter_batches(columns=[f"add.{name}" for name in columns])
            return sum(batch.num_rows for batch in batches)

    return count


# Each imports what it needs, and only that; the work that it gives is what is timed.
WORK: dict[str, Callable[[str], Work]] = {
    "bayou, all files": bayou_files,
    "bayou, with statistics": lambda table: bayou_files(table, statistics=True),
    "bayou, point filter": lambda table: bayou_files(table, POINT),
    "deltalake, load only": deltalake_load,
    "deltalake, load and list": deltalake_files,
    "pyarrow, 4 columns": lambda table: pyarrow_columns(table, COLUMNS),
    "pyarrow, with statistics": lambda table: pyarrow_columns(table, (*COLUMNS, "stats")),
}
# Ours, the peer's, and the budget for time and for memory.
RATIOS = (
    ("bayou, all files", "deltalake, load and list", 0.35, 0.35),
    ("bayou, with statistics", "deltalake, load and list", 0.35, 0.35),
    ("bayou, point filter", "deltalake, load only", 0.35, 0.35),
    ("bayou, all files", "pyarrow, 4 columns", 1.5, None),
    ("bayou, with statistics", "pyarrow, with statistics", 1.5, None),
)


def run(console: Console, files: int, runs: int) -> None:
    """Measure both shapes of the checkpoint and print what they took, beside the budgets."""
    for one_row_group in (False, True):
        table = million_files.table_with(files, one_row_group=one_row_group)
        measured = {
            name: measure.repeat([__file__, "--measure", name, str(table)], runs) for name in WORK
        }
        for name in RATIOS[0][:2]:
            assert measured[name].result == million_files.live_files(files), name
        shape = "one row group" if one_row_group else "several row groups"
        console.print(_times(f"Plan {files:,} files, checkpoint in {shape}", measured))
        console.print(_ratios(measured))


def _times(title: str, measured: dict[str, measure.Measurement]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in ("seconds", "peak MB", "counted"):
        grid.add_column(heading, justify="right")
    for name, one in measured.items():
        grid.add_row(name, f"{one.seconds:.2f}", f"{one.peak_bytes / 1e6:,.0f}", f"{one.result:,}")
    return grid


def _ratios(measured: dict[str, measure.Measurement]) -> Grid:
    grid = Grid()
    for heading in ("", "beside", "time", "budget", "memory", "budget"):
        grid.add_column(heading, justify="left" if heading in ("", "beside") else "right")
    for ours, peer, time_budget, memory_budget in RATIOS:
        a, b = measured[ours], measured[peer]
        grid.add_row(
            ours,
            peer,
            f"{a.seconds / b.seconds:.2f}x",
            f"{time_budget}x",
            f"{a.peak_bytes / b.peak_bytes:.2f}x",
            "" if memory_budget is None else f"{memory_budget}x",
        )
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
        measure.report(WORK[what](table))
    else:
        run(Console(width=measure.WIDTH), options.files, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
