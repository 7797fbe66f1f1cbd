"""A topic's table from a program: five steps in this order on one table, then the rest."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

import bayou
from bayou.errors import ArgumentError, ConstraintViolationError, PipelineError
from bayou.ingest import TopicTable, load_configuration

CONFIG = """\
connector:
  topics:
    user-events:
      kafka-topic: "user.events.v1"
      event-time: timestamp
      schema-file: schema.json
      destination:
        table-path: lake/user_events
        partition-columns: [year, month, day, event_type]
        key-columns: [user_id, event_type]
        delta-config:
          enable-upsert: {upsert}
          enable-optimize: true
          enable-vacuum: true
          enable-schema-evolution: true
"""
SCHEMA = {
    "type": "object",
    "required": ["user_id", "event_type"],
    "properties": {
        "user_id": {"type": "string"},
        "event_type": {"type": "string"},
        "timestamp": {"type": "string", "format": "date-time"},
    },
}


def topic_table(folder, *, upsert="true"):
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "pipeline.yaml").write_text(CONFIG.format(upsert=upsert))
    return TopicTable(load_configuration(folder / "pipeline.yaml", environment={}), "user-events")


def event(user, kind="click", day=5, **more):
    return {
        "user_id": user,
        "event_type": kind,
        "timestamp": f"2024-01-{day:02}T10:00:00Z",
        **more,
    }


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    return topic_table(tmp_path_factory.mktemp("plan"))


def test_1_a_table_is_made_with_its_partitions(events):
    report = events.write([event("u1"), event("u2", "view"), event("u3", day=6), {"user_id": 7}])
    assert (report.rows, report.dead_letters, report.version) == (3, 1, 0)
    table = DeltaTable(events.topic.table_path)
    assert table.metadata().partition_columns == ["year", "month", "day", "event_type"]
    rows = table.to_pyarrow_table().to_pylist()
    assert {(r["user_id"], r["year"], r["month"], r["day"]) for r in rows} == {
        ("u1", "2024", "01", "05"),
        ("u2", "2024", "01", "05"),
        ("u3", "2024", "01", "06"),
    }
    assert {r["_kafka_partition"] for r in rows} == {-2}


def test_2_evolved_messages_add_new_field(events):
    report = events.write([event("u4", new_field="x")])
    assert report.new_columns == ("new_field",)
    assert json.loads(events.history(1)[0]["userMetadata"]) == {"newColumns": "new_field"}
    rows = {r["user_id"]: r["new_field"] for r in events.read().to_pylist()}
    assert rows == {"u1": None, "u2": None, "u3": None, "u4": "x"}


def test_3_an_upsert_leaves_no_doubles(events):
    report = events.write([event("u1", day=7, new_field="y"), event("u1", "view"), event("u2")])
    assert report.rows == 3
    rows = events.read().to_pylist()
    assert set(Counter((r["user_id"], r["event_type"]) for r in rows).values()) == {1}
    moved = next(r for r in rows if (r["user_id"], r["event_type"]) == ("u1", "click"))
    assert (moved["day"], moved["new_field"]) == ("07", "y")


def test_4_version_0_is_readable_and_there_is_a_history(events):
    assert events.read(version=0).num_rows == 3
    assert events.read(version=0, filter="user_id = 'u2'").num_rows == 1
    assert [c["operation"] for c in events.history()] == ["MERGE", "MERGE", "STREAMING UPDATE"]


def test_5_after_an_optimize_the_last_history_row_says_so(events):
    before = sorted(events.read().to_pylist(), key=str)
    report = events.optimize()
    assert report.result == "done"
    assert events.history(1)[0]["operation"] == "OPTIMIZE"
    assert sorted(events.read().to_pylist(), key=str) == before
    assert [r.task for r in events.maintain()] == ["optimize", "vacuum"]


def test_a_schema_is_made_and_merged_from_messages(tmp_path):
    events = topic_table(tmp_path, upsert="false")
    schema = events.merge_schema([event("u"), event("u", amount=1.5, place={"city": "x"})])
    assert {"amount", "place", "user_id", "year"} <= set(schema.names)
    assert events.read().num_rows == 0
    again = events.merge_schema([event("u", place={"zip": 1})])
    assert again.get("place").data_type.names == ("city", "zip")
    assert len(events.history()) == 2
    events.merge_schema([event("u")])
    assert len(events.history()) == 2
    assert events.write([event("u", amount=2)]).rows == 1


@pytest.mark.parametrize("upsert", ["false", "true"])
def test_a_frozen_schema_leaves_fields_out_and_says_so(tmp_path, upsert):
    events = topic_table(tmp_path, upsert=upsert)
    events.write([event("u1")])
    text = (tmp_path / "pipeline.yaml").read_text()
    text = text.replace("          enable-schema-evolution: true\n", "")
    text = text.replace("      event-time", "      schema-policy: freeze\n      event-time")
    (tmp_path / "pipeline.yaml").write_text(text)
    frozen = TopicTable(
        load_configuration(tmp_path / "pipeline.yaml", environment={}), "user-events"
    )
    report = frozen.write([event("u2", more=1), event("u3", more=[1, "x"], other={"a": 1})])
    assert (report.rows, report.ignored, report.new_columns) == (2, ("more", "other"), ())
    commit = frozen.history(1)[0]
    said = commit["tags"] if upsert == "false" else json.loads(commit["userMetadata"])
    assert said.pop("bayou.checkedVersion", "0") == "0"  # of an append without offsets
    assert said == {"leftOut": "more, other"}
    assert sorted(r["user_id"] for r in frozen.read().to_pylist()) == ["u1", "u2", "u3"]


def test_an_unknown_topic_is_told(tmp_path):
    topic_table(tmp_path)
    configuration = load_configuration(tmp_path / "pipeline.yaml", environment={})
    with pytest.raises(ArgumentError, match="Its topics are 'user-events'"):
        TopicTable(configuration, "nothing")


def test_a_key_that_a_record_cannot_have_stops_the_write(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(
        "connector: {topics: {t: {kafka-topic: t, destination: {table-path: t, key-columns: [k], "
        "delta-config: {enable-upsert: true, enable-schema-evolution: true}}}}}"
    )
    table = TopicTable(load_configuration(tmp_path / "pipeline.yaml", environment={}), "t")
    with pytest.raises(PipelineError, match="'k' is a array"):
        table.write([{"k": [1]}])
    with pytest.raises(PipelineError, match="'k' isn't a field"):
        table.write([{"j": 1}])
    assert table.write([{"k": 1}, {"k": None}, {"k": 2}]).dead_letters == 1
    assert table.read().num_rows == 2


@pytest.mark.parametrize("decode", ["avro", "debezium", "csv"])
def test_records_of_a_program_are_objects_whatever_the_topics_are(tmp_path, decode):
    avro = {"type": "record", "name": "R", "fields": [{"name": "k", "type": "long"}]}
    schema = avro if decode == "avro" else {"properties": {"k": {"type": "integer"}}}
    (tmp_path / "schema").write_text(json.dumps(schema))
    (tmp_path / "p.yaml").write_text(
        f"connector: {{topics: {{t: {{kafka-topic: t, decode: {decode}, schema-file: schema, "
        "destination: {table-path: t, key-columns: [k], delta-config: {enable-upsert: true}}}}}"
    )
    table = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "t")
    report = table.write([{"k": 1}, {"k": 1}, {"k": "x"}])
    assert (report.rows, report.superseded, report.dead_letters) == (1, 1, 1)
    assert table.read(columns=["k"]).to_pylist() == [{"k": 1}]


def test_several_writers_of_one_table_lose_no_record(tmp_path):
    table = topic_table(tmp_path)
    table.write([event("first")])
    barrier = threading.Barrier(3)

    def write(writer):
        barrier.wait()
        return table.write([event(f"u{writer}"), event("all")])

    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(write, range(3)))
    assert sum(report.rows for report in reports) >= 4
    found = table.read(columns=["user_id"])["user_id"].to_pylist()
    assert sorted(found) == ["all", "first", "u0", "u1", "u2"]


def test_a_field_with_a_null_character_in_its_name_closes_no_table(tmp_path):
    events = topic_table(tmp_path, upsert="false")
    report = events.write([event("u1"), event("u2", **{"a\0b": 1}), event("u3", x={"a\0b": 1})])
    assert (report.rows, report.dead_letters) == (1, 2)
    assert events.read().num_rows == 1
    assert events.write([event("u4"), event("u5", y=[{"a\0b": 1}])]).dead_letters == 1
    assert events.read().num_rows == 2


def test_a_failed_write_names_the_dead_letters_that_it_has_committed(tmp_path):
    events = topic_table(tmp_path, upsert="false")
    events.write([event("ann")])
    events.handle.alter.add_constraint({"named": "user_id != 'bob'"})
    before = events.handle.version()
    with pytest.raises(ConstraintViolationError) as caught:
        events.write([event("bob"), {"user_id": 5}])
    letters = f"{events.topic.table_path}_dead_letters"
    assert caught.value.message.endswith(
        f"{letters}: 1 of the records was committed as a dead letter before this error. Before "
        "you write it again, delete the dead letter with bayou dlq drop."
    )
    assert "othing was" not in caught.value.message
    assert isinstance(caught.value, ConstraintViolationError)
    assert events.handle.version() == before
    assert bayou.table(letters).to_arrow().num_rows == 1
    with pytest.raises(ConstraintViolationError) as caught:
        events.write([event("bob")])
    assert "dead letter" not in caught.value.message
