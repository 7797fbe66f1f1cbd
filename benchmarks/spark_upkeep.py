"""Measures OPTIMIZE, Z-order and VACUUM with Spark, compared with delta-spark.

usage: spark_upkeep.py [--rows N] [--files N] [--cases CASE ..] [--variants VARIANT ..]

The variants run alternately on copies of the same tables, in sessions that stay open
(`spark_sessions`). The first run of each session is small and isn't counted. Without the peer's
environment (`make test-peers`) only Bayou is measured. The variants `driver` and `executors` force
where the work is done; their times justify the defaults of the settings.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import measure
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from spark_sessions import PEER, PEERS, Result, Sessions, grid

import bayou

ROWS, FILES = 8_000_000, 1000
BUDGETS = {"enable": 0.5, "driver": 0.5, "executors": 0.5}
CASES = ("optimize", "zorder", "vacuum", "vacuum-many")
VARIANTS = ("enable", PEER)
_ROWS_A_FILE = 1_000_000


def run(
    console: Console,
    cases: Sequence[str] = CASES,
    *,
    rows: int = ROWS,
    files: int = FILES,
    variants: Sequence[str] = VARIANTS,
    peers: Path = PEERS,
) -> None:
    """Measure the cases, and print a table for each case."""
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
    with (
        tempfile.TemporaryDirectory() as name,
        Sessions(peers) as sessions,
    ):
        folder = Path(name)
        variants = sessions.variants(variants)
        small_files(folder / "warm", 10)
        for variant in variants:
            for statement in {made[case][0] for case in cases}:
                table = folder / f"{variant}-warm-{statement}"
                shutil.copytree(folder / "warm", table)
                sessions[variant].ask("spark_upkeep_work", case=statement, table=str(table))
        for case in cases:
            statement, title, make = made[case]
            make(folder / case)
            seconds: dict[str, list[float]] = {}
            found: dict[str, str] = {}
            for variant in variants:
                table = folder / f"{variant}-{case}"
                shutil.copytree(folder / case, table)
                answer = sessions[variant].ask(
                    "spark_upkeep_work", case=statement, table=str(table)
                )
                seconds[variant] = [answer["seconds"]]
                found[variant] = f"{answer['files']} files"
                shutil.rmtree(table)
            shutil.rmtree(folder / case)
            result = Result(title=title, seconds=seconds, budgets=BUDGETS, notes=found)
            console.print(grid("Upkeep with Spark", [result]))


def small_files(path: Path, count: int) -> None:
    """Create a table of `count` files with 1,000 rows each."""
    for number in range(count):
        bayou.write(str(path), _rows(number * 1000, 1000))


def many_rows(path: Path, rows: int) -> None:
    """Create a table whose files have a million rows each."""
    for start in range(0, rows, _ROWS_A_FILE):
        bayou.write(str(path), _rows(start, min(_ROWS_A_FILE, rows - start)))


def unneeded(path: Path, count: int) -> None:
    """Create a table of one file, and add `count` unreferenced files to its folder."""
    bayou.write(str(path), _rows(0, 10))
    for number in range(count):
        place = path / f"p{number % 100}"
        place.mkdir(exist_ok=True)
        (place / f"part-{number:08}.parquet").touch()


def _rows(start: int, count: int) -> pa.Table:
    numbers = np.random.default_rng(start)
    ids = np.arange(start, start + count)
    few, number = (
        numbers.integers(0, 1000, count, dtype=np.int32),
        numbers.integers(0, 1 << 40, count),
    )
    users: Any = pa.array(numbers.integers(0, 100_000, count))
    return pa.table(
        {
            "id": ids,
            "few": few,
            "number": number,
            "amount": ids * 0.37,
            "who": pc.binary_join_element_wise("user", pc.cast(users, pa.string()), "-"),
        }
    )


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--variants", nargs="+", choices=(*BUDGETS, PEER), default=VARIANTS)
    parser.add_argument("--peers", type=Path, default=PEERS)
    options = parser.parse_args(arguments)
    run(
        Console(width=measure.WIDTH),
        options.cases,
        rows=options.rows,
        files=options.files,
        variants=options.variants,
        peers=options.peers,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
