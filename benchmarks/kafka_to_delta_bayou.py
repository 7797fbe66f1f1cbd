"""Bayou's program in `kafka_to_delta.py`: runs the code of `bayou run --once`.

usage: kafka_to_delta_bayou.py SERVERS FOLDER SECONDS_OF_IDLENESS TOPIC:BATCH_SIZE...

For each topic it prints a line of JSON after all its records are in the table.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ingest import Quiet
from kafka_records import JSON_SCHEMA
from kafka_spark import KEY, print_idle_trigger
from pyspark.sql import SparkSession

from bayou.ingest.config import load_configuration
from bayou.ingest.runtime.pipeline import run_pipeline
from bayou.ingest.runtime.session import pipeline_session

CONFIGURATION = """\
connector:
  kafka:
    bootstrap-servers: "{servers}"
  state-path: "{folder}/state"
  spark:
    master: "local[2]"
  topics:
    events:
      kafka-topic: "{topic}"
      schema-file: "schema.json"
      destination:
        table-path: "{folder}/{topic}-{batch_size}/table"
{upsert}      processing:
        batch-size: {batch_size}
"""
UPSERT = """\
        key-columns: [{key}]
        delta-config: {{enable-upsert: true}}
"""


def write_configuration(servers: str, topic: str, folder: Path, batch_size: int) -> Path:
    """Write the configuration of a topic and its JSON Schema; return the path of the YAML file."""
    file = folder / f"{topic}-{batch_size}.yaml"
    key = os.environ.get(KEY)
    text = CONFIGURATION.format(
        servers=servers,
        topic=topic,
        folder=folder,
        batch_size=batch_size,
        upsert=UPSERT.format(key=key) if key else "",
    )
    file.write_text(text)
    (folder / "schema.json").write_text(JSON_SCHEMA)
    return file


def main(arguments: Sequence[str]) -> None:
    """Ingest the topics of the arguments."""
    servers, place, idle, *batches = arguments
    folder = Path(place)
    spark = pipeline_session(folder / "state", master="local[2]", conf={})
    for batch in batches:
        topic, _, batch_size = batch.partition(":")
        began = time.perf_counter()
        _append(spark, write_configuration(servers, topic, folder, int(batch_size)))
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "ended": time.time()}), flush=True)
    if float(idle):
        reader = spark.readStream.format("bayou-kafka").option("kafka.bootstrap.servers", servers)
        print_idle_trigger(reader.option("subscribe", topic), f"{folder}/idle", float(idle))
    spark.stop()


def _append(spark: SparkSession, file: Path) -> None:
    configuration = load_configuration(file, environment={})
    (summary,) = run_pipeline(configuration, once=True, reporter=Quiet(), spark=spark)
    if summary.error is not None:
        raise summary.error


if __name__ == "__main__":
    main(sys.argv[1:])
