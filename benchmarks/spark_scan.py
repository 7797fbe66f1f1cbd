"""Measures Spark queries on tables, with and without `bayou.enable`, compared with delta-spark.

usage: spark_scan.py [--runs N] [--peers ENVIRONMENT] [--only CASE ...]

The variants run the same queries alternately in sessions that stay open (`spark_sessions`). Each
query loads its table again. The first run of a query warms up and isn't counted. In cold cases,
each run is the first query of a new session. Without the peer's environment (`make test-peers`)
only Bayou is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import measure
import pyarrow as pa
import pyarrow.compute as pc
import scan_rows
from million_files import CACHE, table_with
from rich.console import Console
from spark_sessions import PEER, PEERS, Result, Sessions, grid

import bayou

ROWS, FILES = 8_000_000, 16
WIDE_ROWS, WIDE_COLUMNS, WIDE_FILES = 1_000_000, 100, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A query on a table.

    Attributes:
        title: the name of the case in the results.
        query: a key of `spark_scan_work.CASES`.
        table: returns the path of the table; creates the table if it doesn't exist.
        budgets: maximum multiple of the peer's time, by variant.
        variants: the variants to measure.
        cold: whether each run is the first query of a new session.
    """

    title: str
    query: str
    table: Callable[[], Path]
    budgets: Mapping[str, float]
    variants: tuple[str, ...] = ("enable", "source", PEER)
    cold: bool = False


def rows_table() -> Path:
    """Return the path of a table of 8,000,000 rows with 8 columns."""
    return scan_rows.rows_table(ROWS)


def vectors_table(percent: int) -> Path:
    """Return the path of such a table, with deletion vectors for `percent` of each file's rows."""
    path = CACHE / f"rows-{ROWS}-deleted-{percent}"
    if not bayou.table(str(path)).exists():
        for n in range(FILES):
            part = scan_rows.rows_from(n * (ROWS // FILES), ROWS // FILES)
            properties = {"delta.enableDeletionVectors": "true"}
            if n:
                bayou.write(str(path), part, mode="append")
            else:
                bayou.write(str(path), part, mode="error", configuration=properties)
        bayou.table(str(path)).delete(f"id % 100 < {percent}")
    return path


def wide_table() -> Path:
    """Return the path of a table of 1,000,000 rows with 100 columns."""
    path = CACHE / f"wide-{WIDE_ROWS}"
    if not bayou.table(str(path)).exists():
        each = WIDE_ROWS // WIDE_FILES
        for n in range(WIDE_FILES):
            ids = pa.array(range(n * each, n * each + each), pa.int64())
            columns = {
                f"c{i}": pc.bit_wise_and(pc.multiply(ids, 2_654_435_761 + i), 0xFFFFFF)
                for i in range(WIDE_COLUMNS)
            }
            bayou.write(str(path), pa.table(columns), mode="append" if n else "error")
    return path


ENABLED = {"enable": 0.8}
CASES = {
    "all": Case(
        title="8M rows, 8 columns",
        query="all",
        table=rows_table,
        budgets={"enable": 0.8, "source": 1.0},
    ),
    "2": Case(
        title="8M rows, 2 of 8 columns",
        query="2",
        table=rows_table,
        budgets={"enable": 0.8, "source": 2.2},
    ),
    "one": Case(
        title="8M rows, filter for one row",
        query="one",
        table=rows_table,
        budgets=ENABLED,
        variants=("enable", PEER),
    ),
    "3": Case(
        title="1M rows, 3 of 100 columns",
        query="3",
        table=wide_table,
        budgets=ENABLED,
        variants=("enable", PEER),
    ),
    "deleted-1-all": Case(
        title="8M rows, 1% deleted, 8 columns",
        query="all",
        table=lambda: vectors_table(1),
        budgets=ENABLED,
    ),
    "deleted-1-2": Case(
        title="8M rows, 1% deleted, 2 columns",
        query="2",
        table=lambda: vectors_table(1),
        budgets=ENABLED,
    ),
    "deleted-5-2": Case(
        title="8M rows, 5% deleted, 2 columns",
        query="2",
        table=lambda: vectors_table(5),
        budgets={},
    ),
    "small": Case(
        title="10,000 small files, 2 of 9 columns",
        query="2",
        table=lambda: scan_rows.small_files_table(scan_rows.SMALL_FILES),
        budgets={},
        variants=("enable", PEER),
    ),
    "first": Case(
        title="160,000 rows, 2 of 8 columns, first query of a session",
        query="2",
        table=lambda: scan_rows.rows_table(160_000),
        budgets={},
        cold=True,
    ),
} | {
    f"{files}-{query}-{'cold' if cold else 'warm'}": Case(
        title=f"plan of {files:,} files, {what}, {'cold' if cold else 'warm'}",
        query=query,
        table=partial(table_with, files, "one-row-group"),
        budgets=budgets,
        variants=("enable", PEER),
        cold=cold,
    )
    for files in (200_000, 1_000_000)
    for query, what, budgets, cold in (
        ("point", "a filter that leaves none", {"enable": 0.1}, True),
        ("point", "a filter that leaves none", {"enable": 1.0}, False),
        ("range", "a filter that leaves 4,000", {"enable": 1.0}, False),
        ("every-file", "no filter", {"enable": 0.1}, False),
    )
}


def run(console: Console, runs: int, only: Sequence[str] = (), peers: Path = PEERS) -> None:
    """Measure the cases, and print a table for each case."""
    chosen = {name: case for name, case in CASES.items() if not only or name in only}
    tables = {name: str(case.table()) for name, case in chosen.items()}
    with Sessions(peers) as sessions:
        for name, case in chosen.items():
            taken: dict[str, list[float]] = {
                variant: [] for variant in sessions.variants(case.variants)
            }
            results = set()
            for number in range(runs if case.cold else runs + 1):
                for variant, seconds in taken.items():
                    again = case.cold and variant in sessions
                    session = sessions.fresh(variant) if again else sessions[variant]
                    answer = session.ask("spark_scan_work", case=case.query, table=tables[name])
                    if again:
                        session.close()
                    if number or case.cold:
                        seconds.append(answer["seconds"])
                    results.add(answer["result"])
            assert len(results) == 1, f"{case.title}: {results}"
            result = Result(title=case.title, seconds=taken, budgets=case.budgets)
            console.print(grid("Reading with Spark", [result]))


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--only", nargs="*", default=(), choices=list(CASES))
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.runs, options.only, options.peers)


if __name__ == "__main__":
    main(sys.argv[1:])
