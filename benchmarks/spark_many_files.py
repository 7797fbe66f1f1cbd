"""Measures queries on a table of very many files, with a driver of 1 GB, beside delta-spark.

usage: PYTHONPATH=tools spark_many_files.py [--files N ...] [--way WAY ...] [--query QUERY ...]
                                            [--limit SECONDS]

Each query runs in its own process on local[2] with `spark.driver.memory=1g`, cold: the time is that
of the first query of the session, without the start of Spark. A process that takes longer than the
limit is killed. Memory is measured as PSS; the JVM is also the executor. delta-spark runs in
`.venv-peers`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from spark_variant import PEER, session

WAYS = {"enable": "Bayou, after enable", "source": "Bayou, without enable", PEER: "delta-spark"}
FILES = (1_000_000,)
FILTERED = 4_000
"""Number of files that the filter leaves."""

COUNTED = ("enable", PEER)
"""The keys of `WAYS` that count the rows from the log only.

Spark doesn't ask a Python data source for aggregates: it would read the data files, which don't
exist.
"""

LIMIT = 300.0
"""Maximum seconds of a process."""


def filtered(spark: Any, table: str, files: int) -> int:
    """Plan a query with a filter; return the number of its tasks."""
    import million_files

    first, last = files // 2, files // 2 + FILTERED
    rows = million_files.ROWS
    frame = spark.read.format("delta").load(table)
    frame = frame.where(f"id >= {first * rows} AND id < {last * rows}")
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())  # noqa: SLF001


def counted(spark: Any, table: str, _files: int) -> int:
    """Count all rows; the log has their number."""
    return int(spark.read.format("delta").load(table).count())


def streamed(spark: Any, table: str, _files: int) -> int:
    """Run the first batch of a stream; it has one file."""
    with tempfile.TemporaryDirectory() as checkpoint:
        frame = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(table)
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="1 hour")
            .start()
        )
        while not query.recentProgress and query.isActive:
            time.sleep(0.02)
        assert query.exception() is None, query.exception()
        rows = int(query.recentProgress[0]["numInputRows"])
        query.stop()
        return rows


QUERIES: dict[str, Callable[[Any, str, int], int]] = {
    "filter": filtered,
    "count": counted,
    "stream": streamed,
}


def measured(way: str, query: str, table: str, files: int) -> None:
    """Run one query in this process; print its seconds and result as JSON."""
    spark = session(way, "1g")
    spark.range(1000).selectExpr("sum(id)").collect()
    start = time.perf_counter()
    result = QUERIES[query](spark, table, files)
    print(json.dumps({"seconds": time.perf_counter() - start, "result": result}))


def run(
    console: Any,
    files: Sequence[int] = FILES,
    ways: Sequence[str] = tuple(WAYS),
    queries: Sequence[str] = tuple(QUERIES),
    limit: float = LIMIT,
) -> None:
    """Measure the queries, and print a table for each number of files."""
    import measure
    import process_tree
    import spark_sessions
    import spark_stream
    from rich.table import Table as Grid

    for number in files:
        table = str(spark_stream.table_with(number))
        grid = Grid(title=f"{number:,} files, local[2], driver 1 GB", title_justify="left")
        for heading in ("query", "way", "cold s", "result", "driver MB", "JVM MB", "workers MB"):
            grid.add_column(heading, justify="left" if heading in ("query", "way") else "right")
        for query in queries:
            cold: dict[str, float] = {}
            for way in ways:
                if query == "count" and way not in COUNTED:
                    continue
                interpreter = spark_sessions.python(way)
                if interpreter is None:
                    console.print(f"{PEER}: there is no {spark_sessions.PEERS} (make test-peers)")
                    continue
                command = [interpreter, __file__, "--measure", way, query, table, str(number)]
                environment = spark_sessions.environment(way)
                try:
                    watched = process_tree.run_watched(command, environment, limit)
                except TimeoutError:
                    grid.add_row(query, WAYS[way], f"> {limit:.0f}")
                    continue
                except RuntimeError as error:
                    grid.add_row(query, WAYS[way], "failed", _reason(str(error)))
                    continue
                answer = json.loads(watched.lines[-1])
                peaks = (f"{watched.peak[k] / 1e6:,.0f}" for k in ("driver", "JVM", "workers"))
                seconds, result = f"{answer['seconds']:.1f}", f"{answer['result']:,}"
                grid.add_row(query, WAYS[way], seconds, result, *peaks)
                cold[way] = answer["seconds"]
            if PEER in cold:
                for way, taken in cold.items():
                    case = f"{number:,} files, {query}, cold"
                    measure.record(case, way, "time", taken / cold[PEER])
        console.print(grid)


def _reason(text: str) -> str:
    return "out of memory" if "OutOfMemory" in text or "heap space" in text else text[-200:]


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one query in this process."""
    if arguments[:1] == ["--measure"]:
        way, query, table, files = arguments[1:]
        measured(way, query, table, int(files))
        return
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--files", type=int, nargs="*", default=FILES)
    parser.add_argument("--way", nargs="*", choices=WAYS, default=tuple(WAYS))
    parser.add_argument("--query", nargs="*", choices=QUERIES, default=tuple(QUERIES))
    parser.add_argument("--limit", type=float, default=LIMIT)
    asked = parser.parse_args(arguments)
    from rich.console import Console

    run(Console(width=120), asked.files, asked.way, asked.query, asked.limit)


if __name__ == "__main__":
    main(sys.argv[1:])
