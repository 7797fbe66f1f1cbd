"""Kafka keys with a schema registry's header, which delete rows."""

from __future__ import annotations

import base64
import io
import json

import fastavro
import pytest
from google.protobuf import descriptor_pb2

import bayou
from bayou.errors import ConfigurationError
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch
from support.registry_double import RegistryDouble

CONFIG = """\
connector:
  kafka: {{bootstrap-servers: "h:1"}}
  schema-registry: {{url: "{url}"{strategy}}}
  topics:
    rows:
      kafka-topic: rows
      decode-key: {kind}
      kafka-columns: [key-json]
      destination:
        table-path: rows
        key-columns: [id]
        delta-config: {{enable-upsert: true, enable-schema-evolution: true}}
"""
RECORD = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
JSON_KEY = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture
def double():
    with RegistryDouble() as double:
        yield double


def header(number, body):
    return b"\x00" + number.to_bytes(4, "big") + body


def avro(schema, datum):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return out.getvalue()


def protobuf_schema():
    file = descriptor_pb2.FileDescriptorProto(name="key.proto", syntax="proto3")
    message = file.message_type.add(name="Key")
    message.field.add(name="id", number=1, type=3, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


KEYS = [
    ("avro", json.dumps(RECORD), avro(RECORD, {"id": 7})),
    ("avro", '"long"', avro("long", 7)),
    ("protobuf", protobuf_schema(), b"\x00\x08\x07"),
    ("json-schema", json.dumps(JSON_KEY), b'{"id": 7}'),
    ("json-schema", '{"type": "integer"}', b"7"),
]


TEXTS = ('{"id":7}', "7", '{"id":7}', '{"id":7}', "7")


def topic_table(tmp_path, double, kind, strategy=""):
    """Return the configuration of the topic, and its table."""
    (tmp_path / "p.yaml").write_text(CONFIG.format(url=double.url, kind=kind, strategy=strategy))
    configuration = load_configuration(tmp_path / "p.yaml", environment={})
    configuration.check_runnable()
    return configuration, TopicTable(configuration, "rows")


def write(table, keys, values):
    configuration, rows = table
    batch = record_batch(
        "rows", values, partition=0, first=0, timestamps=range(len(values)), keys=keys
    )
    DirectWriter(configuration, rows.topic, records_of_topic=True).write([batch], {})


def reasons_of(table):
    letters = bayou.table(dead_letters_path(table[1].topic.table_path))
    return letters.to_arrow().column("reason").to_pylist() if letters.exists() else []


def send(tmp_path, double, kind, keys, strategy=""):
    """Write the rows 7 and 8, and deletes with these keys; return the ids and the reasons."""
    table = topic_table(tmp_path, double, kind, strategy)
    values = [b'{"id": 7, "x": 1}', b'{"id": 8, "x": 1}', *[None] * len(keys)]
    write(table, [None, None, *keys], values)
    return sorted(table[1].read(columns=["id"])["id"].to_pylist()), reasons_of(table)


@pytest.mark.parametrize(("kind", "schema", "body"), KEYS)
def test_a_key_of_each_format_deletes_its_row(tmp_path, double, kind, schema, body):
    number = double.register("rows-key", schema, kind)
    assert send(tmp_path, double, kind, [header(number, body)]) == ([8], [])


def test_bytes_of_a_key_are_base64_as_in_records_of_json(tmp_path, double):
    number = double.register("rows-key", '"bytes"')
    table = topic_table(tmp_path, double, "avro")
    values = [b'{"id": "YWJj"}', b'{"id": "eHl6"}', None]
    write(table, [None, None, header(number, avro("bytes", b"abc"))], values)
    assert table[1].read(columns=["id"])["id"].to_pylist() == ["eHl6"]


def test_keys_that_cannot_be_read_are_dead_letters(tmp_path, double):
    number = double.register("rows-key", json.dumps(RECORD))
    keys = [header(number, b""), header(99, b"\x0e"), b"7"]
    rows, reasons = send(tmp_path, double, "avro", keys)
    assert rows == [7, 8]
    assert len(reasons) == 3
    assert all(r.startswith("the Kafka key of a delete can't be read: ") for r in reasons)
    assert any("the schema registry has no schema 99" in reason for reason in reasons)


def test_the_subject_of_keys_is_sent(tmp_path, double):
    number = double.register("rows-key", '"long"')
    key = header(number, avro("long", 7))
    assert send(tmp_path, double, "avro", [key], ", subject-name-strategy: topic-name")[0] == [8]
    assert double.queries(f"/schemas/ids/{number}") == [{"subject": ["rows-key"]}]


def test_formats_of_a_registry_need_the_section(tmp_path):
    text = CONFIG.replace('  schema-registry: {{url: "{url}"{strategy}}}\n', "")
    (tmp_path / "p.yaml").write_text(text.format(kind="avro"))
    configuration = load_configuration(tmp_path / "p.yaml", environment={})
    with pytest.raises(ConfigurationError, match=r"rows\.decode-key: avro needs connector\.schema"):
        configuration.check_runnable()


def test_a_strategy_by_record_needs_the_name_of_the_record(tmp_path, double):
    text = CONFIG.replace("decode-key: {kind}", "decode: avro").format(
        url=double.url, strategy=", subject-name-strategy: topic-record-name"
    )
    (tmp_path / "p.yaml").write_text(text)
    configuration = load_configuration(tmp_path / "p.yaml", environment={})
    with pytest.raises(ConfigurationError, match=r"rows\.schema-record: subject-name-strategy"):
        configuration.check_runnable()


@pytest.mark.parametrize(
    ("kind", "schema", "body", "text"),
    [(*key, text) for key, text in zip(KEYS, TEXTS, strict=True)],
)
def test_keys_are_a_column_as_json(tmp_path, double, kind, schema, body, text):
    number = double.register("rows-key", schema, kind)
    table = topic_table(tmp_path, double, kind)
    write(table, [header(number, body), None], [b'{"id": 7}', b'{"id": 8}'])
    rows = table[1].read(columns=["id", "_kafka_key_json"]).to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 7, "_kafka_key_json": text},
        {"id": 8, "_kafka_key_json": None},
    ]


def test_a_row_whose_key_cannot_be_read_is_a_dead_letter(tmp_path, double):
    table = topic_table(tmp_path, double, "avro")
    write(table, [b"7", None], [b'{"id": 7}', b'{"id": 8}'])
    assert table[1].read(columns=["id"])["id"].to_pylist() == [8]
    assert reasons_of(table) == ["the Kafka key: doesn't start with a schema registry's header"]


def test_keys_without_a_registry_are_json_or_strings(tmp_path, double):
    table = topic_table(tmp_path, double, "json")
    keys = [b'{"a": 1}', b"plain", b"12", None]
    write(table, keys, [f'{{"id": {n}}}'.encode() for n in range(4)])
    rows = table[1].read(columns=["id", "_kafka_key_json"]).sort_by("id")
    assert rows["_kafka_key_json"].to_pylist() == ['{"a": 1}', '"plain"', "12", None]
