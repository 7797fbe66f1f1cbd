"""Timestamps of Kafka that are none: clients may send any number."""

from __future__ import annotations

import json

import pytest

from bayou.ingest.inspection import prove_offsets
from bayou.spark.kafka.embedded_broker import ProducedRecord

GOOD = 1_700_000_000_000
NANOSECONDS, MICROSECONDS = GOOD * 1_000_000, GOOD * 1000


def send(pipeline, *records):
    """Pairs of a value and a timestamp."""
    pipeline.broker.produce(
        pipeline.kafka_topic,
        [
            ProducedRecord(
                value if isinstance(value, bytes) else json.dumps(value).encode(),
                partition=0,
                timestamp=at,
            )
            for value, at in records
        ],
    )


@pytest.mark.parametrize("odd", [NANOSECONDS, MICROSECONDS])
def test_a_timestamp_that_is_no_date_stops_nothing(small_pipeline, odd):
    send(small_pipeline, ({"id": 1}, odd), (b"no json", odd), ({"id": 2}, GOOD))
    text = small_pipeline.file.read_text()
    text = text.replace("lake/events\n", "lake/events\n        partition-columns: [year]\n")
    small_pipeline.file.write_text(text)
    report = small_pipeline.take_in()
    assert (report.rows, report.dead_letters) == (2, 1)
    rows = small_pipeline.table.to_arrow(columns=["id", "year"]).to_pylist()
    assert {row["id"]: row["year"] for row in rows} == {1: "2023", 2: "2023"}
    assert small_pipeline.dead_letters.to_arrow()["timestamp"].to_pylist() == [None]
    assert prove_offsets(small_pipeline.configuration, small_pipeline.topic).holds


@pytest.mark.parametrize("odd", [NANOSECONDS, MICROSECONDS])
def test_an_upsert_takes_it_for_as_old_as_its_neighbours(new_pipeline, odd):
    pipeline = new_pipeline(upserts=True)
    send(pipeline, ({"id": 1, "name": "a"}, GOOD), ({"id": 1, "name": "b"}, odd))
    send(pipeline, ({"id": 2, "name": "a"}, odd), ({"id": 2, "name": "b"}, GOOD + 1))
    pipeline.take_in()
    found = pipeline.table.to_arrow().select(["id", "name", "_kafka_timestamp"]).to_pylist()
    assert {row["id"]: row["name"] for row in found} == {1: "b", 2: "b"}
    assert {row["_kafka_timestamp"].timestamp() * 1000 for row in found} == {GOOD, GOOD + 1}
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds
