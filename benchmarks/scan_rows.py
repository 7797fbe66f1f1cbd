"""Measures reads and queries in one process, compared with `deltalake`, DuckDB, pyarrow and Polars.

usage: scan_rows.py [--rows N] [--small-files N] [--runs N] [--case CASE ...]

There are two tables: 16 files of a million rows with 8 columns, and 10,000 files of 100 rows each.
A read streams all or 2 columns, and its rows are only counted. One query groups all rows of the
large files, one groups the rows of one file, which the statistics select. "No log" programs get a
list of the files. Each number is the median of runs in separate processes, with the files in the
disk's cache. Each process first does the same with a small table, so that imports aren't measured;
opening the table is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import pyarrow as pa
import pyarrow.compute as pc
from million_files import CACHE
from rich.console import Console
from rich.table import Table as Grid

import bayou

ROWS, FILES = 16_000_000, 16
SMALL_FILES, SMALL_ROWS = 10_000, 100
ALL, TWO = "", "id,amount"
GROUPED = "SELECT kind, sum(count) AS total FROM t GROUP BY kind"
SELECTED = "SELECT kind, sum(count) AS total FROM t WHERE id >= {low} AND id < {high} GROUP BY kind"

Work = Callable[[], int]
Program = Callable[[str, str], Work]
"""A function of a table and of what is read (comma-separated columns, or SQL). It returns the
function to measure."""


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


def read_by_bayou(table: str, columns: str) -> Work:
    """Return the function to measure: count the rows of `to_batches`."""
    open_table = bayou.table
    return lambda: sum(b.num_rows for b in open_table(table).to_batches(columns=_names(columns)))


def read_by_deltalake(table: str, columns: str) -> Work:
    """Return the function to measure: count rows streamed by `deltalake`'s query engine."""
    query = f"SELECT {columns or '*'} FROM t"  # noqa: S608  # the names are ours
    return lambda: sum(batch.num_rows for batch in _query_builder(table, query))


def read_by_pyarrow(table: str, columns: str) -> Work:
    """Return the function to measure: count rows of a pyarrow dataset of the table's files."""
    import pyarrow.dataset as ds

    files = _data_files(table)
    return lambda: sum(b.num_rows for b in ds.dataset(files).to_batches(columns=_names(columns)))


def read_by_polars(table: str, columns: str) -> Work:
    """Return the function to measure: count rows of Polars' scan of a Delta table."""
    import polars as pl

    def count() -> int:
        frame = pl.scan_delta(table)
        names = _names(columns)
        if names is not None:
            frame = frame.select(names)
        return frame.collect(engine="streaming").height

    return count


def query_by_bayou_sql(table: str, query: str) -> Work:
    """Return the function to measure: `bayou.sql`."""
    run_query = bayou.sql
    return lambda: sum(total for _, total in run_query(query, t=table).fetchall())


def query_by_bayou_polars(table: str, query: str) -> Work:
    """Return the function to measure: Polars over `bayou.scan_polars`."""
    scan = bayou.scan_polars
    return lambda: _by_polars(scan(table), query)


def query_by_deltalake(table: str, query: str) -> Work:
    """Return the function to measure: `deltalake`'s own query engine."""
    return lambda: sum(sum(b.column("total").to_pylist()) for b in _query_builder(table, query))


def query_by_deltalake_dataset(table: str, query: str) -> Work:
    """Return the function to measure: DuckDB over `deltalake`'s `to_pyarrow_dataset`."""
    import deltalake
    import duckdb

    def total() -> int:
        with duckdb.connect() as connection:
            connection.register("t", deltalake.DeltaTable(table).to_pyarrow_dataset())
            return sum(total for _, total in connection.sql(query).fetchall())

    return total


def query_by_duckdb(table: str, query: str) -> Work:
    """Return the function to measure: DuckDB over the table's files, without the log."""
    import duckdb

    files = _data_files(table)

    def total() -> int:
        with duckdb.connect() as connection:
            connection.read_parquet(files).create_view("t")
            return sum(total for _, total in connection.sql(query).fetchall())

    return total


def query_by_polars(table: str, query: str) -> Work:
    """Return the function to measure: Polars' scan of a Delta table."""
    import polars as pl

    return lambda: _by_polars(pl.scan_delta(table), query)


def _names(columns: str) -> list[str] | None:
    return columns.split(",") if columns else None


def _data_files(table: str) -> list[str]:
    files = [str(file) for file in sorted(Path(table).rglob("*.parquet"))]
    return [file for file in files if "_delta_log" not in file]


