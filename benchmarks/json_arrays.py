"""Queries on a pipeline's table beside the JSON arrays that such pipelines leave otherwise.

usage: json_arrays.py [--records N] [--runs N]

The same records lie in files of 1,000 as JSON arrays (`batch_*.json`, in folders by day), and in a
table that the pipeline's own code wrote, partitioned by day. Spark runs the same statements on
both, each in a warm session: its JSON reader with the schema given beside the table. Bytes are
those of the data files.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import measure
from kafka_records import JSON_SCHEMA, values
from kafka_spark import SPARK_FIELDS
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Grid

from bayou.ingest import TopicTable, load_configuration
from bayou.spark import start_session

RECORDS = 500_000
A_FILE = 1_000
A_WRITE = 100_000
QUERIES = {
    "count of all": "SELECT count(*) FROM {t}",
    "one day by country": "SELECT country, count(*), sum(amount) FROM {t} "
    "WHERE day = '07' GROUP BY country",
    "one user": "SELECT * FROM {t} WHERE user_id = 123",
    "by type": "SELECT event_type, avg(amount), max(event_time) FROM {t} GROUP BY event_type",
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


def run(console: Console, runs: int, records: int = RECORDS) -> None:
    """Write both, query both, print a table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, records)
        spark = start_session("bench", {}, "local[2]", time_zone="UTC")
        schema = f"{SPARK_FIELDS}, day string"
        arrays = spark.read.schema(schema).option("multiLine", "true").json(str(folder / "arrays"))
        arrays.createOrReplaceTempView("arrays")
        spark.read.format("delta").load(str(folder / "table")).createOrReplaceTempView("rows")
        grid = Grid(title=f"Queries on {records:,} records, s", title_justify="left")
        grid.add_column("")
        for heading in ("table", "JSON arrays", "arrays / table", "target"):
            grid.add_column(heading, justify="right")
        for query, text in QUERIES.items():
            ours, theirs = (_seconds(spark, text.format(t=t), runs) for t in ("rows", "arrays"))
            grid.add_row(query, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.1f}x", "10x")
        sizes = [_bytes(folder / "table", "*.parquet"), _bytes(folder / "arrays", "*.json")]
        share = f"{sizes[1] / sizes[0]:.1f}x"
        grid.add_row("data files, MB", *(f"{s / 1e6:,.1f}" for s in sizes), share, "2x")
        console.print(grid)
        spark.stop()


def _write(folder: Path, count: int) -> None:
    (folder / "pipeline.yaml").write_text(CONFIGURATION)
    (folder / "schema.json").write_text(JSON_SCHEMA)
    table = TopicTable(load_configuration(folder / "pipeline.yaml", environment={}), "events")
    records = [json.loads(value) for value in values(count)]
    for first in range(0, count, A_WRITE):
        table.write(records[first : first + A_WRITE])
    by_day: dict[str, list[object]] = {}
    for record in records:
        by_day.setdefault(record["event_time"][8:10], []).append(record)
    for day, mine in by_day.items():
        place = folder / "arrays" / f"day={day}"
        place.mkdir(parents=True)
        for first in range(0, len(mine), A_FILE):
            text = json.dumps(mine[first : first + A_FILE])
            (place / f"batch_{first // A_FILE:06}.json").write_text(text)


def _seconds(spark: SparkSession, statement: str, runs: int) -> float:
    def once() -> float:
        began = time.perf_counter()
        spark.sql(statement).collect()
        return time.perf_counter() - began

    once()  # warm
    return median(once() for _ in range(runs))


def _bytes(folder: Path, pattern: str) -> int:
    files = (file for file in folder.rglob(pattern) if "_delta_log" not in file.parts)
    return sum(file.stat().st_size for file in files)


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    run(Console(width=measure.WIDTH), options.runs, options.records)


if __name__ == "__main__":
    main(sys.argv[1:])
