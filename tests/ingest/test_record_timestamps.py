"""Timestamps of Kafka that are none: clients may send any number."""

from __future__ import annotations

import json

import pytest

from bayou.ingest.inspection import prove_offsets
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.runtime.prepared_topic import prepare_topic
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.in_process_pipeline import Heard, InProcessContext
from support.small_pipelines import SCHEMA

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


MISSING = [MICROSECONDS, -1]


def upserted(pipeline, *batches, session=None):
    """Ingest each batch with a run of its own; return the name and time of each id."""
    for records in batches:
        send(pipeline, *records)
        pipeline.take_in(session=session)
    found = pipeline.table.to_arrow().select(["id", "name", "_kafka_timestamp"]).to_pylist()
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds
    return {row["id"]: (row["name"], row["_kafka_timestamp"].timestamp() * 1000) for row in found}


def row(name, at, key=1):
    return {"id": key, "name": name}, at


@pytest.mark.parametrize("odd", MISSING)
def test_a_later_record_replaces_one_without_a_timestamp_in_another_batch(new_pipeline, odd):
    batches = [[row("a", odd)], [row("b", GOOD)], [row("c", odd)], [row("d", GOOD + 1)]]
    expected = [("a", 0), ("b", GOOD), ("c", GOOD), ("d", GOOD + 1)]
    for count in range(1, 5):
        pipeline = new_pipeline(upserts=True)
        assert upserted(pipeline, *batches[:count]) == {1: expected[count - 1]}


def test_the_timestamp_before_a_batch_is_that_of_the_last_record_of_its_partition(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    first = [row("a", GOOD), row("b", GOOD + 5, 2), row("c", GOOD + 2, 3)]
    second = [row("d", -1), row("e", -1, 2)]
    assert upserted(pipeline, first, second) == {
        1: ("d", GOOD + 2),
        2: ("b", GOOD + 5),
        3: ("c", GOOD + 2),
    }


def test_records_without_a_timestamp_fill_a_whole_read(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    without = [row(f"a{number}", -1) for number in range(1200)]
    records = [row("first", GOOD), *without, row("last", GOOD + 1)]
    assert upserted(pipeline, records) == {1: ("last", GOOD + 1)}


class Parallel(InProcessContext):
    defaultParallelism = 3  # noqa: N815  # Spark's name


def test_tasks_of_a_batch_know_the_timestamps_of_earlier_tasks(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    without = [row(f"a{number}", -1, number % 5) for number in range(6500)]
    records = [row("first", GOOD), *without, *(row("last", GOOD + 1, key) for key in range(4))]
    names = upserted(pipeline, records, session=Parallel())
    assert names == {**dict.fromkeys(range(4), ("last", GOOD + 1)), 4: ("a6499", GOOD)}


def test_a_task_does_not_use_the_timestamp_before_the_batch(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    send(pipeline, row("first", GOOD))
    prepared = prepare_topic(pipeline.configuration, pipeline.topic, json.dumps(SCHEMA), Heard())
    prepared.writer.process(Parallel(), {0: OffsetSpan(start=0, end=1)})
    records = [row(f"a{number}", GOOD + 1 + number) for number in range(3000)]
    send(pipeline, *records, *(row(f"b{number}", -1) for number in range(3000)))
    prepared.writer.process(Parallel(), {0: OffsetSpan(start=1, end=6001)})
    rows = pipeline.table.to_arrow().to_pylist()
    assert [(r["name"], r["_kafka_timestamp"].timestamp() * 1000) for r in rows] == [
        ("b2999", GOOD + 3000)
    ]


def test_a_tombstone_without_a_timestamp_is_as_old_as_the_record_before_it(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    broker, topic = pipeline.broker, pipeline.kafka_topic

    def produce(value, at):
        record = ProducedRecord(value, key=b"1", partition=0, timestamp=at)
        broker.produce(topic, [record])

    produce(b'{"id": 1, "name": "a"}', GOOD)
    produce(b'{"id": 2, "name": "a"}', GOOD)
    produce(None, -1)
    pipeline.take_in()
    assert pipeline.table.to_arrow()["id"].to_pylist() == [2]
    produce(None, -1)  # its timestamp comes from the deleted keys
    pipeline.table.delete("id = 2")
    pipeline.take_in()
    produce(b'{"id": 1, "name": "late"}', GOOD - 1)
    produce(b'{"id": 1, "name": "b"}', GOOD + 1)
    pipeline.take_in()
    assert pipeline.table.to_arrow()["name"].to_pylist() == ["b"]
