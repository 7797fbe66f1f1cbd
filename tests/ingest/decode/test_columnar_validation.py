"""Records that a JSON Schema certainly accepts, found from parsed columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bayou.ingest.decode.columnar_validation import ColumnarValidator
from bayou.ingest.decode.columns import ColumnReader
from bayou.ingest.decode.json_schema import record_columns, record_validator
from bayou.protocol.schema import StructType

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "orders",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "description": "unique"},
        "kind": {"enum": ["a", "b"]},
        "place": {
            "type": "object",
            "required": ["city"],
            "properties": {"city": {"type": "string"}},
        },
        "seen": {"type": "array", "items": {"type": "string", "format": "date"}},
    },
}
COMPLETE = {"id": 1, "kind": "a", "place": {"city": "Houma"}, "seen": ["2024-01-05"]}
WITHOUT_KIND = {name: value for name, value in COMPLETE.items() if name != "kind"}


def accepted(records, schema=None):
    text = json.dumps(SCHEMA if schema is None else schema)
    columns = record_columns(text)
    validator = ColumnarValidator.of(text, columns)
    values = pa.array([json.dumps(record).encode() for record in records], pa.binary())
    reader = ColumnReader(columns)
    table = reader.parse(values)
    reader.convert(table)
    return validator.accepts(table).to_pylist()


def test_a_record_with_all_values_is_certainly_accepted() -> None:
    assert accepted([COMPLETE, COMPLETE | {"other": 1}]) == [True, True]


@pytest.mark.parametrize(
    "record",
    [
        WITHOUT_KIND,
        COMPLETE | {"id": None},
        COMPLETE | {"kind": "c"},
        COMPLETE | {"place": {}},
        COMPLETE | {"place": None},
        COMPLETE | {"seen": None},
    ],
)
def test_other_records_are_left_to_the_validator(record) -> None:
    assert accepted([record, COMPLETE]) == [False, True]


def test_one_null_in_an_array_makes_the_whole_block_uncertain() -> None:
    assert accepted([COMPLETE | {"seen": [None]}, COMPLETE]) == [False, False]


@pytest.mark.parametrize(
    "changed",
    [
        {"id": {"type": "integer", "minimum": 0}},
        {"id": {"type": ["integer", "number"]}},
        {"id": {"type": "integer", "format": "int32"}},
        {"kind": {"type": "string", "pattern": "^a"}},
        {"kind": {"type": "string", "format": "email"}},
        {"place": {"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}}}},
        {"place": {"type": "object", "properties": {"n": {}}, "additionalProperties": False}},
        {"seen": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
        {"kind": {"$ref": "#/properties/id"}},
    ],
)
def test_a_schema_with_other_keywords_needs_the_validator_for_each_record(changed) -> None:
    text = json.dumps(SCHEMA | {"properties": SCHEMA["properties"] | changed})
    assert ColumnarValidator.of(text, record_columns(text)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"required": ["id", "unnamed"]},
        {"additionalProperties": False},
        {"minProperties": 9},
        {"if": {"required": ["kind"]}},
    ],
)
def test_restrictions_of_the_whole_record_need_the_validator(changed) -> None:
    text = json.dumps(SCHEMA | changed)
    assert ColumnarValidator.of(text, record_columns(text)) is None


def test_a_property_that_is_not_read_needs_the_validator() -> None:
    text = json.dumps(SCHEMA)
    fewer = StructType(tuple(field for field in record_columns(text) if field.name != "kind"))
    assert ColumnarValidator.of(text, fewer) is None


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07"])
@pytest.mark.parametrize(
    "time",
    ["2024-02-29T23:59:59Z", "2024-01-05T10:00:00.123456+02:00", "9999-12-31T00:00:00-23:59"],
)
def test_times_that_are_converted_are_valid_in_every_draft(draft, time) -> None:
    schema = {
        "$schema": f"http://json-schema.org/{draft}/schema#",
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date-time"}},
    }
    text = json.dumps(schema)
    assert record_validator(text).is_valid({"at": time})
    if not time.startswith("9999"):
        assert accepted([{"at": time}], schema) == [True]
