"""One row for each key, from a Kafka topic, as another reader sees it."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from bayou.spark.kafka import ProducedRecord

pytestmark = pytest.mark.spark

UPSERT = {"enable-upsert": True, "key-columns": ["id"]}


def sent(key, value, *, second, partition=0):
    return ProducedRecord(
        None if value is None else json.dumps(value).encode(),
        key=key if isinstance(key, bytes) else json.dumps(key).encode(),
        partition=partition,
        timestamp=1_700_000_000_000 + 1000 * second,
    )


def by_id(pipeline):
    rows = pipeline.rows()
    found = {r["id"]: r for r in rows}
    assert len(found) == len(rows)
    return found


def test_the_newest_record_of_a_key_is_its_row_and_a_tombstone_deletes_it(pipeline):
    pipeline.configure(partition_columns=["kind"], delta=UPSERT, evolution=True)
    first = [
        sent({"id": n}, {"id": n, "kind": "a", "n": 0}, second=n, partition=n % 4) for n in range(8)
    ]
    pipeline.broker.produce("events", [*first, ProducedRecord(b"{nope", key=b"x", partition=1)])
    (batch,) = pipeline.run().batches
    assert (batch.rows, batch.dead_letters, batch.version) == (8, 1, 0)

    changes = [
        sent({"id": 0}, {"id": 0, "kind": "b", "n": 1}, second=20),  # moves
        sent({"id": 4}, {"id": 4, "kind": "a", "n": 1}, second=1),  # late
        sent({"id": 1}, None, second=30, partition=1),
        sent({"id": 1}, {"id": 1, "kind": "a", "n": 2}, second=29, partition=1),  # late, too
        sent({"id": 2}, {"id": 2, "kind": "a", "n": 1, "more": "x"}, second=31, partition=2),
        sent({"id": 99}, None, second=32, partition=3),
        sent({"other": 1}, None, second=33, partition=3),  # names no key
    ]
    pipeline.broker.produce("events", changes)
    (batch,) = pipeline.run().batches
    assert batch.new_columns == ("more",)
    assert (batch.rows, batch.deleted, batch.superseded, batch.dead_letters) == (2, 1, 3, 1)
    rows = by_id(pipeline)
    assert sorted(rows) == [0, 2, 3, 4, 5, 6, 7]
    assert (rows[0]["kind"], rows[0]["n"]) == ("b", 1)
    assert rows[4]["n"] == 0
    assert rows[2]["more"] == "x"
    history = DeltaTable(str(pipeline.table)).history()
    assert [h["operation"] for h in history] == ["MERGE", "STREAMING UPDATE"]

    late = sent({"id": 1}, {"id": 1, "kind": "a", "n": 3}, second=5, partition=1)
    newer = sent({"id": 99}, {"id": 99, "kind": "c", "n": 3}, second=40, partition=3)
    pipeline.broker.produce("events", [late, newer])
    pipeline.run()
    assert sorted(by_id(pipeline)) == [0, 2, 3, 4, 5, 6, 7, 99]
    assert pipeline.run().started[0].waiting == 0


def test_an_ordering_column_decides_before_kafka_does(pipeline):
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string"},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "n": {"type": "integer"},
        },
    }
    pipeline.configure(schema=schema, delta=UPSERT)
    config = json.loads(pipeline.file.read_text())
    config["connector"]["topics"]["events"]["destination"]["ordering-column"] = "at"
    pipeline.file.write_text(json.dumps(config))

    def record(key, day, n, second):
        value = {"id": key, "at": f"2024-01-{day:02}T00:00:00Z", "n": n}
        return sent(key.encode(), value, second=second)

    pipeline.broker.produce("events", [record("a", 5, 1, 9), record("b", 5, 1, 9)])
    pipeline.run()
    more = [record("a", 4, 2, 10), record("b", 6, 2, 1), sent(b"c", None, second=3)]
    pipeline.broker.produce("events", [*more, sent(b"a", None, second=12)])
    pipeline.run()
    assert {k: r["n"] for k, r in by_id(pipeline).items()} == {"b": 2}
    pipeline.broker.produce("events", [record("a", 4, 3, 20), record("c", 1, 3, 21)])
    pipeline.run()
    assert {k: r["n"] for k, r in by_id(pipeline).items()} == {"b": 2, "c": 3}
    pipeline.broker.produce("events", [record("a", 6, 4, 22)])
    pipeline.run()
    assert {k: r["n"] for k, r in by_id(pipeline).items()} == {"a": 4, "b": 2, "c": 3}


def test_debezium_envelopes_are_rows_and_deletes(pipeline):
    pipeline.configure(delta=UPSERT, evolution=True, decode="debezium")

    def change(op, before, after, second, *, wrapped=False):
        envelope = {"op": op, "before": before, "after": after, "ts_ms": 1}
        return sent({"id": 1}, {"payload": envelope} if wrapped else envelope, second=second)

    one, two = {"id": 1, "name": "x"}, {"id": 2, "name": "y"}
    changes = [
        change("r", None, one, 1),
        change("c", None, two, 2, wrapped=True),
        change("u", one, {**one, "name": "z"}, 3),
        change("d", two, None, 4),
        sent({"id": 2}, None, second=4),
        change("t", None, None, 5),
        sent({"id": 1}, {"id": 1}, second=6),
    ]
    pipeline.broker.produce("events", changes)
    (batch,) = pipeline.run().batches
    assert {k: r["name"] for k, r in by_id(pipeline).items()} == {1: "z"}
    assert batch.dead_letters == 2
    reasons = sorted(letter["reason"] for letter in pipeline.dead_letters())
    assert reasons == [
        "op 't' isn't supported; the supported ops are c, r, u and d",
        "the value isn't Debezium's envelope: it has no field 'op'",
    ]


def test_a_drained_topic_leaves_its_table_packed(pipeline):
    keeping = {"enable-optimize": True, "optimize-interval": 100, "enable-vacuum": True}
    pipeline.configure(
        partition_columns=["kind"], batch_size=40, evolution=True, delta={**UPSERT, **keeping}
    )
    records = [
        sent({"id": n}, {"id": n, "kind": "ab"[n % 2]}, second=n, partition=n % 4)
        for n in range(120)
    ]
    pipeline.broker.produce("events", records)
    recorder = pipeline.run()
    done = recorder.maintained[-1]
    assert (done.task, done.result) == ("optimize", "done")
    assert sorted(by_id(pipeline)) == list(range(120))
    assert len(DeltaTable(str(pipeline.table)).file_uris()) == 2
    assert DeltaTable(str(pipeline.table)).history(1)[0]["operation"] == "OPTIMIZE"
    assert pipeline.run().maintained == []


def test_kafka_goes_on_behind_what_was_migrated_on_start(pipeline):
    pipeline.configure(evolution=True)
    config = json.loads(pipeline.file.read_text())
    config["connector"]["migration"] = {"enabled": True, "json-path": {"events": "old"}}
    pipeline.file.write_text(json.dumps(config))
    records = [ProducedRecord(json.dumps({"id": n}).encode(), partition=n % 2) for n in range(20)]
    pipeline.broker.produce("events", records)
    (pipeline.folder / "old").mkdir()
    old = [{"id": n, "_kafka_partition": n % 2, "_kafka_offset": n // 2} for n in range(12)]
    (pipeline.folder / "old" / "batch_1.json").write_text(json.dumps(old))
    recorder = pipeline.run()
    assert recorder.finished[0].error is None
    assert [(m.files, m.rows) for m in recorder.migrations] == [(1, 12)]
    assert sorted(r["id"] for r in pipeline.rows()) == list(range(20))
    (again,) = pipeline.run().migrations
    assert (again.files, again.known) == (0, 1)
    assert len(pipeline.rows()) == 20


@pytest.fixture
def on_executors(spark):
    """No row of an upsert may pass the driver."""
    spark.conf.set("bayou.rowOperations.sourceBytes", "0")
    yield
    spark.conf.unset("bayou.rowOperations.sourceBytes")


@pytest.mark.usefixtures("on_executors")
def test_rows_that_stay_with_the_executors_are_decided_and_merged_there(pipeline):
    pipeline.configure(delta=UPSERT | {"checkpoint-interval": 7}, ordering="n", evolution=True)
    first = [sent({"id": n}, {"id": n, "n": 5}, second=n, partition=n % 4) for n in range(8)]
    pipeline.broker.produce("events", [*first, ProducedRecord(b"{nope", key=b"x", partition=1)])
    (batch,) = pipeline.run().batches
    assert (batch.rows, batch.dead_letters, batch.version) == (8, 1, 0)
    changes = [
        sent({"id": 0}, {"id": 0, "n": 6, "more": "x"}, second=1),
        sent({"id": 4}, {"id": 4, "n": 4}, second=40),  # late by the ordering column
        sent({"id": 1}, None, second=2, partition=1),  # takes the order that the row had
        sent({"id": 1}, {"id": 1, "n": 4}, second=3, partition=1),
        sent({"id": 2}, {"id": 2, "n": 9}, second=31, partition=2),
        sent({"id": 2}, {"id": 2, "n": 8}, second=32, partition=2),
        sent({"id": 99}, None, second=33, partition=3),
    ]
    pipeline.broker.produce("events", changes)
    (batch,) = pipeline.run().batches
    assert (batch.rows, batch.deleted, batch.superseded) == (2, 1, 4)
    assert batch.new_columns == ("more",)
    assert DeltaTable(str(pipeline.table)).history(1)[0]["userMetadata"] == '{"newColumns": "more"}'
    assert {n: row["n"] for n, row in by_id(pipeline).items()} == {
        0: 6,
        2: 9,
        3: 5,
        4: 5,
        5: 5,
        6: 5,
        7: 5,
    }
    gone = DeltaTable(f"{pipeline.table}_deleted_keys").to_pyarrow_table(columns=["id", "n"])
    assert sorted(map(tuple, (row.values() for row in gone.to_pylist()))) == [(1, 5), (99, None)]
    assert DeltaTable(str(pipeline.table)).metadata().configuration == {
        "delta.checkpointInterval": "7",
        "bayou.keyColumns": '["id"]',
        "bayou.orderingColumn": "n",
    }
    assert pipeline.run().batches == []


@pytest.mark.usefixtures("on_executors")
def test_a_first_batch_with_deletes_creates_the_table_and_remembers_the_deleted_keys(pipeline):
    pipeline.configure(delta=UPSERT, evolution=True)
    records = [sent({"id": n}, {"id": n, "n": 5}, second=n) for n in range(4)]
    pipeline.broker.produce("events", [*records, sent({"id": 2}, None, second=9)])
    (batch,) = pipeline.run().batches
    assert (batch.rows, batch.deleted, batch.version) == (3, 0, 1)
    assert sorted(by_id(pipeline)) == [0, 1, 3]
    gone = DeltaTable(f"{pipeline.table}_deleted_keys").to_pyarrow_table(columns=["id"])
    assert gone.to_pylist() == [{"id": 2}]


@pytest.mark.usefixtures("on_executors")
def test_a_first_batch_on_executors_writes_one_file_for_each_table_partition(pipeline):
    pipeline.configure(delta=UPSERT, evolution=True, partition_columns=["kind"])
    records = [sent({"id": n}, {"id": n, "kind": "ab"[n % 2]}, second=n) for n in range(40)]
    pipeline.broker.produce("events", records)
    (batch,) = pipeline.run().batches
    assert batch.rows == 40
    assert len(DeltaTable(str(pipeline.table)).file_uris()) == 2


@pytest.mark.slow
def test_a_batch_that_turns_out_to_be_large_is_read_again_for_the_executors(pipeline, spark):
    spark.conf.set("bayou.rowOperations.sourceBytes", "5000")  # rows are estimated at 8500
    try:
        pipeline.configure(delta=UPSERT, evolution=True)
        records = [sent({"id": n}, {"id": n, "text": "t" * 50}, second=n) for n in range(100)]
        pipeline.broker.produce("events", [*records, ProducedRecord(b"{nope", key=b"x")])
        (batch,) = pipeline.run().batches
    finally:
        spark.conf.unset("bayou.rowOperations.sourceBytes")
    assert (batch.rows, batch.dead_letters) == (100, 1)
    assert sorted(by_id(pipeline)) == list(range(100))
    assert len(pipeline.dead_letters()) == 1


def test_other_key_columns_than_those_of_the_table_are_refused_at_the_start(pipeline):
    pipeline.configure(delta=UPSERT, evolution=True)
    pipeline.broker.produce("events", [sent({"id": 1}, {"id": 1, "other": 2}, second=1)])
    pipeline.run()
    pipeline.configure(delta=UPSERT | {"key-columns": ["other"]}, evolution=True)
    (summary,) = pipeline.run().finished
    assert "written with key-columns (id), but key-columns is now (other)" in summary.error.message
