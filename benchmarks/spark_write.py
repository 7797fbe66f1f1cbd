"""Measures appends with Spark, with and without `bayou.enable`, compared with delta-spark.

usage: spark_write.py [--rows N] [--runs N] [--only CASE ...] [--peers ENVIRONMENT]

The variants append the same rows alternately in three sessions that stay open (`spark_sessions`).
The first run of each case warms up and isn't counted. Without the peer's environment
(`make test-peers`) only Bayou is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import measure
from rich.console import Console
from spark_sessions import PEER, PEERS, Result, Sessions, grid

ROWS = 8_000_000
WARM_UP = 8  # divisor of the number of rows for the run that isn't counted
BUDGETS = {"enable": 0.8, "source": 1.0}
CASES = {
    "unpartitioned": "one folder",
    "partitioned": "16 partitions",
}


def run(
    console: Console,
    rows: int,
    runs: int,
    only: Sequence[str] = tuple(CASES),
    peers: Path = PEERS,
) -> None:
    """Measure the cases, and print a table."""
    results = []
    with Sessions(peers) as sessions:
        for case in only:
            seconds: dict[str, list[float]] = {d: [] for d in sessions.variants((*BUDGETS, PEER))}
            files = {}
            for number in range(runs + 1):
                for variant, taken in seconds.items():
                    answer = sessions[variant].ask(
                        "spark_write_work", case=case, rows=rows if number else rows // WARM_UP
                    )
                    files[variant] = f"{answer['files']} files"
                    if number:
                        taken.append(answer["seconds"])
            results.append(Result(title=CASES[case], seconds=seconds, budgets=BUDGETS, notes=files))
    console.print(grid(f"Appending {rows:,} rows x 8 columns with Spark", results))


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=tuple(CASES), choices=list(CASES))
    parser.add_argument("--peers", type=Path, default=PEERS)
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    run(console, options.rows, options.runs, options.only, options.peers)


if __name__ == "__main__":
    main(sys.argv[1:])
