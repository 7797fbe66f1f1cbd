"""The proof of an upsert's table: what its keys must have follows from the records."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayou
from bayou.ingest import TopicTable
from bayou.ingest.inspection import prove_offsets
from bayou.ingest.offsets import OffsetSpan
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.examples import examples


def gone(number):
    return ProducedRecord(None, key=json.dumps({"id": number}).encode(), partition=0)


def row(number, name):
    return ProducedRecord(json.dumps({"id": number, "name": name}).encode(), partition=0)


def send(pipeline, *records):
    pipeline.broker.produce(pipeline.kafka_topic, list(records))


def proof(pipeline):
    found = prove_offsets(pipeline.configuration, pipeline.topic)
    return found, found.partitions[0]


@pytest.fixture
def upserted(new_pipeline):
    """Keys 1, 2 and 3; 2 changed once, 4 deleted; one record is no JSON."""
    pipeline = new_pipeline(upserts=True)
    send(pipeline, *(row(i, "a") for i in range(1, 5)))
    send(pipeline, row(2, "b"), gone(4), ProducedRecord(b"no json", partition=0))
    pipeline.take_in()
    return pipeline


def test_a_table_whose_keys_are_what_the_records_say_holds(upserted):
    send(upserted, row(9, "waits"))
    found, part = proof(upserted)
    assert found.holds
    assert (part.covered, part.rows, part.dead_letters, part.waiting) == (7, 3, 1, 1)


def test_a_key_that_went_missing_is_a_gap(upserted):
    upserted.table.delete("id = 2")
    found, part = proof(upserted)
    assert not found.holds
    assert part.gaps == (OffsetSpan(start=4, end=5),)
    assert part.stale == ()


def test_a_row_that_should_be_gone_is_stale(upserted):
    (third,) = upserted.table.to_arrow(filter="id = 3").to_pylist()
    schema = upserted.table.to_arrow().schema
    back = pa.Table.from_pylist([{**third, "id": 4, "_kafka_offset": 3}], schema)
    bayou.write(upserted.path, back)
    found, part = proof(upserted)
    assert not found.holds
    assert part.stale == (OffsetSpan(start=3, end=4),)
    assert found.duplicate_keys == 0


def test_a_row_of_an_older_record_is_a_gap_and_stale(upserted):
    newest = upserted.table.to_arrow(filter="id = 2")
    upserted.table.delete("id = 2")
    at = newest.schema.get_field_index("_kafka_offset")
    bayou.write(upserted.path, newest.set_column(at, newest.field(at), pa.array([1], pa.int64())))
    _, part = proof(upserted)
    assert part.gaps == (OffsetSpan(start=4, end=5),)
    assert part.stale == (OffsetSpan(start=1, end=2),)


def test_keys_are_compared_in_the_time_zone_of_the_session(new_pipeline):
    """Older delta-spark wrote timestamps of partitions in the session's time zone."""
    pipeline = new_pipeline(upserts=True)
    text = pipeline.file.read_text()
    keys = "key-columns: [id, at]\n        partition-columns: [at]\n"
    text = text.replace("key-columns: [id]\n", keys)
    pipeline.file.write_text(f"{text}  spark: {{spark.sql.session.timeZone: Asia/Tokyo}}\n")
    at = {"type": "string", "format": "date-time"}
    pipeline.write_schema({"type": "object", "properties": {"id": {"type": "integer"}, "at": at}})
    pipeline.produce({"id": 1, "at": "2024-01-05T03:00:00Z"})
    pipeline.take_in()
    log = Path(pipeline.path) / "_delta_log"
    for commit in log.glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "add" in action:
                action["add"]["partitionValues"]["at"] = "2024-01-05 12:00:00"
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    found, _ = proof(pipeline)
    assert found.holds


def test_a_key_that_is_there_twice_is_counted(upserted):
    bayou.write(upserted.path, upserted.table.to_arrow(filter="id = 1"))
    found, _ = proof(upserted)
    assert not found.holds
    assert found.duplicate_keys == 1


steps = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["row", "row", "gone", "take in"])), max_size=12
)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_whatever_comes_the_proof_holds(new_pipeline, steps):
    pipeline = new_pipeline(upserts=True)
    send(pipeline, row(1, "first"))
    for number, (key, what) in enumerate(steps):
        if what == "take in":
            pipeline.take_in()
        else:
            send(pipeline, row(key, str(number)) if what == "row" else gone(key))
    pipeline.take_in()
    found, _ = proof(pipeline)
    assert found.holds


RANKED = {
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "rank": {"type": "integer"},
    }
}

sources = st.sampled_from(["row", "row", "gone", "take in", "write", "migrate"])
ranked_steps = st.lists(
    st.tuples(st.integers(1, 3), sources, st.sampled_from([None, 1, 2, 3])), max_size=14
)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=ranked_steps)
def test_with_an_ordering_column_it_holds_whoever_wrote_the_rows_beside_kafka(new_pipeline, steps):
    pipeline = new_pipeline(upserts=True)
    pipeline.write_schema(RANKED)
    keys = "        key-columns: [id]\n"
    text = pipeline.file.read_text().replace(keys, f"{keys}        ordering-column: rank\n")
    pipeline.file.write_text(text)
    table = TopicTable(pipeline.configuration, "events")
    send(pipeline, row(1, "first"))
    pipeline.take_in()
    for number, (key, what, rank) in enumerate(steps):
        record = {"id": key, "name": str(number), **({} if rank is None else {"rank": rank})}
        if what == "take in":
            pipeline.take_in()
        elif what == "write":
            table.write([record])
        elif what == "migrate":
            (pipeline.folder / "json").mkdir(exist_ok=True)
            (pipeline.folder / "json" / f"{number}.json").write_text(json.dumps(record))
            table.migrate(str(pipeline.folder / "json"))
        else:
            written = ProducedRecord(json.dumps(record).encode(), partition=0)
            send(pipeline, written if what == "row" else gone(key))
    pipeline.take_in()
    found, _ = proof(pipeline)
    assert found.holds
