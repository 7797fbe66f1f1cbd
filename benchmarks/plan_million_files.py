"""Measures planning a scan of a table with very many files, compared with peers.

usage: plan_million_files.py [--files N] [--runs N] [--shape SHAPE ...]

Each number is the median of runs in separate processes. The peers are `deltalake`, and pyarrow and
polars, which only read the same columns of the checkpoint. The budgets are from the design. The
shapes of the log are `million_files.SHAPES`.
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
RANGE = "id BETWEEN 10000000 AND 19999999"
LARGEST_FOR_DELTALAKE = 1_000_000  # it takes more than a kilobyte of memory a file
COMMITS_WITHOUT_CHECKPOINT = 100_000
COLUMNS = ("path", "partitionValues", "size", "modificationTime")


Work = Callable[[], int]


def bayou_files(table: str, predicate: str | None = None, *, statistics: bool = False) -> Work:
    """Return the function to measure: count live files by streaming a scan's file batches."""
    from bayou.engines.arrow import ArrowEngine
    from bayou.kernel import Table

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


def bayou_table_of_files(table: str) -> Work:
    """Return the function to measure: read the live files into one Arrow table."""
    from bayou import table as table_handle  # `import bayou` alone doesn't import this function

    return lambda: table_handle(table).snapshot().files().num_rows


def deltalake_load(table: str) -> Work:
    """Return the function to measure: load a snapshot with `deltalake`."""
    import deltalake

    return lambda: deltalake.DeltaTable(table).version()


def deltalake_files(table: str) -> Work:
    """Return the function to measure: load snapshot and live files with `deltalake`, as Arrow."""
    import deltalake

    return lambda: deltalake.DeltaTable(table).get_add_actions().num_rows


def pyarrow_columns(table: str, columns: Sequence[str]) -> Work:
    """Return the function to measure: only read columns of the checkpoint's adds with pyarrow."""
    import pyarrow.parquet as pq

    def count() -> int:
        rows = 0
        for path in million_files.checkpoint_files(Path(table)):
            with pq.ParquetFile(path, memory_map=True) as file:
                batches = file.iter_batches(columns=[f"add.{name}" for name in columns])
                rows += sum(batch.num_rows for batch in batches)
        return rows

    return count


def polars_columns(table: str, columns: Sequence[str]) -> Work:
    """Return the function to measure: only read columns of the checkpoint's adds with polars."""
    import polars as pl

    def count() -> int:
        adds = pl.scan_parquet(million_files.checkpoint_files(Path(table)))
        fields = [pl.col("add").struct.field(name) for name in columns]
        return adds.select(fields).collect(engine="streaming").height

    return count


# Each imports what it needs, and only that; the work that it gives is what is timed.
WORK: dict[str, Callable[[str], Work]] = {
    "bayou, all files": bayou_files,
    "bayou, with statistics": lambda table: bayou_files(table, statistics=True),
    "bayou, point filter": lambda table: bayou_files(table, POINT),
    "bayou, range filter": lambda table: bayou_files(table, RANGE),
    "bayou, one Arrow table": bayou_table_of_files,
    "deltalake, load only": deltalake_load,
    "deltalake, load and list": deltalake_files,
    "pyarrow, 4 columns": lambda table: pyarrow_columns(table, COLUMNS),
    "pyarrow, with statistics": lambda table: pyarrow_columns(table, (*COLUMNS, "stats")),
    "polars, with statistics": lambda table: polars_columns(table, (*COLUMNS, "stats")),
}
# Ours, the peer's, and the budget for time and for memory.
RATIOS = (
    ("bayou, all files", "deltalake, load and list", 0.35, 0.35),
    ("bayou, with statistics", "deltalake, load and list", 0.35, 0.35),
    ("bayou, point filter", "deltalake, load only", 0.35, 0.35),
    ("bayou, range filter", "deltalake, load only", 0.35, 0.35),
    ("bayou, one Arrow table", "deltalake, load and list", 0.3, 0.5),
    ("bayou, all files", "pyarrow, 4 columns", 1.5, None),
    ("bayou, with statistics", "pyarrow, with statistics", 1.5, None),
    ("bayou, with statistics", "polars, with statistics", None, None),
)


def run(
    console: Console, files: int, runs: int, shapes: Sequence[str] = tuple(million_files.SHAPES)
) -> None:
    """Measure each shape of the log, and print times, peak memory, ratios and budgets."""
    for shape in shapes:
        if shape == "commits":
            files = min(files, COMMITS_WITHOUT_CHECKPOINT)
        table = million_files.table_with(files, shape)
        works = [name for name in WORK if _applies(name, files, shape)]
        measured = {
            name: measure.repeat([__file__, "--measure", name, str(table)], runs) for name in works
        }
        for name in {"bayou, all files", "deltalake, load and list"} & set(works):
            assert measured[name].result == million_files.live_files(files, shape), name
        title = f"Plan {files:,} files: {million_files.SHAPES[shape]}"
        console.print(_times(title, measured))
        console.print(_ratios(shape, measured))


def _applies(name: str, files: int, shape: str) -> bool:
    peer = name.split(",", maxsplit=1)[0]
    if peer == "deltalake":
        return files <= LARGEST_FOR_DELTALAKE
    return peer == "bayou" or shape != "commits"


def _times(title: str, measured: dict[str, measure.Measurement]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in ("seconds", "peak MB", "counted"):
        grid.add_column(heading, justify="right")
    for name, one in measured.items():
        grid.add_row(name, f"{one.seconds:.2f}", f"{one.peak_bytes / 1e6:,.0f}", f"{one.result:,}")
    return grid


def _ratios(shape: str, measured: dict[str, measure.Measurement]) -> Grid:
    grid = Grid()
    for heading in ("", "beside", "time", "budget", "memory", "budget"):
        grid.add_column(heading, justify="left" if heading in ("", "beside") else "right")
    for ours, peer, time_budget, memory_budget in RATIOS:
        if peer not in measured:
            continue
        a, b = measured[ours], measured[peer]
        measure.record(f"{ours}, {shape}", peer, "time", a.seconds / b.seconds)
        measure.record(f"{ours}, {shape}", peer, "memory", a.peak_bytes / b.peak_bytes)
        grid.add_row(
            ours,
            peer,
            f"{a.seconds / b.seconds:.2f}x",
            "" if time_budget is None else f"{time_budget}x",
            f"{a.peak_bytes / b.peak_bytes:.2f}x",
            "" if memory_budget is None else f"{memory_budget}x",
        )
    return grid


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shape", nargs="*", choices=million_files.SHAPES)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "TABLE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        what, table = options.measure
        measure.report(WORK[what](table))
    else:
        shapes = options.shape or tuple(million_files.SHAPES)
        run(Console(width=measure.WIDTH), options.files, options.runs, shapes)


if __name__ == "__main__":
    main(sys.argv[1:])
