"""Records of any format that are nested more deeply than any program means."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from bayou.ingest.decode import DecodePlan
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat, avro_schema_columns
from bayou.ingest.decode.json_schema import JSON_TEXT
from bayou.ingest.decode.nesting import (
    MAX_NESTING,
    RecordTooDeepError,
    check_json_nesting,
    check_nesting,
)
from bayou.protocol.schema import LONG, STRING, StructField, StructType

REASON = f"nested too deeply: more than {MAX_NESTING} levels"
LINKED = json.dumps(
    {
        "type": "record",
        "name": "L",
        "fields": [{"name": "v", "type": "long"}, {"name": "next", "type": ["null", "L"]}],
    }
)
ENDLESS = json.dumps(
    {
        "type": "record",
        "name": "E",
        "fields": [{"name": "e", "type": {"type": "map", "values": "E"}}],
    }
)
FOREVER = json.dumps({"type": "record", "name": "F", "fields": [{"name": "f", "type": "F"}]})
TREE = json.dumps(
    {
        "type": "record",
        "name": "T",
        "fields": [{"name": "t", "type": {"type": "array", "items": "T"}}],
    }
)


@given(
    kinds=st.lists(st.booleans(), min_size=1, max_size=3 * MAX_NESTING),
    beside=st.sampled_from([None, "[[{{" * MAX_NESTING, [{}] * MAX_NESTING]),
)
def test_a_value_and_its_text_are_refused_beyond_the_same_depth(kinds, beside):
    value = 1
    for is_list in kinds:
        value = [value, "{["] if is_list else {'"[': value}
    if beside is not None:
        value = [beside, value]
    deep = max(len(kinds) + (beside is not None), 3 if isinstance(beside, list) else 0)
    for check, argument in (
        (check_nesting, value),
        (check_json_nesting, json.dumps(value).encode()),
    ):
        if deep > MAX_NESTING:
            with pytest.raises(RecordTooDeepError):
                check(argument)
        else:
            check(argument)


FORMATS = {
    "plain": RecordFormat(),
    "flattened": RecordFormat(flatten="_"),
    "timestamps": RecordFormat(timestamps={"at": "iso"}),
    "schema": RecordFormat(flatten="_", json_schema='{"type": "object"}'),
}


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("discover", [True, False])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [MAX_NESTING - 1, MAX_NESTING, 990, 5000])
def test_json_beyond_the_limit_is_refused_by_every_way_to_read_it(
    name, discover, opening, closing, depth
):
    columns = StructType((StructField(name="id", data_type=LONG),))
    plan = DecodePlan(columns=columns, json_schema=None, discover=discover, ignore=not discover)
    poison = b'{"id": 1, "x": ' + opening * depth + b"1" + closing * depth + b"}"
    values = [b'{"id": 0}', poison, b'{"id": 2}']
    found = RecordDecoder(FORMATS[name], plan).decode(pa.array(values, pa.binary()))
    assert found.reasons.to_pylist() == ([] if depth < MAX_NESTING else [REASON])
    assert found.bad_positions.to_pylist() == ([] if depth < MAX_NESTING else [1])


def read_avro(schema, *values):
    columns = avro_schema_columns(schema)
    plan = DecodePlan(columns=columns, json_schema=None, discover=False)
    decoder = RecordDecoder(RecordFormat(name="avro", schema=schema), plan)
    return decoder.decode(pa.array(values, pa.binary()))


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 300, 8000, 1_000_000])
def test_a_recursive_avro_record_beyond_the_limit_is_refused(depth):
    found = read_avro(LINKED, b"\x02\x00", b"\x00\x02" * depth + b"\x00\x00", b"\x04\x00")
    assert found.reasons.to_pylist() == [REASON]
    assert found.columns["v"].to_pylist() == [1, 2]


def test_a_recursive_avro_record_up_to_the_limit_is_a_row():
    found = read_avro(LINKED, b"\x00\x02" * (MAX_NESTING - 1) + b"\x00\x00")
    assert found.columns["v"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (ENDLESS, b"\x02\x02a" * 100_000),
        (TREE, b"\x02" * 100_000),
        (FOREVER, b""),
    ],
)
def test_no_recursive_avro_schema_ends_the_process(schema, value):
    assert read_avro(schema, value).reasons.to_pylist() == [REASON]


@pytest.mark.parametrize(("depth", "refused"), [(90, False), (150, True), (100_000, True)])
def test_a_recursive_protobuf_record_beyond_the_limit_is_refused(depth, refused):
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="l.proto", package="p", syntax="proto3")
    field = file.message_type.add(name="L").field.add(name="next", number=1, type_name=".p.L")
    field.type, field.label = types.TYPE_MESSAGE, types.LABEL_OPTIONAL
    told = {"schema": base64.b64encode(file.SerializeToString()).decode()}
    registry = SimpleNamespace(schema=lambda number, *, serialized: told)
    body = b""
    for _ in range(min(depth, 200)):
        size = len(body)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        body = b"\x0a" + length + body
    if depth > 200:
        body = b"\x0a\xff\xff\xff\x7f" * depth
    value = b"\0\0\0\0\1\0" + body
    columns = StructType((StructField(name="next", data_type=STRING, metadata=JSON_TEXT),))
    plan = DecodePlan(columns=columns, json_schema=None, discover=False)
    decoder = RecordDecoder(RecordFormat(name="protobuf", registry=registry), plan)
    reasons = decoder.decode(pa.array([value], pa.binary())).reasons.to_pylist()
    assert ["doesn't match its Protobuf schema" in reason for reason in reasons] == [True] * refused


def test_an_avro_schema_that_is_itself_too_deep_is_refused():
    schema = '{"type": "array", "items": ' * 50_000 + '"long"' + "}" * 50_000
    with pytest.raises(ValueError, match="nested too deeply"):
        avro_schema_columns(schema)


def test_an_avro_type_that_is_used_twice_is_not_recursive():
    number = {"name": "n", "type": ["null", "int"]}
    schema = {
        "type": "record",
        "name": "Twice",
        "fields": [
            {"name": "a", "type": {"type": "record", "name": "P", "fields": [number]}},
            {"name": "b", "type": ["null", "P"]},
            {"name": "c", "type": {"type": "array", "items": "P"}},
        ],
    }
    from bayou.ingest.decode.formats.avro import _parsed, _Schema

    assert not _Schema(_parsed(json.dumps(schema))).is_bounded
    assert _Schema(_parsed(LINKED)).read is not fastavro.schemaless_reader
