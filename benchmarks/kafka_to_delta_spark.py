"""The peer of `kafka_to_delta.py`: Spark's Kafka connector, `from_json`, delta-spark's sink.

usage: kafka_to_delta_spark.py SERVERS BATCH_SIZE FOLDER SECONDS_OF_IDLENESS TOPIC...

It runs in an environment of its own, `.venv-peers-kafka`, and needs nothing of Bayou. For each
topic it prints a line of JSON once everything is in the table.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from delta import configure_spark_with_delta_pip
from kafka_spark import SPARK_FIELDS, print_idle_trigger
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
CONF = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    servers, batch_size, folder, idle, *topics = arguments
    builder = SparkSession.builder.master("local[2]")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = configure_spark_with_delta_pip(builder, [CONNECTOR]).getOrCreate()
    source = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    for topic in topics:
        began = time.perf_counter()
        _append(spark, {**source, "subscribe": topic}, int(batch_size), f"{folder}/{topic}")
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "ended": time.time()}), flush=True)
    if float(idle):
        reader = spark.readStream.format("kafka").options(**source, subscribe=topics[-1])
        print_idle_trigger(reader, f"{folder}/idle", float(idle))
    spark.stop()


def _append(spark: SparkSession, source: dict[str, str], batch_size: int, folder: str) -> None:
    reader = spark.readStream.format("kafka").options(**source)
    records = reader.option("maxOffsetsPerTrigger", batch_size).load()
    row = sf.from_json(sf.col("value").cast("string"), SPARK_FIELDS)
    rows = records.select(
        row.alias("row"), "topic", "partition", "offset", sf.current_timestamp().alias("read_at")
    )
    writer = rows.select("row.*", "topic", "partition", "offset", "read_at").writeStream
    writer = writer.format("delta").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start(f"{folder}/table").awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1:])
