"""The peer's program in `steady_latency.py`: Spark's Kafka connector and delta-spark's sink.

usage: steady_latency_spark.py SERVERS TOPIC FOLDER

It runs in `.venv-peers-kafka` until it is terminated. For each committed batch it prints a line of
JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from delta import configure_spark_with_delta_pip
from kafka_spark import SPARK_FIELDS
from kafka_to_delta_spark import CONF, CONNECTOR, PLACE
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf


def main(servers: str, topic: str, folder: str) -> None:
    """Run the query, and print the end offsets of each committed batch."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = configure_spark_with_delta_pip(builder, [CONNECTOR]).getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("startingOffsets", "earliest")
        .option("subscribe", topic)
        .load()
    )
    row = sf.from_json(sf.col("value").cast("string"), SPARK_FIELDS)
    rows = records.select(row.alias("row"), *PLACE, sf.current_timestamp().alias("read_at"))
    writer = rows.select("row.*", *PLACE, "read_at").writeStream.format("delta")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/table")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    told = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["numInputRows"] and progress["batchId"] > told:
            told = progress["batchId"]
            ends = progress["sources"][0]["endOffset"]
            ends = (json.loads(ends) if isinstance(ends, str) else ends)[topic]
            print(json.dumps({"spans": {p: {"end": end} for p, end in ends.items()}}), flush=True)
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
