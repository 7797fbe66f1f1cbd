"""Values of Avro and Protobuf in columns that have another type than their schema."""

from __future__ import annotations

import decimal
import io
import json

import fastavro
import pyarrow as pa
import pytest

from bayou.ingest.decode import DecodePlan
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.ingest.decode.json_schema import JSON_TEXT
from bayou.protocol.schema import (
    BINARY,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    ArrayType,
    MapType,
    StructField,
    StructType,
)

NULLABLE_BYTES = ["null", "bytes"]


def decoded(kind, value, column, metadata=None):
    """Decode an Avro record with a field `v` to a column `v`."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"v": value})
    columns = StructType((StructField(name="v", data_type=column, metadata=metadata or {}),))
    plan = DecodePlan(columns=columns, json_schema=None, discover=False)
    decoder = RecordDecoder(RecordFormat(name="avro", schema=json.dumps(schema)), plan)
    return decoder.decode(pa.array([out.getvalue()], pa.binary()))


def bytes_decimal(precision):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 0}


@pytest.mark.parametrize(
    ("kind", "value", "column", "stored"),
    [
        ("string", "null", BINARY, b"null"),  # valid Base64
        ("string", "ü", BINARY, "ü".encode()),
        ("bytes", "ü".encode(), STRING, "ü"),
        (NULLABLE_BYTES, None, STRING, None),
        (["string", "bytes"], "abcd", BINARY, b"abcd"),
        (["string", "bytes"], b"abcd", BINARY, b"abcd"),
        ({"type": "array", "items": "bytes"}, [b"a"], ArrayType(element_type=STRING), ["a"]),
        (
            {"type": "map", "values": "string"},
            {"k": "abcd"},
            MapType(key_type=STRING, value_type=BINARY),
            [("k", b"abcd")],
        ),
        (
            {"type": "record", "name": "I", "fields": [{"name": "i", "type": "bytes"}]},
            {"i": b"a"},
            StructType((StructField(name="i", data_type=STRING),)),
            {"i": "a"},
        ),
        ("double", 2.0**60, LONG, 2**60),
        ("float", 2.0**62, LONG, 2**62),
        ("double", 2.0**60, DOUBLE, 2.0**60),
        ("int", 5, DOUBLE, 5.0),
    ],
)
def test_a_value_of_another_type_than_its_column_is_the_same_value(kind, value, column, stored):
    found = decoded(kind, value, column)
    assert found.reasons.to_pylist() == []
    assert found.columns.column("v").to_pylist() == [stored]


@pytest.mark.parametrize(
    ("kind", "value", "column"),
    [
        ("bytes", b"\xff", STRING),
        ("bytes", b"\xd7m\xf8", DATE),
        (bytes_decimal(8), decimal.Decimal(1234), BINARY),  # the digits are valid Base64
        ("double", 1.5, LONG),
        ("double", 2.0**63, LONG),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused(kind, value, column):
    found = decoded(kind, value, column)
    assert found.columns.num_rows == 0
    assert found.reasons.to_pylist()[0].startswith("field 'v': ")


def test_columns_of_json_have_bytes_as_base64():
    found = decoded("bytes", b"a", STRING, JSON_TEXT)
    assert found.columns.column("v").to_pylist() == ['"YQ=="']
