"""Compares the queries of a TPC benchmark with delta-spark, on the same tables.

Two sessions on `local[2]` stay open (`spark_sessions`) and run each query alternately. A run opens
the tables again. The results of all runs must be equal. Besides the time, the CPU time of a
session's processes is measured, because other work on the machine changes it less. Without the
peer's environment (`make test-peers`) only Bayou is measured.
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
from collections.abc import Callable, Mapping, Sequence
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

import bayou

__all__ = ["Suite", "main", "run"]

BAYOU = "enable"
GENERATOR = "tpcgen-cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tables and queries of a benchmark.

    Attributes:
        name: the benchmark's name for the data generator.
        queries: returns the queries by name for tables of a scale factor.
        scale: the scale factor by default.
        warm: whether the sessions are warm before the counted runs. In sessions that other parts of
            `make bench` have used, each table is counted first. In new sessions, each query runs
            once on tables of a tenth of the scale factor.
        target, target_each: maximum multiple of the peer's time, for all queries together and for
            each query.
    """

    name: str
    title: str
    tables: Sequence[str]
    queries: Callable[[float], Mapping[str, str]]
    scale: float
    warm: bool
    target: float
    target_each: float


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the counted runs of one query in one session, and their CPU seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def tables_folder(suite: Suite, scale: float) -> Path:
    """Return the folder of the tables for a scale factor; create the tables that don't exist.

    Raises:
        SystemExit: the data generator isn't installed.
    """
    folder = CACHE / f"{suite.name}-{scale:g}"
    missing = [name for name in suite.tables if not bayou.table(str(folder / name)).exists()]
    if not missing:
        return folder
    places = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", "")))
    program = shutil.which(GENERATOR, path=places)
    if program is None:
        sys.exit(
            f"{GENERATOR} isn't installed. Install Bayou's extra 'bench', or run 'make bench'."
        )
    with tempfile.TemporaryDirectory() as generated:
        options = ["-q", "-s", f"{scale:g}", "-T", ",".join(missing), "-o", generated]
        subprocess.run([program, suite.name, "parquet", *options], check=True)
        for name in missing:
            with pq.ParquetFile(Path(generated) / f"{name}.parquet") as file:
                bayou.write(str(folder / name), file.iter_batches(), mode="error")
    return folder


def run(  # noqa: PLR0917 - as the other benchmarks
    suite: Suite,
    console: Console,
    runs: int,
    scale: float | None = None,
    only: Sequence[str] = (),
    peers: Path = PEERS,
    plot: Path | None = None,
) -> None:
    """Measure the queries, and print a table; `plot` is an SVG file."""
    scale = suite.scale if scale is None else scale
    folder = str(tables_folder(suite, scale))
    chosen = {n: sql for n, sql in suite.queries(scale).items() if not only or n in only}
    small = str(tables_folder(suite, scale / 10)) if suite.warm else ""
    warm_up = suite.queries(scale / 10)
    measured: dict[str, dict[str, Times]] = {}
    with Sessions(peers) as sessions:
        variants = sessions.variants((PEER, BAYOU))
        are_used = all(variant in sessions for variant in variants)
        if suite.warm and are_used:  # the first read of a table takes longest
            for table in suite.tables:
                for variant in variants:
                    rows = f"SELECT count(*) FROM {table}"  # noqa: S608 - a name of ours
                    sessions[variant].ask("tpc_work", sql=rows, tables=[table], folder=folder)
        for name, sql in chosen.items():
            times = measured[name] = {variant: Times() for variant in variants}
            results = set()
            tables = [table for table in suite.tables if re.search(rf"\b{table}\b", sql)]
            for variant in variants if suite.warm and not are_used else ():
                sessions[variant].ask("tpc_work", sql=warm_up[name], tables=tables, folder=small)
            for _ in range(runs):
                for variant in variants:
                    session = sessions[variant]
                    cpu = cpu_seconds(session.pid)
                    answer = session.ask("tpc_work", sql=sql, tables=tables, folder=folder)
                    times[variant].wall.append(answer["seconds"])
                    times[variant].cpu.append(cpu_seconds(session.pid) - cpu)
                    results.add((answer["rows"], answer["digest"]))
            assert len(results) == 1, f"{name}: the results differ: {results}"
            medians = (
                f"{variant} {median(of.wall):.2f} s, CPU {median(of.cpu):.2f} s"
                for variant, of in times.items()
            )
            console.print(f"{name}: {'; '.join(medians)}")
    title = f"{suite.title}, scale factor {scale:g}"
    console.print(_grid(suite, title, measured))
    _record(title, measured)
    if plot is not None:
        seconds = {
            label: [median(times[variant].wall) for times in measured.values()]
            for variant, label in ((BAYOU, "Bayou"), (PEER, PEER))
            if variant in variants
        }
        plots.bars(plot, title, list(measured), seconds, "seconds")


def _record(title: str, measured: Mapping[str, Mapping[str, Times]]) -> None:
    pairs = [
        (median(times[BAYOU].wall), median(times[PEER].wall))
        for times in measured.values()
        if PEER in times
    ]
    if pairs:
        ours, peer = (sum(seconds) for seconds in zip(*pairs, strict=True))
        measure.record(title, "all queries", "time", ours / peer)
        measure.record(title, "slowest query", "time", max(ours / peer for ours, peer in pairs))


def _grid(suite: Suite, title: str, measured: Mapping[str, Mapping[str, Times]]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in (PEER, "Bayou", "", "target", f"CPU: {PEER}", "Bayou", ""):
        grid.add_column(heading, justify="right")
    totals: dict[str, float] = {}
    for name, times in measured.items():
        medians = {
            f"{kind} {variant}": median(getattr(of_variant, kind))
            for variant, of_variant in times.items()
            for kind in ("wall", "cpu")
        }
        totals = {key: totals.get(key, 0.0) + seconds for key, seconds in medians.items()}
        grid.add_row(name, *_cells(medians, suite.target_each))
    grid.add_section()
    grid.add_row("all", *_cells(totals, suite.target))
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


def main(suite: Suite, description: str, arguments: Sequence[str]) -> None:
    """Parse the arguments of a suite's program and run it; `description` is its docstring."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=suite.scale)
    parser.add_argument("--runs", type=int, default=3 if suite.warm else 1)
    parser.add_argument("--only", nargs="*", default=(), choices=list(suite.queries(suite.scale)))
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    run(suite, console, options.runs, options.scale, options.only, options.peers, options.plot)
