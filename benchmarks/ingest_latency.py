"""Measures a pipeline's latency for few records, compared with Spark's connector + delta-spark.

usage: PYTHONPATH=tools ingest_latency.py [--runs N]

Rows of the table: the time from the start of the process, for Bayou of `bayou run --once`, to the
commit of a first micro-batch of 1,000 records; the time for the next 1,000 records in the same
session, including the start of the query; the time of a trigger of a running query without new
records; and the peak memory of the whole run. The last two rows don't use Spark: `bayou run --once`
without new records, and a commit of one row, compared with `deltalake`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import measure
import pyarrow as pa
from deltalake import write_deltalake
from kafka_records import PARTITIONS, produce
from kafka_to_delta import OURS, PEER, PROGRAMS
from kafka_to_delta_bayou import write_configuration
from process_tree import run_watched
from rich.console import Console
from rich.table import Table as Grid

import bayou
from servers import KafkaServer

RECORDS = 1_000
IDLE_SECONDS = 5
COMMITS = 50
FIGURES = (
    "start of the process to first commit, s",
    "1,000 records in a warm session, s",
    "a look without new records, ms",
    "peak memory, MB",
)


def run(console: Console, runs: int) -> None:
    """Measure both programs, and print a table."""
    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder) / "broker") as broker:
        for topic in ("first", "second"):
            broker.create_topic(topic, PARTITIONS)
            produce(broker.bootstrap_servers, topic, RECORDS)
        measured = {name: _medians(name, broker.bootstrap_servers, runs) for name in PROGRAMS}
        starts = [
            _bayou_run(broker.bootstrap_servers, Path(folder, f"run-{n}")) for n in range(runs)
        ]
        measured[OURS][0] = median(start for start, _ in starts)
        nothing_new = median(again for _, again in starts)
    grid = Grid(title="What it takes for few records", title_justify="left")
    grid.add_column("")
    for heading in ("bayou", "peer", "bayou / peer"):
        grid.add_column(heading, justify="right")
    for figure, ours, peer in zip(FIGURES, measured[OURS], measured[PEER], strict=True):
        measure.record(figure, OURS, "value", ours)
        grid.add_row(figure, f"{ours:,.1f}", f"{peer:,.1f}", f"{ours / peer:.2f}x")
    peer_start = measured[PEER][0]
    grid.add_row(
        "`bayou run --once`, nothing new, s (peer: start to first commit)",
        f"{nothing_new:.1f}",
        f"{peer_start:.1f}",
        f"{nothing_new / peer_start:.2f}x",
    )
    ours, peer = _commit(_bayou_append), _commit(_deltalake_append)
    grid.add_row(
        "append one row, no Spark, ms (peer: deltalake)",
        f"{ours:.1f}",
        f"{peer:.1f}",
        f"{ours / peer:.2f}x",
    )
    console.print(grid)


def _medians(name: str, servers: str, runs: int) -> list[float]:
    return [
        median(values) for values in zip(*(_once(name, servers) for _ in range(runs)), strict=True)
    ]


def _once(name: str, servers: str) -> tuple[float, ...]:
    python, script = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [python, script, servers, folder, str(IDLE_SECONDS)]
        done = run_watched(
            [*command, f"first:{RECORDS}", f"second:{RECORDS}"],
            {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
        )
    cold, warm, idle = (json.loads(line) for line in done.lines[-3:])
    return (
        cold["ended"] - done.began,
        warm["seconds"],
        idle["seconds"] * 1000,
        done.peak["all"] / 1e6,
    )


def _bayou_run(servers: str, folder: Path) -> tuple[float, float]:
    """Execute `bayou run --once` twice on a topic.

    Returns:
        Seconds until the commit of the first run, and of the second run, which has no new records.
    """
    folder.mkdir()
    file = write_configuration(servers, "first", folder, RECORDS)
    command = [sys.executable, "-m", "bayou.cli", "run", str(file), "--once"]
    first = run_watched(command)
    (commit,) = (folder / f"first-{RECORDS}" / "table" / "_delta_log").glob("*.json")
    return commit.stat().st_mtime - first.began, run_watched(command).seconds


def _commit(append: Callable[[str, pa.Table], object]) -> float:
    """Return the median time in ms of a commit that appends one row to a table."""
    row = pa.table({"id": [1], "name": ["one"]})
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(COMMITS):
            began = time.perf_counter()
            append(f"{folder}/table", row)
            seconds.append(time.perf_counter() - began)
    return median(seconds) * 1000


def _bayou_append(path: str, rows: pa.Table) -> None:
    bayou.write(path, rows, mode="append")


def _deltalake_append(path: str, rows: pa.Table) -> None:
    write_deltalake(path, rows, mode="append")


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
