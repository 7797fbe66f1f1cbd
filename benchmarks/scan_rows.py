"""Measures reading rows in one process, compared with `deltalake`, pyarrow and polars.

usage: scan_rows.py [--rows N] [--small-files N] [--runs N]

There are two tables: 16 files of a million rows with 8 columns, of which all or 2 columns are read,
and 10,000 files of 100 rows each. Rows are streamed and only counted, and all programs read the
same columns. pyarrow reads a list of the files instead of the log. Each number is the median of
runs in separate processes, with the files in the disk's cache.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import pyarrow as pa
import pyarrow.compute as pc
from million_files import CACHE
from rich.console import Console
from rich.table import Table as Grid

import bayou

ROWS, FILES = 16_000_000, 16
SMALL_FILES, SMALL_ROWS = 10_000, 100
TWO = ("id", "amount")

Work = Callable[[], int]
Columns = Sequence[str] | None


def rows_table(rows: int) -> Path:
    """Return the path of the table of large files; create the table if it doesn't exist."""
    path = CACHE / f"rows-{rows}"
    if not _has(path, FILES):
        for n in range(FILES):
            part = rows_from(n * (rows // FILES), rows // FILES)
            bayou.write(str(path), part, mode="append" if n else "error")
    return path


def small_files_table(files: int) -> Path:
    """Return the path of the table of small files; create the table if it doesn't exist."""
    path = CACHE / f"small-files-{files}"
    if not _has(path, files):
        data = rows_from(0, files * SMALL_ROWS)
        part = pc.divide(data.column("id"), SMALL_ROWS)
        bayou.write(
            str(path), data.append_column("part", part), mode="error", partition_by=["part"]
        )
    return path


def _has(path: Path, files: int) -> bool:
    table = bayou.table(str(path))
    return table.exists() and table.snapshot().files().num_rows == files


def rows_from(start: int, count: int) -> pa.Table:
    """Return `count` rows of 8 columns; their ids begin at `start`."""
    ids = pa.array(range(start, start + count), pa.int64())
    mixed = pc.bit_wise_and(pc.multiply(ids, 2_654_435_761), 0xFFFFFF)  # spread, reproducible
    seconds = pc.add(ids, 1_700_000_000)
    return pa.table(
        {
            "id": ids,
            "at": pc.cast(pc.multiply(seconds, 1_000_000), pa.timestamp("us", "UTC")),
            "day": pc.cast(pc.cast(pc.divide(seconds, 86_400), pa.int32()), pa.date32()),
            "kind": pc.binary_join_element_wise(
                "kind", pc.cast(pc.bit_wise_and(mixed, 15), pa.string()), "-"
            ),
            "name": pc.binary_join_element_wise("name", pc.cast(mixed, pa.string()), "-"),
            "amount": pc.divide(pc.cast(mixed, pa.float64()), 100.0),
            "count": pc.cast(pc.bit_wise_and(mixed, 1023), pa.int32()),
            "good": pc.equal(pc.bit_wise_and(mixed, 1), 1),
        }
    )


def by_bayou(table: str, columns: Columns) -> Work:
    """Return the function to measure: count the rows of `to_batches`."""
    pa.array([""])  # where pandas is installed, pyarrow imports it for the first list it is given
    open_table = bayou.table  # imported now, as the peers are

    def count() -> int:
        found = open_table(table).to_batches(columns=columns)
        return sum(batch.num_rows for batch in found)

    return count


def by_deltalake(table: str, columns: Columns) -> Work:
    """Return the function to measure: count rows streamed by `deltalake`'s query engine."""
    import deltalake

    def count() -> int:
        names = ", ".join(columns or ("*",))
        found = (
            deltalake.QueryBuilder()
            .register("t", deltalake.DeltaTable(table))
            .execute(f"SELECT {names} FROM t")  # noqa: S608  # the names are ours
        )
        return sum(pa.record_batch(batch).num_rows for batch in found)

    return count


def by_pyarrow(table: str, columns: Columns) -> Work:
    """Return the function to measure: count rows of a pyarrow dataset of the table's files."""
    import pyarrow.dataset as ds

    files = [str(file) for file in sorted(Path(table).rglob("*.parquet"))]
    files = [file for file in files if "_delta_log" not in file]

    def count() -> int:
        found = ds.dataset(files).to_batches(columns=None if columns is None else list(columns))
        return sum(batch.num_rows for batch in found)

    return count


def by_polars(table: str, columns: Columns) -> Work:
    """Return the function to measure: count rows of polars' scan of a Delta table."""
    import polars as pl

    def count() -> int:
        frame = pl.scan_delta(table)
        if columns is not None:
            frame = frame.select(columns)
        return frame.collect(engine="streaming").height

    return count


PROGRAMS: dict[str, Callable[[str, Columns], Work]] = {
    "bayou": by_bayou,
    "deltalake": by_deltalake,
    "pyarrow, no log": by_pyarrow,
    "polars": by_polars,
}
COLUMNS: dict[str, Columns] = {"all": None, "2": TWO}


def run(console: Console, rows: int, small_files: int, runs: int) -> None:
    """Measure every program on both tables, and print tables of the results."""
    cases = (
        (f"{rows:,} rows in {FILES} files, all 8 columns", rows_table(rows), "all"),
        (f"{rows:,} rows in {FILES} files, 2 of 8 columns", rows_table(rows), "2"),
        (
            f"{small_files * SMALL_ROWS:,} rows in {small_files:,} files, 2 of 9 columns",
            small_files_table(small_files),
            "2",
        ),
    )
    for title, table, columns in cases:
        measured = {
            name: measure.repeat([__file__, "--measure", name, str(table), columns], runs)
            for name in PROGRAMS
        }
        assert len({one.result for one in measured.values()}) == 1, title
        console.print(_grid(title, measured))


def _grid(title: str, measured: dict[str, measure.Measurement]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in ("seconds", "bayou beside it", "peak MB", "bayou beside it"):
        grid.add_column(heading, justify="right")
    ours = measured["bayou"]
    for name, one in measured.items():
        grid.add_row(
            name,
            f"{one.seconds:.2f}",
            "" if one is ours else f"{ours.seconds / one.seconds:.2f}x",
            f"{one.peak_bytes / 1e6:,.0f}",
            "" if one is ours else f"{ours.peak_bytes / one.peak_bytes:.2f}x",
        )
    return grid


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--small-files", type=int, default=SMALL_FILES)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        name, table, columns = options.measure
        measure.report(PROGRAMS[name](table, COLUMNS[columns]))
    else:
        run(Console(width=measure.WIDTH), options.rows, options.small_files, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
