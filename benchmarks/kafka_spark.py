"""Schema, settings and an idle measurement for both Kafka benchmark programs; needs PySpark."""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

__all__ = ["KEY", "SPARK_FIELDS", "print_idle_trigger"]

KEY = "BENCHMARK_KEY"
"""Environment variable: the key column of upserts; if it isn't set, both programs append."""

SPARK_FIELDS = (
    "event_id string, event_type string, user_id long, session_id string, event_time timestamp, "
    "country string, page string, amount double, quantity long, is_member boolean, referrer string"
)
"""The schema of a record as Spark DDL; `kafka_records.JSON_SCHEMA` is derived from it."""

_IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"


def print_idle_trigger(reader: Any, checkpoint: str, seconds: float) -> None:
    """Run a query without new records, and print the median time of a trigger as JSON.

    Args:
        reader: the reader of a Kafka source; it starts at the end of its topic.
        checkpoint: a new folder for the query's checkpoint.
        seconds: how long the query runs, at least until it has had a trigger without records.
    """
    records = reader.option("startingOffsets", "latest").load()
    records.sparkSession.conf.set(_IDLE_EVENTS, "0")
    query = (
        records.writeStream.foreachBatch(lambda *_: None)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    triggers: list[float] = []
    while not triggers and query.isActive:
        time.sleep(seconds)
        triggers = [
            progress["durationMs"]["triggerExecution"] / 1000
            for progress in query.recentProgress
            if progress["numInputRows"] == 0 and "addBatch" not in progress["durationMs"]
        ]
    query.stop()
    print(json.dumps({"seconds": median(triggers), "ended": time.time()}), flush=True)
