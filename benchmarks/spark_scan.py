"""Reading with Spark, through both doors, beside delta-spark: the same queries, by turns.

usage: spark_scan.py [--runs N] [--peers ENVIRONMENT] [--only CASE ...]

Sessions stay up, each in a process of its own with two cores; one works at a time. Each query loads
its table anew. The first run of each query is for warming up and isn't counted, but for the cold
point queries, each of which is the first query of a session. Without the environment of the peers
(`make peers`) the doors are measured alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import measure
import pyarrow as pa
import pyarrow.compute as pc
import scan_rows
from million_files import CACHE, table_with
from rich.console import Console
from rich.table import Table as Grid

import bayou

ROWS, FILES = 8_000_000, 16
WIDE_ROWS, WIDE_COLUMNS, WIDE_FILES = 1_000_000, 100, 4
PEER = "delta-spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A query of a table.

    Attributes:
        title: what the results call it.
        query: of `spark_scan_session.CASES`.
        table: makes the table where it isn't there.
        budgets: multiples of the peer's time through `enable` and through the data source.
        doors: which of them are measured.
        cold: each run is the first query of a session.
    """

    title: str
    query: str
    table: Callable[[], Path]
    budgets: Mapping[str, float]
    doors: tuple[str, ...] = ("enable", "source", PEER)
    cold: bool = False


def rows_table() -> Path:
    """8,000,000 rows of 8 columns."""
    return scan_rows.rows_table(ROWS)


def vectors_table(percent: int) -> Path:
    """The same, of which deletion vectors mark a part as deleted, spread over all files."""
    path = CACHE / f"rows-{ROWS}-deleted-{percent}"
    if not bayou.table(str(path)).exists():
        for n in range(FILES):
            part = scan_rows.rows_from(n * (ROWS // FILES), ROWS // FILES)
            properties = {"delta.enableDeletionVectors": "true"}
            if n:
                bayou.write(str(path), part, mode="append")
            else:
                bayou.write(str(path), part, mode="error", properties=properties)
        bayou.table(str(path)).delete(f"id % 100 < {percent}")
    return path


def wide_table() -> Path:
    """1,000,000 rows of 100 columns."""
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
    "3": Case(
        title="1M rows, 3 of 100 columns",
        query="3",
        table=wide_table,
        budgets=ENABLED,
        doors=("enable", PEER),
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
    ),
    "200000-cold": Case(
        title="200,000 files, point filter, cold",
        query="point",
        table=lambda: table_with(200_000, "one-row-group"),
        budgets={"enable": 0.1},
        doors=("enable", PEER),
        cold=True,
    ),
    "200000-warm": Case(
        title="200,000 files, point filter, warm",
        query="point",
        table=lambda: table_with(200_000, "one-row-group"),
        budgets={"enable": 1.0},
        doors=("enable", PEER),
    ),
    "1000000-cold": Case(
        title="1,000,000 files, point filter, cold",
        query="point",
        table=lambda: table_with(1_000_000, "one-row-group"),
        budgets={"enable": 0.1},
        doors=("enable", PEER),
        cold=True,
    ),
    "1000000-warm": Case(
        title="1,000,000 files, point filter, warm",
        query="point",
        table=lambda: table_with(1_000_000, "one-row-group"),
        budgets={"enable": 1.0},
        doors=("enable", PEER),
    ),
}


class Session:
    """`spark_scan_session.py` in a process."""

    def __init__(self, door: str, python: str, folder: Path) -> None:
        script = Path(__file__).with_name("spark_scan_session.py")
        self._errors = (folder / f"{door}-{os.urandom(4).hex()}").open("w+")
        self._process = subprocess.Popen(
            [python, str(script), door],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=folder,
            env={k: v for k, v in os.environ.items() if door != PEER or k != "PYTHONPATH"},
        )
        self._answer()

    def query(self, case: str, table: Path) -> dict[str, Any]:
        """Run a query; its seconds and result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"case": case, "table": str(table)}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._errors.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        self._errors.seek(0)
        sys.exit(f"a session failed:\n{self._errors.read()[-4000:]}")


def run(console: Console, runs: int, peers: Path, only: Sequence[str] = ()) -> None:
    """Measure and print."""
    pythons = {"enable": sys.executable, "source": sys.executable}
    if (peers / "bin" / "python").exists():
        pythons[PEER] = str((peers / "bin" / "python").absolute())
    chosen = {name: case for name, case in CASES.items() if not only or name in only}
    tables = {name: case.table() for name, case in chosen.items()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        warm: dict[str, Session] = {}
        for name, case in chosen.items():
            doors = [door for door in case.doors if door in pythons]
            taken: dict[str, list[float]] = {door: [] for door in doors}
            results = set()
            if not case.cold:
                for door in doors:
                    if door not in warm:
                        warm[door] = Session(door, pythons[door], folder)
            for number in range(runs if case.cold else runs + 1):
                for door in doors:
                    session = Session(door, pythons[door], folder) if case.cold else warm[door]
                    answer = session.query(case.query, tables[name])
                    if case.cold:
                        session.close()
                    if number or case.cold:
                        taken[door].append(answer["seconds"])
                    results.add(answer["result"])
            assert len(results) == 1, f"{case.title}: {results}"
            console.print(_grid(case, taken))
        for session in warm.values():
            session.close()


def _grid(case: Case, taken: Mapping[str, list[float]]) -> Grid:
    grid = Grid(title=case.title, title_justify="left")
    for heading in ("door", "seconds", f"beside {PEER}", "budget"):
        grid.add_column(heading, justify="left" if heading == "door" else "right")
    base = taken.get(PEER)
    for door, seconds in taken.items():
        budget = case.budgets.get(door)
        grid.add_row(
            door,
            f"{median(seconds):.2f}",
            "" if base is None or door == PEER else f"{median(seconds) / median(base):.2f}x",
            "" if budget is None else f"{budget}x",
        )
    return grid


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--only", nargs="*", default=(), choices=list(CASES))
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.runs, options.peers, options.only)


if __name__ == "__main__":
    main(sys.argv[1:])
