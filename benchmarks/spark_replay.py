"""Measures log replay with Spark: in the driver, on executors, with a window, and delta-spark.

usage: PYTHONPATH=tools spark_replay.py [--files N ...] [--way WAY ...] [--runs N]

Each variant runs in its own process on local[2] with `spark.driver.memory=1g`, and plans the same
table several times; the first time is cold. The memory of the Python driver, the JVM (which is also
the executor) and the Python workers is measured as PSS. delta-spark runs in `.venv-peers`. The
captions have the times that others report for their clusters.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from spark_variant import PEER, session

WAYS = {
    "driver": "this process, as it comes",
    "slices": "executors, as it comes",
    "driver, sorted": "this process, by time and path",
    "slices, sorted": "executors, by time and path",
    "window": "executors, repartition and window",
    "delta-spark": "delta-spark: number of files and size",
}
MEMORY = "1g"
REPORTED = {
    10_000: "0.8 s a query",
    100_000: "2 s a query, 12 s to a stream's first batch",
    1_000_000: "8 s a query, of which 2.5 s replay; driver 500 MB",
}
FILES = (10_000, 100_000, 1_000_000)
LARGEST_FOR_WINDOW = 1_000_000
NO_LIMIT = str(2**62)  # bytes


def measured(way: str, table: str, runs: int) -> None:
    """Run the measured process: print the seconds of each run and the file count as JSON."""
    plan = _delta_spark(table) if way == PEER else _bayou(way, table)
    seconds, counts = [], set()
    for _ in range(runs + 1):
        start = time.perf_counter()
        counts.add(plan())
        seconds.append(time.perf_counter() - start)
    assert len(counts) == 1, counts
    print(json.dumps({"seconds": seconds, "result": counts.pop()}))


def _bayou(way: str, table: str) -> Callable[[], int]:
    from bayou.engines.arrow import ArrowEngine
    from bayou.kernel import Table
    from bayou.spark import DistributedScanBuilder

    conf = {
        "spark.bayou.replay.windowBytes": "0" if way == "window" else NO_LIMIT,
        "spark.bayou.replay.localBytes": NO_LIMIT if way.startswith("driver") else "0",
    }
    spark = session("enable", MEMORY, conf)
    engine = ArrowEngine()

    def count() -> int:
        snapshot = Table.for_path(engine, table).latest_snapshot(engine)
        builder = DistributedScanBuilder(spark, snapshot)
        if way.endswith("sorted"):
            builder = builder.with_sort_key()
        with builder.build().scan_files(engine) as batches:
            return sum(batch.num_selected for batch in batches)

    return count


def _delta_spark(table: str) -> Callable[[], int]:
    spark = session(PEER, os.environ.get("REPLAY_PEER_MEMORY", MEMORY))

    def count() -> int:
        jvm: Any = spark._jvm  # noqa: SLF001  # its cache can be emptied nowhere else
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        row = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").first()
        return int(row.numFiles)

    return count


def run(console: Any, files: Sequence[int], ways: Sequence[str], runs: int) -> None:
    """Measure the variants, and print a table for each number of files."""
    import million_files
    import process_tree
    import spark_sessions
    from rich.table import Table as Grid

    for number in files:
        table = str(million_files.table_with(number, "row-groups"))
        grid = Grid(title=f"{number:,} files, local[2], driver 1 GB", title_justify="left")
        for heading in ("", "cold s", "warm s", "driver MB", "JVM MB", "workers MB"):
            grid.add_column(heading, justify="left" if not heading else "right")
        for way in ways:
            interpreter = spark_sessions.python(way)
            if interpreter is None:
                console.print(f"{PEER}: there is no {spark_sessions.PEERS} (make test-peers)")
                continue
            if way == "window" and number > LARGEST_FOR_WINDOW:
                continue
            command = [interpreter, __file__, "--measure", way, table, str(runs)]
            try:
                watched = process_tree.run_watched(command, spark_sessions.environment(way))
            except RuntimeError as error:
                grid.add_row(WAYS[way], f"failed: {_reason(str(error))}")
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


def _reason(text: str) -> str:
    return "out of memory" if "OutOfMemory" in text or "heap space" in text else text[-200:]


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
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.files, options.way, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
