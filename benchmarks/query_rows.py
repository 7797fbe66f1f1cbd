"""Measures queries over a table in one process, compared with `deltalake`, DuckDB and Polars.

usage: query_rows.py [--rows N] [--runs N]

The table has 16 files with 8 columns. One query groups all rows, one reads the rows of one file,
which the statistics select. DuckDB on plain Parquet reads a list of the files instead of the log.
Each number is the median of runs in separate processes, with the files in the disk's cache. Each
process first runs the query on a small table, so that imports aren't measured; opening the table
is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import measure
from rich.console import Console
from rich.table import Table as Grid
from scan_rows import FILES, ROWS, rows_table

import bayou

GROUPED = "SELECT kind, sum(count) AS total FROM t GROUP BY kind"
SELECTED = "SELECT kind, sum(count) AS total FROM t WHERE id >= {low} AND id < {high} GROUP BY kind"

Work = Callable[[], int]


def by_bayou_sql(table: str, query: str) -> Work:
    """Return the function to measure: `bayou.sql`."""
    run_query = bayou.sql
    return lambda: sum(total for _, total in run_query(query, t=table).fetchall())


def by_bayou_polars(table: str, query: str) -> Work:
    """Return the function to measure: Polars over `bayou.scan_polars`."""
    scan = bayou.scan_polars
    return lambda: _by_polars(scan(table), query)


def by_deltalake(table: str, query: str) -> Work:
    """Return the function to measure: `deltalake`'s own query engine."""
    import deltalake
    import pyarrow as pa

    def total() -> int:
        found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table)).execute(query)
        return sum(sum(pa.record_batch(b).column("total").to_pylist()) for b in found)

    return total


def by_deltalake_dataset(table: str, query: str) -> Work:
    """Return the function to measure: DuckDB over `deltalake`'s `to_pyarrow_dataset`."""
    import deltalake
    import duckdb

    def total() -> int:
        with duckdb.connect() as connection:
            connection.register("t", deltalake.DeltaTable(table).to_pyarrow_dataset())
            return sum(total for _, total in connection.sql(query).fetchall())

    return total


def by_duckdb(table: str, query: str) -> Work:
    """Return the function to measure: DuckDB over the table's files, without the log."""
    import duckdb

    files = [str(file) for file in sorted(Path(table).rglob("*.parquet"))]
    files = [file for file in files if "_delta_log" not in file]

    def total() -> int:
        with duckdb.connect() as connection:
            connection.read_parquet(files).create_view("t")
            return sum(total for _, total in connection.sql(query).fetchall())

    return total


def by_polars(table: str, query: str) -> Work:
    """Return the function to measure: Polars' scan of a Delta table."""
    import polars as pl

    return lambda: _by_polars(pl.scan_delta(table), query)


def _by_polars(frame: Any, query: str) -> int:
    import polars as pl

    if "WHERE" in query:
        low, high = (int(word) for word in query.split() if word.isdigit())
        frame = frame.filter((pl.col("id") >= low) & (pl.col("id") < high))
    grouped = frame.group_by("kind").agg(pl.col("count").sum().alias("total"))
    return sum(grouped.collect(engine="streaming")["total"].to_list())


PROGRAMS: dict[str, Callable[[str, str], Work]] = {
    "bayou.sql": by_bayou_sql,
    "bayou.scan_polars": by_bayou_polars,
    "deltalake QueryBuilder": by_deltalake,
    "deltalake dataset in DuckDB": by_deltalake_dataset,
    "DuckDB, no log": by_duckdb,
    "Polars scan_delta": by_polars,
}


def run(console: Console, rows: int, runs: int) -> None:
    """Measure every program with both queries, and print tables of the results."""
    rows_table(FILES)
    table = rows_table(rows)
    part = rows // FILES
    cases = {
        f"{rows:,} rows in {FILES} files, grouped": GROUPED,
        f"the rows of one of {FILES} files, grouped": SELECTED.format(low=3 * part, high=4 * part),
    }
    for title, query in cases.items():
        measured = {
            name: measure.repeat([__file__, "--measure", name, str(table), query], runs)
            for name in PROGRAMS
        }
        assert len({one.result for one in measured.values()}) == 1, title
        console.print(_grid(title, measured))


def _grid(title: str, measured: dict[str, measure.Measurement]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in ("seconds", "bayou.sql beside it", "peak MB", "bayou.sql beside it"):
        grid.add_column(heading, justify="right")
    ours = measured["bayou.sql"]
    for name, one in measured.items():
        grid.add_row(
            name,
            f"{one.seconds:.3f}",
            "" if one is ours else f"{ours.seconds / one.seconds:.2f}x",
            f"{one.peak_bytes / 1e6:,.0f}",
            "" if one is ours else f"{ours.peak_bytes / one.peak_bytes:.2f}x",
        )
    return grid


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        name, table, query = options.measure
        PROGRAMS[name](str(rows_table(FILES)), query)()
        measure.report(PROGRAMS[name](table, query))
    else:
        run(Console(width=measure.WIDTH), options.rows, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
