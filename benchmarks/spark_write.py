"""Appending with Spark, through both doors, beside delta-spark: the same rows, by turns.

usage: spark_write.py [--rows N] [--runs N] [--peers ENVIRONMENT]

Three sessions stay up, each in a process of its own with two cores; one works at a time. The first
run of each is for warming up and isn't counted. Without the environment of the peers
(`make peers`) the doors are measured alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import measure
from rich.console import Console
from rich.table import Table as Grid

ROWS = 8_000_000
CASES = {"unpartitioned": (0.8, 1.0), "partitioned": (0.8, 1.0)}
"""Budgets through `enable` and through the data source, as multiples of the peer's time."""
PEER = "delta-spark"


class Session:
    """`spark_write_session.py` in a process."""

    def __init__(self, door: str, python: str, folder: Path) -> None:
        folder.mkdir()
        script = Path(__file__).with_name("spark_write_session.py")
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

    def append(self, case: str, rows: int) -> dict[str, Any]:
        """Append; what the session says of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{case} {rows}\n")
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


def run(console: Console, rows: int, runs: int, peers: Path) -> None:
    """Measure and print."""
    pythons = {"enable": sys.executable, "source": sys.executable}
    if (peers / "bin" / "python").exists():
        pythons[PEER] = str(peers / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        seconds: dict[tuple[str, str], list[float]] = {}
        files: dict[tuple[str, str], int] = {}
        sessions = {d: Session(d, python, Path(folder, d)) for d, python in pythons.items()}
        for case in CASES:
            for number in range(runs + 1):
                for door, session in sessions.items():
                    answer = session.append(case, rows if number else rows // 8)
                    files[case, door] = answer["files"]
                    if number:
                        seconds.setdefault((case, door), []).append(answer["seconds"])
        for session in sessions.values():
            session.close()
    grid = Grid(title=f"append {rows:,} rows x 8 columns with Spark", title_justify="left")
    for heading in ("", "door", "seconds", f"beside {PEER}", "budget", "files"):
        grid.add_column(heading, justify="left" if heading in ("", "door") else "right")
    for (case, door), taken in seconds.items():
        base = seconds.get((case, PEER))
        budget = dict(zip(("enable", "source"), CASES[case], strict=True)).get(door)
        grid.add_row(
            case,
            door,
            f"{median(taken):.2f}",
            "" if base is None or door == PEER else f"{median(taken) / median(base):.2f}x",
            "" if budget is None else f"{budget}x",
            str(files[case, door]),
        )
    console.print(grid)


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.rows, options.runs, options.peers)


if __name__ == "__main__":
    main(sys.argv[1:])
