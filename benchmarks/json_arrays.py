"""Measures queries on a pipeline's table, compared with queries on files with JSON arrays.

usage: json_arrays.py [--records N] [--runs N] [--plot FILE.svg]

The same records are in JSON files with arrays of at most 1,000 records (`batch_*.json`, in a folder
per day), and in a table that the pipeline's code wrote and optimized, partitioned by day. Spark
runs the same queries on both in one warm session: with its JSON reader and a given schema, with the
table through Bayou's data source alone, and with the table after `bayou.enable`. The printed sizes
are those of the data files of the latest version.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median

import measure
import plots
from kafka_records import JSON_SCHEMA, values
from kafka_spark import SPARK_FIELDS
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table as Grid

import bayou.spark
from bayou.ingest import TopicTable, load_configuration
from bayou.spark import start_session

RECORDS = 5_000_000
A_FILE = 1_000
A_WRITE = 250_000
ARRAYS, SOURCE, ENABLED = "JSON arrays", "data source", "after enable"
TABLE = (SOURCE, ENABLED)
WARM = 4
"""Runs that aren't counted: until then the JVM still compiles."""
QUERIES = {
    "count of all": "SELECT count(*) FROM rows",
    "one day by country": "SELECT country, count(*), sum(amount) FROM rows "
    "WHERE day = '07' GROUP BY country",
    "one user": "SELECT * FROM rows WHERE user_id = 123",
    "by type": "SELECT event_type, avg(amount), max(event_time) FROM rows GROUP BY event_type",
}
CONFIGURATION = """\
connector:
  topics:
    events:
      kafka-topic: events
      schema-file: schema.json
      event-time: event_time
      destination: {table-path: table, partition-columns: [day]}
"""


def run(console: Console, runs: int, records: int = RECORDS, plot: Path | None = None) -> None:
    """Write files and table, measure the queries, and print a table; `plot` is an SVG file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, records)
        spark = start_session("bench", {}, "local[2]", time_zone="UTC")
        schema = f"{SPARK_FIELDS}, day string"
        arrays = spark.read.schema(schema).option("multiLine", "true").json(str(folder / "arrays"))
        measured = {ARRAYS: _seconds(spark, arrays, runs)}
        for way in TABLE:
            if way == ENABLED:
                bayou.spark.enable(spark)
            rows = spark.read.format("delta").load(str(folder / "table"))
            measured[way] = _seconds(spark, rows, runs)
        spark.stop()
        title = f"Queries on {records:,} records"
        console.print(_grid(title, measured))
        arrays_bytes = sum(file.stat().st_size for file in (folder / "arrays").rglob("*.json"))
        table_bytes = bayou.table(folder / "table").detail().size_in_bytes
        console.print(
            f"data files: arrays {arrays_bytes / 1e6:,.1f} MB, table {table_bytes / 1e6:,.1f} MB, "
            f"{1 - table_bytes / arrays_bytes:.0%} less (target 50%)"
        )
        if plot is not None:
            plots.bars(plot, title, list(QUERIES), measured, "seconds")


def _grid(title: str, measured: dict[str, list[float]]) -> Grid:
    grid = Grid(title=f"{title}, s", title_justify="left")
    grid.add_column("")
    for heading in (ARRAYS, *(part for way in TABLE for part in (way, "")), "target"):
        grid.add_column(heading, justify="right")
    for number, query in enumerate(QUERIES):
        arrays = measured[ARRAYS][number]
        cells = [f"{arrays:.2f}"]
        for way in TABLE:
            table = measured[way][number]
            cells += [f"{table:.2f}", f"{arrays / table:.1f}x"]
        grid.add_row(query, *cells, "10x")
    return grid


def _write(folder: Path, count: int) -> None:
    (folder / "pipeline.yaml").write_text(CONFIGURATION)
    (folder / "schema.json").write_text(JSON_SCHEMA)
    table = TopicTable(load_configuration(folder / "pipeline.yaml", environment={}), "events")
    left, written = values(count), 0
    while taken := list(islice(left, A_WRITE)):
        records = [json.loads(value) for value in taken]
        table.write(records)
        _write_arrays(folder / "arrays", records, written)
        written += 1
    table.optimize()


def _write_arrays(folder: Path, records: list[dict[str, object]], number: int) -> None:
    by_day: dict[str, list[object]] = {}
    for record in records:
        by_day.setdefault(str(record["event_time"])[8:10], []).append(record)
    for day, mine in by_day.items():
        place = folder / f"day={day}"
        place.mkdir(parents=True, exist_ok=True)
        for first in range(0, len(mine), A_FILE):
            file = place / f"batch_{number:04}_{first // A_FILE:04}.json"
            file.write_text(json.dumps(mine[first : first + A_FILE]))


def _seconds(spark: SparkSession, rows: DataFrame, runs: int) -> list[float]:
    """Return the median time of each query."""
    rows.createOrReplaceTempView("rows")

    def once(statement: str) -> float:
        began = time.perf_counter()
        spark.sql(statement).collect()
        return time.perf_counter() - began

    for _ in range(WARM):
        for statement in QUERIES.values():
            once(statement)
    return [median(once(statement) for _ in range(runs)) for statement in QUERIES.values()]


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.runs, options.records, options.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
