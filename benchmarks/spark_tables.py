"""MERGE, UPDATE and DELETE of `DeltaTable` beside delta-spark: the same program, by turns.

usage: spark_tables.py [--runs N] [--cases CASE,..] [--doors DOOR,..] [--peers ENVIRONMENT]

8,000,000 rows with 8 columns in 8 files, copied by links for every run. A session for each door,
with two cores, one at work at a time; the first run of each case warms up and isn't counted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import measure
import pyarrow as pa
import pyarrow.compute as pc
from million_files import CACHE
from rich.console import Console
from rich.table import Table as Grid

import bayou

ROWS, FILES = 8_000_000, 8
CASES = {
    "merge": 0.25,
    "merge-half": 0.25,
    "merge-inserts": 0.25,
    "merge-rewriting": 0.25,
    "update": 0.25,
    "delete": 0.25,
    "delete-point": 0.25,
}
"""Budgets as multiples of the peer's time."""
PEER = "delta-spark"


def target(*, vectors: bool) -> Path:
    """The table; made where it isn't there."""
    path = CACHE / f"spark-tables{'-vectors' if vectors else ''}"
    if not bayou.table(str(path)).exists():
        count = ROWS // FILES
        for number in range(FILES):
            ids: Any = pa.array(range(number * count, (number + 1) * count), pa.int64())
            mixed = pc.bit_wise_and(pc.multiply(ids, 2_654_435_761), 0xFFFFFF)
            moments = pc.add(pc.multiply(ids, 1000), 1_700_000_000_000_000)
            rows = pa.table(
                {
                    "id": ids,
                    "few": pc.cast(pc.bit_wise_and(mixed, 1023), pa.int32()),
                    "number": pc.cast(mixed, pa.int32()),
                    "amount": pc.multiply(pc.cast(ids, pa.float64()), 0.37),
                    "who": pc.binary_join_element_wise("user", pc.cast(mixed, pa.string()), "-"),
                    "note": pc.binary_join_element_wise(
                        "a longer text of row", pc.cast(ids, pa.string()), " "
                    ),
                    "at": pc.cast(moments, pa.timestamp("us", "UTC")),
                    "day": pc.cast(pc.cast(pc.bit_wise_and(ids, 15), pa.int32()), pa.date32()),
                }
            )
            properties = {"delta.enableDeletionVectors": str(vectors).lower()}
            bayou.write(str(path), rows, properties=None if number else properties)
    return path


class Session:
    """`spark_tables_session.py` in a process."""

    def __init__(self, door: str, python: str, folder: Path) -> None:
        folder.mkdir()
        script = Path(__file__).with_name("spark_tables_session.py")
        self._errors = (folder / "stderr").open("w+")
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

    def change(self, case: str, table: Path) -> float:
        """Seconds that a change took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{case} {table}\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{") and '"level"' not in line:
                answer: dict[str, Any] = json.loads(line)
                return answer
        self._errors.seek(0)
        sys.exit(f"a session failed:\n{self._errors.read()[-4000:]}")


def run(cases: Sequence[str], doors: Sequence[str], runs: int, peers: Path) -> Grid:
    """Measure."""
    seconds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        for door in doors:
            python = str(peers.resolve() / "bin" / "python") if door == PEER else sys.executable
            session = Session(door, python, Path(folder, door))
            for case in cases:
                table = target(vectors=case != "merge-rewriting")
                for number in range(runs + 1):
                    copy = Path(folder, "copy")
                    shutil.copytree(table, copy, copy_function=os.link)
                    taken = session.change(case, copy)
                    shutil.rmtree(copy)
                    if number:
                        seconds.setdefault((case, door), []).append(taken)
            session.close()
    grid = Grid(title=f"{ROWS:,} rows x 8 columns, {FILES} files", title_justify="left")
    for heading in ("", *doors, "best beside the peer", "budget"):
        grid.add_column(heading, justify="right" if heading else "left")
    for case in cases:
        taken = {door: median(seconds[case, door]) for door in doors}
        ours = min((v for door, v in taken.items() if door != PEER), default=0.0)
        beside = f"{ours / taken[PEER]:.2f}x" if PEER in taken else ""
        shown = [f"{value:.2f} s" for value in taken.values()]
        grid.add_row(case, *shown, beside, f"{CASES[case]}x")
    return grid


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--doors", default=f"driver,executors,plan,{PEER}")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    options = parser.parse_args(arguments)
    for vectors in (True, False):
        target(vectors=vectors)
    cases, doors = options.cases.split(","), options.doors.split(",")
    Console(width=measure.WIDTH).print(run(cases, doors, options.runs, options.peers))


if __name__ == "__main__":
    main(sys.argv[1:])
