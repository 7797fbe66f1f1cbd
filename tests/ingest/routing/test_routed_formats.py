"""Topics of Avro, Protobuf and JSON Schema records with `route-by`."""

from __future__ import annotations

import base64
import io
import json

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from support.registry_double import RegistryDouble
from support.routed_pipelines import configured, ids, proof, reasons, routed_table, tables

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
FIELDS = [("id", "long"), ("kind", "string"), ("at", "long")]


@pytest.fixture
def double():
    with RegistryDouble() as double:
        yield double


def avro_schema(fields):
    listed = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Event", "fields": listed})


def protobuf_schema(fields):
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", syntax="proto2")
    message = file.message_type.add(name="Event")
    for number, (name, kind) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=3 if kind == "long" else 9, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


def json_schema(fields):
    kinds = {"long": "integer", "string": "string"}
    return json.dumps({"type": "object", "properties": {n: {"type": kinds[k]} for n, k in fields}})


SCHEMAS = {"avro": avro_schema, "protobuf": protobuf_schema, "json-schema": json_schema}


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def body(kind, fields, row):
    if kind == "json-schema":
        return json.dumps(
            {name: value for name, value in row.items() if value is not None}
        ).encode()
    if kind == "avro":
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(avro_schema(fields))), row)
        return out.getvalue()
    out = b"\x00"  # the first message of the file
    for number, (name, of) in enumerate(fields, 1):
        if row.get(name) is None:
            continue
        if of == "long":
            out += varint(number << 3) + varint(row[name])
        else:
            text = row[name].encode()
            out += varint(number << 3 | 2) + varint(len(text)) + text
    return out


def record(kind, number, fields, row):
    return b"\x00" + number.to_bytes(4, "big") + body(kind, fields, row)


@pytest.fixture(params=sorted(SCHEMAS))
def topic(request, new_pipeline, double):
    """A pipeline that routes by `kind`; the format, and a function that produces rows."""
    kind = request.param
    pipeline = new_pipeline()
    pipeline.evolves = True
    configured(pipeline)
    text = pipeline.file.read_text()
    text = text.replace(
        "  topics:\n", f'  schema-registry: {{url: "{double.url}"}}\n  topics:\n', 1
    )
    name = f"      kafka-topic: {pipeline.kafka_topic}\n"
    assert name in text
    pipeline.file.write_text(text.replace(name, f"{name}      decode: {kind}\n"))

    def produce(*rows, fields=FIELDS):
        subject = f"{pipeline.kafka_topic}-value"
        number = double.register(subject, SCHEMAS[kind](fields), KINDS[kind])
        pipeline.produce(*(record(kind, number, fields, row) for row in rows))

    return pipeline, kind, produce


def row(number, kind):
    return {"id": number, "kind": kind, "at": 5}


def test_each_record_goes_to_the_table_of_its_value(topic):
    pipeline, _, produce = topic
    produce(row(1, "a"), row(2, "b"), row(3, "a"), row(4, None))
    pipeline.take_in()
    assert tables(pipeline) == ["events", "events_a", "events_b"]
    assert (ids(pipeline, "events_a"), ids(pipeline, "events_b"), ids(pipeline)) == (
        [1, 3],
        [2],
        [4],
    )
    assert proof(pipeline).holds


def test_a_record_that_cannot_be_decoded_is_a_dead_letter(topic):
    pipeline, kind, produce = topic
    produce(row(1, "a"))
    pipeline.produce(b"no header", b"\x00\x00\x00\x03\xe7" + body(kind, FIELDS, row(2, "a")))
    produce(row(3, "b"))
    pipeline.take_in()
    assert (ids(pipeline, "events_a"), ids(pipeline, "events_b")) == ([1], [3])
    assert len(reasons(pipeline)) == 2
    assert any("has no schema 999" in reason for reason in reasons(pipeline))


def test_a_field_of_a_new_schema_becomes_a_column_of_the_tables_that_get_it(topic):
    pipeline, _, produce = topic
    produce(row(1, "a"), row(2, "b"))
    pipeline.take_in()
    wider = [*FIELDS, ("device", "string")]
    produce({**row(3, "a"), "device": "phone"}, fields=wider)
    pipeline.take_in()
    found = routed_table(pipeline, "events_a").to_arrow(columns=["id", "device"]).to_pylist()
    assert sorted(found, key=lambda r: r["id"]) == [
        {"id": 1, "device": None},
        {"id": 3, "device": "phone"},
    ]
    assert "device" not in routed_table(pipeline, "events_b").schema().names
    assert proof(pipeline).holds
