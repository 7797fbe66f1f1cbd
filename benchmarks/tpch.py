"""Measures the queries of TPC-H with Spark after `bayou.spark.enable`, compared with delta-spark.

usage: tpch.py [--scale N] [--runs N] [--only QUERY ...] [--peers ENVIRONMENT] [--plot FILE]

Both libraries read the same tables. Two sessions on `local[2]` stay open (`spark_sessions`) and run
each query alternately; the first run of a query warms up and isn't counted. A run opens the tables
again. The results of all runs must be equal. Besides the time, the CPU time of a session's
processes is measured, which other work on the machine changes less. Without the peer's environment
(`make test-peers`) only Bayou is measured.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import measure
import plots
import pyarrow.parquet as pq
from million_files import CACHE
from process_tree import cpu_seconds
from rich.console import Console
from rich.table import Table as Grid
from spark_sessions import PEER, PEERS, Sessions
from tpch_queries import TABLES, queries

import bayou

SCALE = 1.0
BAYOU = "enable"
TARGET, TARGET_EACH = 0.75, 1.05
"""Maximum multiples of the peer's time: for all queries together, and for each query."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the counted runs of one query in one session, and their CPU seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def tables_folder(scale: float) -> Path:
    """Return the folder of the tables for a scale factor; create the tables that don't exist.

    Raises:
        SystemExit: `tpchgen-cli` isn't installed.
    """
    folder = CACHE / f"tpch-{scale:g}"
    missing = [name for name in TABLES if not bayou.table(str(folder / name)).exists()]
    if not missing:
        return folder
    places = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", "")))
    program = shutil.which("tpchgen-cli", path=places)
    if program is None:
        sys.exit("tpchgen-cli isn't installed. Install Bayou's extra 'bench', or run 'make bench'.")
    with tempfile.TemporaryDirectory() as generated:
        wanted = ",".join(missing)
        subprocess.run(
            [program, "parquet", "-q", "-s", f"{scale:g}", "-T", wanted, "-o", generated],
            check=True,
        )
        for name in missing:
            with pq.ParquetFile(Path(generated) / f"{name}.parquet") as file:
                bayou.write(str(folder / name), file.iter_batches(), mode="error")
    return folder


def run(  # noqa: PLR0917 - as the other benchmarks
    console: Console,
    runs: int,
    scale: float = SCALE,
    only: Sequence[str] = (),
    peers: Path = PEERS,
    plot: Path | None = None,
) -> None:
    """Measure the queries, and print a table; `plot` is an SVG file."""
    folder = str(tables_folder(scale))
    chosen = {name: sql for name, sql in queries(scale).items() if not only or name in only}
    measured: dict[str, dict[str, Times]] = {}
    with Sessions("tpch_session.py", peers) as sessions:
        variants = sessions.variants((PEER, BAYOU))
        for name, sql in chosen.items():
            times = measured[name] = {variant: Times() for variant in variants}
            results = set()
            tables = [table for table in TABLES if re.search(rf"\b{table}\b", sql)]
            for number in range(runs + 1):
                for variant in variants:
                    session = sessions[variant]
                    cpu = cpu_seconds(session.pid)
                    answer = session.ask(sql=sql, tables=tables, folder=folder)
                    if number:
                        times[variant].wall.append(answer["seconds"])
                        times[variant].cpu.append(cpu_seconds(session.pid) - cpu)
                    results.add((answer["rows"], answer["digest"]))
            assert len(results) == 1, f"{name}: the results differ: {results}"
    console.print(_grid(f"TPC-H, scale factor {scale:g}", measured))
    if plot is not None:
        seconds = {
            label: [median(times[variant].wall) for times in measured.values()]
            for variant, label in ((BAYOU, "Bayou"), (PEER, PEER))
            if variant in variants
        }
        plots.bars(plot, f"TPC-H, scale factor {scale:g}", list(measured), seconds, "seconds")


def _grid(title: str, measured: Mapping[str, Mapping[str, Times]]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in (PEER, "Bayou", "", "target", f"CPU: {PEER}", "Bayou", ""):
        grid.add_column(heading, justify="right")
    totals = dict.fromkeys((f"{kind} {v}" for kind in ("wall", "cpu") for v in (PEER, BAYOU)), 0.0)
    for name, times in measured.items():
        medians = {
            f"{kind} {variant}": median(getattr(of_variant, kind))
            for variant, of_variant in times.items()
            for kind in ("wall", "cpu")
        }
        totals = {key: total + medians.get(key, 0.0) for key, total in totals.items()}
        grid.add_row(name, *_cells(medians, TARGET_EACH))
    grid.add_section()
    grid.add_row("all", *_cells(totals, TARGET))
    return grid


def _cells(seconds: Mapping[str, float], target: float) -> list[str]:
    cells = []
    for kind in ("wall", "cpu"):
        ours, theirs = seconds[f"{kind} {BAYOU}"], seconds.get(f"{kind} {PEER}")
        cells += [f"{theirs:.2f} s" if theirs else "", f"{ours:.2f} s"]
        cells.append(f"{ours / theirs:.2f}x" if theirs else "")
        if kind == "wall":
            cells.append(f"{target:.2f}x")
    return cells


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--scale", type=float, default=SCALE)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=(), choices=list(queries(SCALE)))
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    run(console, options.runs, options.scale, options.only, options.peers, options.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
