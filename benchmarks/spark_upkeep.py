"""OPTIMIZE, Z-order and VACUUM with Spark beside delta-spark: the same tables, by turns.

usage: PYTHONPATH=tools spark_upkeep.py [--rows N] [--files N] [--cases ...] [--peers ENVIRONMENT]

Sessions stay up, each in a process of its own with two cores; one works at a time. The first run of
each is a small one, for warming up, and isn't counted. Without the environment of the peers
(`make peers`) ours are measured alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import measure
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import bayou

PEER = "delta-spark"
BUDGET = 0.5
CASES = ("optimize", "zorder", "vacuum", "vacuum-many")
_ROWS_A_FILE = 1_000_000


class Session:
    """`spark_upkeep_session.py` in a process."""

    def __init__(self, door: str, python: str, folder: Path) -> None:
        folder.mkdir()
        script = Path(__file__).with_name("spark_upkeep_session.py")
        self._errors = (folder / "stderr").open("w+")
        self._process = subprocess.Popen(
            [python, str(script), door, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={k: v for k, v in os.environ.items() if door != PEER or k != "PYTHONPATH"},
        )
        self._answer()

    def run(self, case: str, table: Path) -> dict[str, Any]:
        """Change a table; what the session says of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{case} {table}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        self._errors.seek(0)
        sys.exit(f"a session failed:\n{self._errors.read()[-4000:]}")


def run(console: Console, cases: Sequence[str], rows: int, files: int, peers: Path) -> None:
    """Measure and print."""
    pythons = {"enable": sys.executable, "driver": sys.executable}
    if (peers / "bin" / "python").exists():
        pythons[PEER] = str(peers / "bin" / "python")
    made: dict[str, tuple[str, str, Callable[[Path], None]]] = {
        "optimize": ("optimize", f"OPTIMIZE {files:,} files", lambda p: small_files(p, files)),
        "zorder": ("zorder", f"Z-order {rows:,} rows", lambda p: many_rows(p, rows)),
        "vacuum": ("vacuum", "VACUUM 15 files", lambda p: unneeded(p, 15)),
        "vacuum-many": (
            "vacuum",
            f"VACUUM {files * 100:,} files",
            lambda p: unneeded(p, files * 100),
        ),
    }
    grid = Grid(title="Upkeep with Spark, two cores", title_justify="left")
    for heading in ("", "door", "seconds", f"beside {PEER}", "budget", "files"):
        grid.add_column(heading, justify="left" if heading in ("", "door") else "right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sessions = {d: Session(d, python, folder / d) for d, python in pythons.items()}
        small_files(folder / "warm", 10)
        for door, session in sessions.items():
            for statement in ("optimize", "zorder", "vacuum"):
                table = folder / f"{door}-warm-{statement}"
                shutil.copytree(folder / "warm", table)
                session.run(statement, table)
        for case in cases:
            statement, title, make = made[case]
            make(folder / case)
            seconds: dict[str, float] = {}
            found: dict[str, int] = {}
            for door, session in sessions.items():
                table = folder / f"{door}-{case}"
                shutil.copytree(folder / case, table)
                answer = session.run(statement, table)
                seconds[door], found[door] = answer["seconds"], answer["files"]
                shutil.rmtree(table)
            shutil.rmtree(folder / case)
            shown = ", ".join(f"{door} {taken:.2f} s" for door, taken in seconds.items())
            console.print(f"{title}: {shown}")
            base = seconds.get(PEER)
            for door, taken in seconds.items():
                ratio = "" if base is None or door == PEER else f"{taken / base:.2f}x"
                budget = "" if door == PEER else f"{BUDGET}x"
                grid.add_row(title, door, f"{taken:.2f}", ratio, budget, str(found[door]))
        for session in sessions.values():
            session.close()
    console.print(grid)


def small_files(path: Path, count: int) -> None:
    """A table of so many files of 1,000 rows."""
    for number in range(count):
        bayou.write(str(path), _rows(number * 1000, 1000))


def many_rows(path: Path, rows: int) -> None:
    """A table of files of a million rows."""
    for start in range(0, rows, _ROWS_A_FILE):
        bayou.write(str(path), _rows(start, min(_ROWS_A_FILE, rows - start)))


def unneeded(path: Path, count: int) -> None:
    """A table of one file in a folder with others that nobody needs."""
    bayou.write(str(path), _rows(0, 10))
    for number in range(count):
        place = path / f"p{number % 100}"
        place.mkdir(exist_ok=True)
        (place / f"part-{number:08}.parquet").touch()


def _rows(start: int, count: int) -> pa.Table:
    numbers = np.random.default_rng(start)
    ids = np.arange(start, start + count)
    return pa.table(
        {
            "id": ids,
            "few": numbers.integers(0, 1000, count, dtype=np.int32),
            "number": numbers.integers(0, 1 << 40, count),
            "amount": ids * 0.37,
            "who": [f"user-{n}" for n in numbers.integers(0, 100_000, count)],
        }
    )


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    run(console, options.cases, options.rows, options.files, options.peers)


if __name__ == "__main__":
    main(sys.argv[1:])
