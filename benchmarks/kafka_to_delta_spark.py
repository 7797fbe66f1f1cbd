"""The peer's program in `kafka_to_delta.py`: Spark's Kafka connector and delta-spark's sink.

usage: kafka_to_delta_spark.py SERVERS FOLDER SECONDS_OF_IDLENESS TOPIC:BATCH_SIZE...

It runs in the environment `.venv-peers-kafka` and doesn't need Bayou. For each topic it prints a
line of JSON after all its records are in the table.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence

from delta import DeltaTable, configure_spark_with_delta_pip
from kafka_spark import KEY, SPARK_FIELDS, print_idle_trigger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

PLACE = ("topic", "partition", "offset", "timestamp")
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
    """Ingest the topics of the arguments."""
    servers, folder, idle, *batches = arguments
    builder = SparkSession.builder.master("local[2]")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = configure_spark_with_delta_pip(builder, [CONNECTOR]).getOrCreate()
    source = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    for batch in batches:
        topic, _, size = batch.partition(":")
        began = time.perf_counter()
        _append(spark, {**source, "subscribe": topic}, int(size), f"{folder}/{topic}-{size}")
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "ended": time.time()}), flush=True)
    if float(idle):
        reader = spark.readStream.format("kafka").options(**source, subscribe=topic)
        print_idle_trigger(reader, f"{folder}/idle", float(idle))
    spark.stop()


def _append(spark: SparkSession, source: dict[str, str], batch_size: int, folder: str) -> None:
    reader = spark.readStream.format("kafka").options(**source)
    records = reader.option("maxOffsetsPerTrigger", batch_size).load()
    row = sf.from_json(sf.col("value").cast("string"), SPARK_FIELDS)
    rows = records.select(row.alias("row"), *PLACE, sf.current_timestamp().alias("read_at"))
    writer = rows.select("row.*", *PLACE, "read_at").writeStream
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    table = f"{folder}/table"
    if key := os.environ.get(KEY):
        writer.foreachBatch(lambda batch, _: _upsert(batch, table, key)).start().awaitTermination()
    else:
        writer.format("delta").start(table).awaitTermination()


def _upsert(batch: DataFrame, table: str, key: str) -> None:
    """Merge the newest record of each key into the table, as in delta-spark's documentation."""
    newest = sf.max_by(sf.struct(*batch.columns), sf.struct("timestamp", "offset")).alias("row")
    rows = batch.groupBy(key).agg(newest).select("row.*")
    spark = batch.sparkSession
    if not DeltaTable.isDeltaTable(spark, table):
        rows.write.format("delta").save(table)
        return
    newer = "struct(s.timestamp, s.offset) > struct(t.timestamp, t.offset)"
    merge = DeltaTable.forPath(spark, table).alias("t").merge(rows.alias("s"), f"t.{key} = s.{key}")
    merge.whenMatchedUpdateAll(newer).whenNotMatchedInsertAll().execute()


if __name__ == "__main__":
    main(sys.argv[1:])
