"""Measures records per second from a topic into a table, compared with Spark's `from_json`.

usage: ingest.py [--runs N]

The records are the flights of the demo, as JSON in a topic with four partitions. Each program runs
in its own process with two cores and does its work twice, to a new folder each time; only the
second time is measured. Spark's own Kafka connector is a JAR, so the peer reads the records once
with the source `bayou-kafka`, and once from Parquet files, without Kafka. The peer writes Parquet
files without transaction log, validation and dead letters.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table as Grid

from bayou.ingest.config import load_configuration
from bayou.ingest.demo.demo import JSON_SCHEMA, json_records, read_flights
from bayou.ingest.events import (
    AttemptFailed,
    BatchReport,
    MaintenanceReport,
    MigrationReport,
    RecordsLost,
    TopicStarted,
    TopicSummary,
)
from bayou.ingest.runtime.pipeline import run_pipeline
from bayou.spark import start_session
from bayou.spark.kafka import EmbeddedBroker, ProducedRecord

TOPIC = "flights"
PARTITIONS = 4
TARGET = 50_000  # records a second on two cores

FIELDS = (
    "year long, month long, day long, dep_time long, sched_dep_time long, dep_delay long, "
    "arr_time long, sched_arr_time long, arr_delay long, carrier string, flight long, "
    "tailnum string, origin string, dest string, air_time long, distance long, hour long, "
    "minute long, time_hour timestamp"
)

CONFIGURATION = """
connector:
  kafka:
    bootstrap-servers: "{servers}"
  topics:
    flights:
      kafka-topic: "flights"
      schema-file: "schema.json"
      destination:
        table-path: "table"
        partition-columns: ["month"]
      processing:
        batch-size: {batch_size}
"""


class Quiet:
    """A `Reporter` that ignores all events."""

    def topic_started(self, event: TopicStarted) -> None:
        """Ignore the event."""

    def batch_committed(self, event: BatchReport) -> None:
        """Ignore the event."""

    def attempt_failed(self, event: AttemptFailed) -> None:
        """Ignore the event."""

    def records_lost(self, event: RecordsLost) -> None:
        """Ignore the event."""

    def migrated(self, event: MigrationReport) -> None:
        """Ignore the event."""

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        """Ignore the event."""

    def topic_finished(self, event: TopicSummary) -> None:
        """Ignore the event."""


def pipeline(spark: SparkSession, servers: str, folder: Path, batch_size: int) -> int:
    """Run the pipeline as `bayou run --once` does; return the number of rows."""
    file = folder / "pipeline.yaml"
    file.write_text(CONFIGURATION.format(servers=servers, batch_size=batch_size))
    (folder / "schema.json").write_text(JSON_SCHEMA)
    configuration = load_configuration(file, environment={})
    (summary,) = run_pipeline(configuration, once=True, reporter=Quiet(), spark=spark)
    if summary.error is not None:
        raise summary.error
    return summary.rows


def from_topic(spark: SparkSession, servers: str, folder: Path) -> int:
    """Read records from the topic, parse and write them with Spark; return the number of rows."""
    reader = spark.read.format("bayou-kafka").option("kafka.bootstrap.servers", servers)
    return _parse_and_write(reader.option("subscribe", TOPIC).load(), folder)


def from_files(spark: SparkSession, records: Path, folder: Path) -> int:
    """Read records from Parquet files, parse and write them as `from_topic` does."""
    return _parse_and_write(spark.read.parquet(str(records)), folder)


def _parse_and_write(records: DataFrame, folder: Path) -> int:
    row = sf.from_json(sf.col("value").cast("string"), FIELDS)
    kafka = ["topic", "partition", "offset", "timestamp"]
    rows = records.select(row.alias("row"), *kafka).select("row.*", *kafka)
    counted = sf.count(sf.lit(1)).alias("rows")
    observation = Observation("written")
    rows.observe(observation, counted).write.partitionBy("month").parquet(str(folder / "out"))
    return int(observation.get["rows"])


WORK: dict[str, Callable[[SparkSession, str, Path, Path], int]] = {
    "bayou, batches of 50,000": lambda spark, servers, _, out: pipeline(
        spark, servers, out, 50_000
    ),
    "bayou, one batch": lambda spark, servers, _, out: pipeline(spark, servers, out, 1_000_000),
    "Spark from_json, from the topic": lambda spark, servers, _, out: from_topic(
        spark, servers, out
    ),
    "Spark from_json, from files": lambda spark, _, records, out: from_files(spark, records, out),
}


def run(
    console: Console, runs: int, ways: Sequence[str] = tuple(WORK), most: int | None = None
) -> None:
    """Produce the records, measure the programs, and print a table; `most` limits the records."""
    values = list(itertools.islice(json_records(read_flights()), most))
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker({TOPIC: PARTITIONS}) as broker:
        broker.produce(
            TOPIC,
            (ProducedRecord(value, partition=n % PARTITIONS) for n, value in enumerate(values)),
        )
        records = _stage(values, Path(folder))
        places = [broker.bootstrap_servers, str(records)]
        measured = {
            name: measure.repeat([__file__, "--measure", name, *places], runs, warm=False)
            for name in ways
        }
    assert {one.result for one in measured.values()} == {len(values)}
    grid = Grid(
        title=f"Ingest {len(values):,} records of {sum(map(len, values)) // len(values)} bytes",
        title_justify="left",
    )
    grid.add_column("")
    peers = [name for name in ways if name.startswith("Spark")]
    beside = (name.partition(", ")[2] for name in peers)
    for heading in ("seconds", "records/s", *beside, "target"):
        grid.add_column(heading, justify="right")
    for name, one in measured.items():
        ours = name.startswith("bayou")
        ratios = [f"{measured[p].seconds / one.seconds:.2f}x" if ours else "" for p in peers]
        target = f"{TARGET:,}/s" if ours else ""
        rate = len(values) / one.seconds
        grid.add_row(name, f"{one.seconds:.2f}", f"{rate:,.0f}", *ratios, target)
    console.print(grid)


def _stage(values: Sequence[bytes], folder: Path) -> Path:
    """Write the records as Spark's Kafka source returns them, one Parquet file per partition."""
    records = folder / "records"
    records.mkdir()
    for partition in range(PARTITIONS):
        mine = values[partition::PARTITIONS]
        rows = pa.table(
            {
                "value": pa.array(mine, pa.binary()),
                "topic": pa.array([TOPIC] * len(mine)),
                "partition": pa.array([partition] * len(mine), pa.int32()),
                "offset": pa.array(range(len(mine)), pa.int64()),
                "timestamp": pa.array([0] * len(mine), pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(rows, records / f"{partition}.parquet")
    return records


def _measure(name: str, servers: str, records: Path) -> None:
    spark = start_session("bench", {}, "local[2]", time_zone="UTC")
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / "first", Path(folder) / "second"]
        for place in places:
            place.mkdir()
        WORK[name](spark, servers, records, places[0])
        measure.report(lambda: WORK[name](spark, servers, records, places[1]))
    spark.stop()


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        name, servers, records = options.measure
        _measure(name, servers, Path(records))
    else:
        run(Console(width=measure.WIDTH), options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
