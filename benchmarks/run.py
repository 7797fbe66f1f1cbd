"""Runs all benchmarks one after another, or some by name.

usage: PYTHONPATH=tools run.py [PART ...] [--runs N]

The sizes are limited; run the benchmarks' own programs for larger tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

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
import spark_stream
import spark_tables
import spark_upkeep
import spark_write
import start_time
import steady_latency
import tpc_suite
import tpcds
import tpch
import uniform
import write_rows
from rich.console import Console

FILES = 1_000_000
CHECKPOINTS = ("row-groups", "one-row-group", "parts", "sidecars")
COMMITS = 20_000  # without a checkpoint; each is a file on the disk

PARTS: dict[str, Callable[[Console, int], None]] = {
    "plan": lambda console, runs: plan_million_files.run(console, FILES, runs, CHECKPOINTS),
    "commits": lambda console, _: plan_million_files.run(console, COMMITS, 1, ["commits"]),
    "replay": lambda console, runs: spark_replay.run(
        console, spark_replay.FILES, tuple(spark_replay.WAYS), runs
    ),
    "stream": lambda console, runs: spark_stream.run(
        console, (100_000,), tuple(spark_stream.WAYS), runs
    ),
    "many-files": lambda console, _: spark_many_files.run(console),
    "scan": lambda console, runs: scan_rows.run(
        console, scan_rows.ROWS, scan_rows.SMALL_FILES, runs, ["reads"]
    ),
    "query": lambda console, runs: scan_rows.run(
        console, scan_rows.ROWS, scan_rows.SMALL_FILES, runs, ["queries"]
    ),
    "changes": lambda console, runs: read_changes.run(console, read_changes.ROWS, runs),
    "start": lambda console, runs: start_time.run(console, 5 * runs),
    "write": lambda console, _: write_rows.run(console, 1, 1),  # tens of seconds each
    "spark": spark_scan.run,
    "tpch": lambda console, _: tpc_suite.run(tpch.SUITE, console, 1),
    "tpcds": lambda console, _: tpc_suite.run(tpcds.SUITE, console, 1),
    "spark-tables": lambda console, _: spark_tables.run(console, tuple(spark_tables.CASES), 1),
    "spark-upkeep": lambda console, _: spark_upkeep.run(console),
    "spark-write": lambda console, runs: spark_write.run(console, spark_write.ROWS, runs),
    "uniform": lambda console, runs: uniform.run(console, uniform.FILES, runs),
    "optimize": lambda console, _: optimize.run(console, 1, 1),
    "ingest": ingest.run,
    "kafka": lambda console, _: kafka_to_delta.run(console, 1),  # a run takes minutes
    "json-arrays": json_arrays.run,
    "steady": lambda console, _: steady_latency.run(console, 5_000, 60, 20),
    "upsert": lambda console, _: kafka_to_delta.run(
        console, 1, batch_sizes=(100_000, 1_000_000), upsert=True
    ),
    "latency": ingest_latency.run,
    "scale": lambda console, _: scale.run(
        console, files=scale.FILES[:-1], topics=scale.TOPICS[:-1]
    ),
}


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; none: all of them")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.part if name not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    console = Console(width=measure.WIDTH)
    failed = []
    for name in options.part or PARTS:
        start = time.perf_counter()
        try:
            PARTS[name](console, options.runs)
        except Exception:  # noqa: BLE001 - the parts do not depend on each other
            console.print_exception(max_frames=5)
            failed.append(name)
        console.print(f"{name}: {time.perf_counter() - start:.0f} s altogether\n")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
