"""Every benchmark, one after another.

usage: PYTHONPATH=tools run.py [--runs N]

Bounded so that all of it takes less than half an hour; larger tables by the single programs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import ingest
import ingest_latency
import kafka_to_delta
import measure
import plan_million_files
import scan_rows
from rich.console import Console

FILES = 1_000_000
CHECKPOINTS = ("row-groups", "one-row-group", "parts", "sidecars")
COMMITS = 20_000  # without a checkpoint; each is a file on the disk


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    plan_million_files.run(console, FILES, options.runs, CHECKPOINTS)
    plan_million_files.run(console, COMMITS, 1, ["commits"])
    scan_rows.run(console, scan_rows.ROWS, scan_rows.SMALL_FILES, options.runs)
    ingest.run(console, options.runs)
    kafka_to_delta.run(console, 1)  # a run takes minutes
    ingest_latency.run(console, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
