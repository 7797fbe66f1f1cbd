"""Measures reading the change data feed in one process, compared with `deltalake`.

usage: read_changes.py [--rows N] [--runs N]

`bayou` appended rows in several commits; then `deltalake` updated a hundredth of the rows several
times and wrote change data files. All changes of all versions are streamed and only counted. Each
number is the median of runs in separate processes, with the files in the disk's cache. Each process
first does the same with a small table, so that imports aren't measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import pyarrow as pa
import scan_rows
from million_files import CACHE
from rich.console import Console

import bayou

ROWS, SMALL_ROWS = 4_000_000, 2_000
APPENDS, UPDATES = 20, 5

Work = Callable[[], int]


def changes_table(rows: int) -> Path:
    """Return the path of the table; create the table if it doesn't exist."""
    path = CACHE / f"changes-{rows}"
    if (path / "complete").exists():
        return path
    import deltalake

    each = rows // APPENDS
    feed = {"delta.enableChangeDataFeed": "true"}
    for n in range(APPENDS):
        part = scan_rows.rows_from(n * each, each)
        bayou.write(
            str(path), part, mode="append" if n else "error", configuration=None if n else feed
        )
    table = deltalake.DeltaTable(str(path))
    for n in range(UPDATES):
        table.update(updates={"amount": "amount + 1"}, predicate=f"id % 100 = {n}")
    (path / "complete").touch()
    return path


def by_bayou(table: str) -> Work:
    """Return the function to measure: count the rows of `changes(0).to_batches()`."""
    open_table = bayou.table

    def count() -> int:
        return sum(batch.num_rows for batch in open_table(table).changes(0).to_batches())

    return count


def by_deltalake(table: str) -> Work:
    """Return the function to measure: count the rows of `load_cdf`."""
    import deltalake

    def count() -> int:
        found = deltalake.DeltaTable(table).load_cdf(starting_version=0)
        return sum(pa.record_batch(batch).num_rows for batch in found)

    return count


PROGRAMS: dict[str, Callable[[str], Work]] = {"bayou": by_bayou, "deltalake": by_deltalake}


def run(console: Console, rows: int, runs: int) -> None:
    """Run the measurements and print the results as a table."""
    changes_table(SMALL_ROWS)
    table = changes_table(rows)
    measured = {
        name: measure.repeat([__file__, "--measure", name, str(table)], runs) for name in PROGRAMS
    }
    assert len({one.result for one in measured.values()}) == 1, measured
    title = f"Changes of {rows:,} rows in {APPENDS} appends, {UPDATES} updates of 1%"
    console.print(measure.beside_peer(title, measured, "deltalake"))


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        name, table = options.measure
        PROGRAMS[name](str(changes_table(SMALL_ROWS)))()
        measure.report(PROGRAMS[name](table))
    else:
        run(Console(width=measure.WIDTH), options.rows, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
