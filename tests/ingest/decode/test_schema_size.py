"""Schemas of a few bytes that describe billions of fields, and records of a few bytes in them."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from bayou.ingest.decode import DecodePlan, record_columns
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat, avro_schema_columns
from bayou.protocol.schema import StructType

TOO_LARGE = "more than 10,000 fields"


def doubled_avro(innermost, depth, *, last="null"):
    """Each of some records has two fields of the record before it."""
    kind = innermost
    for level in range(depth):
        again = f"R{level - 1}" if level else innermost
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": again}]
        if last == "union":
            fields = [{**field, "type": ["null", field["type"]]} for field in fields]
        kind = {"type": "record", "name": f"R{level}", "fields": fields}
    return kind


def array_of(items):
    fields = [{"name": "a", "type": {"type": "array", "items": items}}]
    return {"type": "record", "name": "Top", "fields": fields}


def field_of(kind):
    return {"type": "record", "name": "Top", "fields": [{"name": "a", "type": kind}]}


def decoded(schema, body, *, name="avro"):
    told = SimpleNamespace(
        schema=lambda *_, **__: {"schema": schema if name == "protobuf" else json.dumps(schema)}
    )
    plan = DecodePlan(columns=StructType(), json_schema=None, discover=True)
    decoder = RecordDecoder(RecordFormat(name=name, registry=told), plan)
    value = b"\0\0\0\0\1" + body
    return decoder.decode(pa.array([value, value], pa.binary()))


@pytest.mark.parametrize("last", ["null", "union"])
def test_an_avro_schema_whose_records_double_refuses_its_records(last):
    found = decoded(doubled_avro("int", 40, last=last), b"\0\0")
    assert len(found.bad_positions) == 2
    assert all(TOO_LARGE in reason for reason in found.reasons.to_pylist())


def test_an_avro_record_of_no_byte_that_holds_billions_of_nulls_is_refused():
    found = decoded(field_of(["string", doubled_avro("null", 40)]), b"\2")
    assert all(TOO_LARGE in reason for reason in found.reasons.to_pylist())


def test_an_avro_schema_file_whose_records_double_is_told():
    with pytest.raises(ValueError, match=TOO_LARGE):
        avro_schema_columns(json.dumps(doubled_avro("int", 40)))


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "fixed", "name": "Nothing", "size": 0},
        {"type": "record", "name": "Empty", "fields": []},
        {"type": "record", "name": "Nulls", "fields": [{"name": "n", "type": "null"}]},
    ],
)
def test_an_avro_array_of_a_trillion_elements_without_bytes_is_refused(items):
    trillion = b"\x80\x80\xa2\xa9\xe2\x3a\0"
    found = decoded(array_of(items), trillion)
    assert found.bad_positions.to_pylist() == [0, 1]
    assert all("zero-byte values" in reason for reason in found.reasons.to_pylist())


def test_an_avro_array_of_some_nulls_is_read():
    found = decoded(array_of("null"), b"\6\0")
    assert not len(found.bad_positions)


def test_a_protobuf_schema_whose_messages_double_refuses_its_records():
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="p", syntax="proto3")
    types = descriptor_pb2.FieldDescriptorProto
    for level in reversed(range(40)):
        message = file.message_type.add(name=f"M{level}")
        for number, name in enumerate("ab", 1):
            kind = {"type": types.TYPE_INT32}
            if level:
                kind = {"type": types.TYPE_MESSAGE, "type_name": f".p.M{level - 1}"}
            message.field.add(name=name, number=number, label=types.LABEL_OPTIONAL, **kind)
    told = base64.b64encode(file.SerializeToString()).decode()
    found = decoded(told, b"\0", name="protobuf")
    assert all(TOO_LARGE in reason for reason in found.reasons.to_pylist())


@pytest.mark.parametrize("around", [lambda node: node, lambda node: {"allOf": [node]}])
def test_a_json_schema_of_a_tree_with_two_branches_is_told(around):
    node = around({"$ref": "#/$defs/node"})
    tree = {"type": "object", "properties": {"left": node, "right": node}}
    schema = {"type": "object", "properties": {"root": node}, "$defs": {"node": tree}}
    with pytest.raises(ValueError, match=TOO_LARGE):
        record_columns(json.dumps(schema))


def test_a_protobuf_string_that_is_not_utf_8_is_refused():
    file = descriptor_pb2.FileDescriptorProto(name="s.proto", package="p", syntax="proto2")
    types = descriptor_pb2.FieldDescriptorProto
    message = file.message_type.add(name="S")
    message.field.add(name="s", number=1, type=types.TYPE_STRING, label=types.LABEL_OPTIONAL)
    told = base64.b64encode(file.SerializeToString()).decode()
    found = decoded(told, b"\0\x0a\x02\xff\xfe", name="protobuf")
    assert found.reasons[0].as_py() == "doesn't match its Protobuf schema: a string isn't UTF-8"


def test_a_negative_message_index_is_no_message():
    file = descriptor_pb2.FileDescriptorProto(name="s.proto", package="p", syntax="proto3")
    file.message_type.add(name="First")
    file.message_type.add(name="Last")
    told = base64.b64encode(file.SerializeToString()).decode()
    found = decoded(told, b"\2\1", name="protobuf")
    assert "has no message [-1]" in found.reasons[0].as_py()