def _query_builder(table: str, query: str) -> Iterator[pa.RecordBatch]:
    import deltalake

    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table)).execute(query)
    return (pa.record_batch(batch) for batch in found)


def _by_polars(frame: Any, query: str) -> int:
    import polars as pl

    if "WHERE" in query:
        low, high = (int(word) for word in query.split() if word.isdigit())
        frame = frame.filter((pl.col("id") >= low) & (pl.col("id") < high))
    grouped = frame.group_by("kind").agg(pl.col("count").sum().alias("total"))
    return sum(grouped.collect(engine="streaming")["total"].to_list())


READS: dict[str, Program] = {
    "Bayou": read_by_bayou,
    "deltalake": read_by_deltalake,
    "pyarrow, no log": read_by_pyarrow,
    "Polars scan_delta": read_by_polars,
}
QUERIES: dict[str, Program] = {
    "bayou.sql": query_by_bayou_sql,
    "bayou.scan_polars": query_by_bayou_polars,
    "deltalake QueryBuilder": query_by_deltalake,
    "deltalake dataset in DuckDB": query_by_deltalake_dataset,
    "DuckDB, no log": query_by_duckdb,
    "Polars over scan_delta": query_by_polars,
}
PROGRAMS = {"reads": READS, "queries": QUERIES}
CASES = ("all", "two", "small", "grouped", "selected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What all programs of a kind do with a table.

    Attributes:
        name: the name in `CASES`.
        kind: `reads` or `queries`.
        table: creates the table if it doesn't exist, and returns its path.
        what: comma-separated columns, or SQL.
    """

    name: str
    title: str
    kind: str
    table: Callable[[], Path]
    what: str


def _cases(rows: int, small_files: int) -> Sequence[Case]:
    def large() -> Path:
        return rows_table(rows)

    part = rows // FILES
    table = f"{rows:,} rows in {FILES} files"
    return (
        Case(name="all", title=f"{table}, all 8 columns", kind="reads", table=large, what=ALL),
        Case(name="two", title=f"{table}, 2 of 8 columns", kind="reads", table=large, what=TWO),
        Case(
            name="small",
            title=f"{small_files * SMALL_ROWS:,} rows in {small_files:,} files, 2 of 9 columns",
            kind="reads",
            table=lambda: small_files_table(small_files),
            what=TWO,
        ),
        Case(name="grouped", title=f"{table}, grouped", kind="queries", table=large, what=GROUPED),
        Case(
            name="selected",
            title=f"the rows of one of {FILES} files, grouped",
            kind="queries",
            table=large,
            what=SELECTED.format(low=3 * part, high=4 * part),
        ),
    )


def run(
    console: Console, rows: int, small_files: int, runs: int, names: Sequence[str] = CASES
) -> None:
    """Measure the programs of each case, and print tables of the results."""
    rows_table(FILES)
    for case in _cases(rows, small_files):
        if case.name not in names:
            continue
        table = str(case.table())
        measured = {
            name: measure.repeat([__file__, "--measure", name, table, case.what], runs)
            for name in PROGRAMS[case.kind]
        }
        assert len({one.result for one in measured.values()}) == 1, case.title
        console.print(_grid(case.title, measured))


def _grid(title: str, measured: dict[str, measure.Measurement]) -> Grid:
    ours, *_ = measured
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in ("seconds", f"{ours} beside it", "peak MB", f"{ours} beside it"):
        grid.add_column(heading, justify="right")
    base = measured[ours]
    for name, one in measured.items():
        measure.record(title, name, "time", base.seconds / one.seconds)
        measure.record(title, name, "memory", base.peak_bytes / one.peak_bytes)
        grid.add_row(
            name,
            f"{one.seconds:.3f}",
            "" if one is base else f"{base.seconds / one.seconds:.2f}x",
            f"{one.peak_bytes / 1e6:,.0f}",
            "" if one is base else f"{base.peak_bytes / one.peak_bytes:.2f}x",
        )
    return grid


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--small-files", type=int, default=SMALL_FILES)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", nargs="*", choices=CASES, default=CASES)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        name, table, what = options.measure
        program = (READS | QUERIES)[name]
        program(str(rows_table(FILES)), what)()
        measure.report(program(table, what))
    else:
        console = Console(width=measure.WIDTH)
        run(console, options.rows, options.small_files, options.runs, options.case)


if __name__ == "__main__":
    main(sys.argv[1:])
