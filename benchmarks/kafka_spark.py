"""What both programs of the Kafka benchmarks share; needs PySpark only."""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

__all__ = ["KEY", "SPARK_FIELDS", "print_idle_trigger"]

KEY = "BENCHMARK_KEY"
"""Environment variable: the column by which both programs upsert; without it they append."""

SPARK_FIELDS = (
    "event_id string, event_type string, user_id long, session_id string, event_time timestamp, "
    "country string, page string, amount double, quantity long, is_member boolean, referrer string"
)
"""The fields of a record, for `from_json`; the JSON Schema of the records says the same."""

_IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"


def print_idle_trigger(reader: Any, checkpoint: str, seconds: float) -> None:
    """Run a query that waits for records for a while, and print what looking for some takes.

    Args:
        reader: of a Kafka source; it begins at the end of its topic here.
        checkpoint: a new folder.
        seconds: how long.
    """
    records = reader.option("startingOffsets", "latest").load()
    records.sparkSession.conf.set(_IDLE_EVENTS, "0")
    query = (
        records.writeStream.foreachBatch(lambda *_: None)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    time.sleep(seconds)
    triggers = [
        progress["durationMs"]["triggerExecution"] / 1000
        for progress in query.recentProgress
        if progress["numInputRows"] == 0 and "addBatch" not in progress["durationMs"]
    ]
    query.stop()
    print(json.dumps({"seconds": median(triggers), "ended": time.time()}), flush=True)
