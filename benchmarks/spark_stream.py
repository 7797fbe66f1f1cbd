"""Measures the first batch of a stream on a table of many files, compared with delta-spark.

usage: PYTHONPATH=tools spark_stream.py [--files N ...] [--way WAY ...] [--runs N]

Before its first batch, a stream sorts the files of its initial snapshot by time and path. Here, the
first batch has one file. Each variant runs in its own process on local[2] with a driver of 1 GB,
and starts the query several times with a new checkpoint; the first time is cold. The time is from
`start` until the batch is complete. Memory is measured as PSS. delta-spark runs in `.venv-peers`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from spark_variant import PEER, session

WAYS = {
    "enable": "Bayou, after enable",
    "source": "Bayou, without enable",
    PEER: "delta-spark",
}
FILES = (10_000, 100_000, 1_000_000)
REPORTED = {100_000: "12 s"}
ROWS = 1000


def measured(way: str, table: str, runs: int) -> None:
    """Run the measured process: print the seconds until the first batch of each run as JSON."""
    spark = session(way, os.environ.get("STREAM_PEER_MEMORY", "1g") if way == PEER else "1g")
    seconds = []
    for _ in range(runs + 1):
        with tempfile.TemporaryDirectory() as checkpoint:
            start = time.perf_counter()
            frame = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(table)
            query = (
                frame.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(processingTime="1 hour")
                .start()
            )
            while not query.recentProgress and query.isActive:
                time.sleep(0.02)
            seconds.append(time.perf_counter() - start)
            assert query.exception() is None, query.exception()
            assert query.recentProgress[0]["numInputRows"] == ROWS
            query.stop()
    print(json.dumps({"seconds": seconds}))


def table_with(files: int) -> Path:
    """Return the path of a table of `files` files, of which only the first to read exists."""
    import million_files
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = million_files.table_with(files, "row-groups")
    (add,) = million_files.wire_adds(np.arange(1, 2))  # the commits remove the one before
    path = table / str(add["path"])
    if not path.exists():
        numbers = pa.array(np.arange(ROWS, 2 * ROWS))
        rows = pa.table({"id": numbers, "user": numbers.cast(pa.string())})
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        data = sink.getvalue().to_pybytes()
        footer = 8 + int.from_bytes(data[-8:-4], "little")
        # As long as the log says: what is between pages and footer means nothing.
        gap = bytes(int(str(add["size"])) - len(data))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data[:-footer] + gap + data[-footer:])
    return table


def run(console: Any, files: Sequence[int], ways: Sequence[str], runs: int) -> None:
    """Measure the variants, and print a table for each number of files."""
    import process_tree
    import spark_sessions
    from rich.table import Table as Grid

    for number in files:
        table = str(table_with(number))
        grid = Grid(title=f"{number:,} files, local[2], driver 1 GB", title_justify="left")
        for heading in ("until the first batch", "cold s", "warm s", "driver", "JVM", "workers MB"):
            grid.add_column(heading, justify="right" if grid.columns else "left")
        for way in ways:
            interpreter = spark_sessions.python(way)
            if interpreter is None:
                console.print(f"{PEER}: there is no {spark_sessions.PEERS} (make test-peers)")
                continue
            command = [interpreter, __file__, "--measure", way, table, str(runs)]
            try:
                watched = process_tree.run_watched(command, spark_sessions.environment(way))
            except RuntimeError as error:
                grid.add_row(WAYS[way], f"failed: {str(error)[-200:]}")
                continue
            seconds = json.loads(watched.lines[-1])["seconds"]
            grid.add_row(
                WAYS[way],
                f"{seconds[0]:.2f}",
                f"{median(seconds[1:]):.2f}",
                *(f"{watched.peak[kind] / 1e6:,.0f}" for kind in ("driver", "JVM", "workers")),
            )
        if number in REPORTED:
            grid.caption = f"others report: {REPORTED[number]}"
        console.print(grid)


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    if arguments[:1] == ["--measure"]:
        way, table, runs = arguments[1:]
        measured(way, table, int(runs))
        return
    import measure
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=list(FILES))
    parser.add_argument("--way", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.files, options.way, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
