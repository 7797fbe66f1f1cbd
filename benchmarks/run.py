"""Runs all benchmarks one after another, or some by name.

usage: PYTHONPATH=tools run.py [PART ...] [--runs N]

The sizes and cases are limited so that all parts take at most 45 minutes. The programs themselves
have the rest: larger tables, more cases and more runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import goals
import ingest
import ingest_latency
import json_arrays
import kafka_to_delta
import measure
import optimize
import plan_million_files
import read_changes
import scale
import scan_rows
import spark_many_files
import spark_replay
import spark_scan
import spark_sessions
import spark_tables
import spark_upkeep
import spark_write
import start_time
import steady_latency
import tables
import tpc_suite
import tpcds
import tpch
import uniform
import write_rows
from rich.console import Console
from spark_variant import PEER

RESULTS = goals.FIGURES.with_name("results.txt")
"""What a run of all parts has printed."""

FILES, FEWER_FILES = 1_000_000, 100_000
COMMITS = 2_000  # without a checkpoint; each is a file on the disk
SCANS = ("all", "one")
INGESTS = ("bayou, one batch", "Spark from_json, from the topic")
FLIGHTS = 50_000
PLANS = ("1000000-point-cold", "1000000-every-file-warm")
"""Measured once, in sessions of their own: the second one fills delta-spark's heap."""

ROW_OPERATIONS = ("merge-half", "update")
TOPICS, WRITERS = (1, 100), (8,)
WRITES, WRITES_ONCE = ("append", "delete"), ("merge", "vacuum")
KAFKA = ((10_000, 50_000), (100_000, 300_000), (1_000_000, 1_000_000))
UPSERTS = ((100_000, 200_000), (1_000_000, 200_000), (1_000_000, 1_000_000))
"""Batch sizes, each with a number of records; the peer takes minutes for many small batches."""

COLD_RECORDS = 20_000


PARTS: dict[str, Callable[[Console, int], None]] = {
    "tables": lambda _, __: tables.create(),
    "plan": lambda console, runs: plan_million_files.run(console, FILES, runs, ["one-row-group"]),
    "commits": lambda console, _: plan_million_files.run(console, COMMITS, 1, ["commits"]),
    "replay": lambda console, _: spark_replay.run(console, (FEWER_FILES,), ("driver", "slices"), 1),
    "many-files": lambda console, _: spark_many_files.run(
        console, ways=("enable", PEER), queries=("stream",)
    ),
    "scan": lambda console, runs: scan_rows.run(
        console, scan_rows.ROWS, scan_rows.SMALL_FILES, runs, ("all",)
    ),
    "query": lambda console, _: scan_rows.run(
        console, scan_rows.ROWS, scan_rows.SMALL_FILES, 1, ("grouped",)
    ),
    "changes": lambda console, runs: read_changes.run(console, read_changes.ROWS, runs),
    "start": lambda console, runs: start_time.run(console, 2 * runs),
    "write": lambda console, runs: write_rows.run(console, 1, runs, WRITES),
    "write-once": lambda console, _: write_rows.run(console, 1, 1, WRITES_ONCE),
    "spark-plan": lambda console, _: spark_scan.run(console, 1, PLANS),
    "spark": lambda console, runs: spark_scan.run(console, runs, SCANS),
    "spark-small": lambda console, _: spark_scan.run(console, 1, ("small",)),
    "spark-tables": lambda console, _: spark_tables.run(console, ROW_OPERATIONS, 1),
    "spark-upkeep": lambda console, _: spark_upkeep.run(console, ("zorder",)),
    "spark-write": lambda console, _: spark_write.run(console, spark_write.ROWS, 1),
    "tpcds": lambda console, _: tpc_suite.run(tpcds.SUITE, console, 1),
    "tpch": lambda console, _: tpc_suite.run(tpch.SUITE, console, 1),
    "uniform": lambda console, runs: uniform.run(console, uniform.FILES[:-1], runs),
    "optimize": lambda console, _: optimize.run(console, 0.25, 1),
    "ingest": lambda console, _: ingest.run(console, 1, INGESTS, FLIGHTS),
    "kafka": lambda console, _: kafka_to_delta.run(console, 1, cases=KAFKA, first=COLD_RECORDS),
    "upsert": lambda console, _: kafka_to_delta.run(
        console, 1, cases=UPSERTS, first=COLD_RECORDS, upsert=True
    ),
    "steady": lambda console, _: steady_latency.run(console, 5_000, 25, 15),
    "latency": lambda console, _: ingest_latency.run(console, 1),
    "scale": lambda console, _: scale.run(
        console, ("topics", "writers"), topics=TOPICS, writers=WRITERS
    ),
    "json-arrays": lambda console, _: json_arrays.run(
        console, 1, records=50_000, queries=("by type",)
    ),
}

SHARED = {"spark", "spark-small", "spark-tables", "spark-upkeep", "spark-write", "tpcds", "tpch"}
"""These parts share their Spark sessions if they run one after another."""


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; none: all of them")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.part if name not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    console = Console(width=measure.WIDTH, record=True)
    failed = []
    began = time.perf_counter()
    for shared, names in itertools.groupby(options.part or PARTS, SHARED.__contains__):
        with spark_sessions.shared() if shared else nullcontext():
            failed += [
                name for name in names if not _run(name, console, options.runs, options.part)
            ]
    if not options.part:
        console.print(goals.grid(measure.figures))
    console.print(f"all: {(time.perf_counter() - began) / 60:.0f} minutes")
    _store_results(console, options.part)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _run(name: str, console: Console, runs: int, parts: Sequence[str]) -> bool:
    """Run a part, and store what has been measured so far; return whether the part succeeded."""
    start = time.perf_counter()
    succeeded = True
    try:
        PARTS[name](console, runs)
    except (Exception, SystemExit):  # noqa: BLE001 - the parts do not depend on each other
        console.print_exception(max_frames=5)
        succeeded = False
    if not parts:
        goals.FIGURES.parent.mkdir(parents=True, exist_ok=True)
        goals.FIGURES.write_text(json.dumps(measure.figures, indent=1), encoding="utf-8")
    console.print(f"{name}: {time.perf_counter() - start:.0f} s altogether\n")
    _store_results(console, parts)
    return succeeded


def _store_results(console: Console, parts: Sequence[str]) -> None:
    """Store what a run has printed so far; a run of some parts isn't stored."""
    if not parts:
        RESULTS.write_text(console.export_text(clear=False), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
