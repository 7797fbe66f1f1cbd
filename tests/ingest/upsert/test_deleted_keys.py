"""The table of deleted keys follows its target."""

from __future__ import annotations

import json

import pytest

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.config.table_paths import deleted_keys_path
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch

CONFIG = """\
connector:
  topics:
    t:
      kafka-topic: t
      decode: avro
      schema-file: s.avsc
      destination:
        table-path: t
        key-columns: [id]
        {ordering}
        delta-config: {{enable-upsert: true, enable-schema-evolution: true}}
"""


@pytest.mark.parametrize("ordering", ["", "ordering-column: at"])
def test_keys_of_a_wider_type_are_remembered_once_the_target_has_them(tmp_path, ordering):
    (tmp_path / "p.yaml").write_text(CONFIG.format(ordering=ordering))
    count = 0

    def send(*records):
        nonlocal count
        keys = [json.dumps(key).encode() for key, _ in records]
        values = [None if row is None else json.dumps(row).encode() for _, row in records]
        moments = [100 + count] * len(records)
        batch = record_batch("t", values, partition=0, first=count, timestamps=moments, keys=keys)
        count += len(records)
        configuration = load_configuration(tmp_path / "p.yaml", environment={})
        topic = configuration.topic("t")
        DirectWriter(configuration, topic).write([batch], {})
        return TopicTable(configuration, "t")

    def declare(kind):
        fields = [{"name": name, "type": ["null", kind]} for name in ("id", "at")]
        schema = {"type": "record", "name": "R", "fields": fields}
        (tmp_path / "s.avsc").write_text(json.dumps(schema))

    declare("int")
    send((1, {"id": 1, "at": 1}), (2, {"id": 2, "at": 1}))
    table = send((1, None))
    table.handle.alter.set_table_properties({"delta.enableTypeWidening": "true"})
    declare("long")
    far = 1 << 40
    send((far, {"id": far, "at": far}), (3, {"id": 3, "at": 1}))
    table = send((far, None))
    assert sorted(table.read(columns=["id"])["id"].to_pylist()) == [2, 3]
    gone = bayou.table(deleted_keys_path(table.topic.table_path)).to_arrow()
    assert sorted(gone.column("id").to_pylist()) == [1, far]
    count = -1  # older than the delete
    table = send((far, {"id": far, "at": 1}))
    assert sorted(table.read(columns=["id"])["id"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("begins_with", ["records", "merge_schema"])
def test_a_table_that_is_made_anew_knows_no_key_that_an_earlier_one_has_deleted(
    tmp_path, begins_with
):
    text = CONFIG.format(ordering="").replace("      decode: avro\n      schema-file: s.avsc\n", "")
    (tmp_path / "p.yaml").write_text(text)
    configuration = load_configuration(tmp_path / "p.yaml", environment={})
    table = TopicTable(configuration, "t")

    def send(first, at, *records):
        keys, values = zip(*records, strict=True)
        moments = [at] * len(records)
        batch = record_batch("t", values, partition=0, first=first, timestamps=moments, keys=keys)
        DirectWriter(configuration, configuration.topic("t")).write([batch], {})

    send(0, 100, (b"1", b'{"id": 1}'), (b"2", b'{"id": 2}'))
    send(2, 200, (b"1", None))
    (tmp_path / "t").rename(tmp_path / "aside")
    if begins_with == "merge_schema":
        table.merge_schema([{"id": 1}])
    send(0, 100, (b"1", b'{"id": 1}'), (b"3", b'{"id": 3}'), (b"4", b'{"id": 4}'), (b"4", None))
    assert sorted(table.read()["id"].to_pylist()) == [1, 3]
    gone = bayou.table(deleted_keys_path(table.topic.table_path)).to_arrow()
    assert gone["id"].to_pylist() == [4]
