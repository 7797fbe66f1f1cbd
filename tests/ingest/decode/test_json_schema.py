"""JSON Schema to columns."""

from __future__ import annotations

import json

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.decode import read_json_schema, record_columns
from bayou.ingest.decode.json_schema import is_json_text, record_validator


def columns(properties, **beside):
    return record_columns(json.dumps({"type": "object", "properties": properties, **beside}))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "long"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": ["integer", "null"]}, "long"),
        ({"type": ["integer", "number"]}, "double"),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, "date"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": 5}, "long"),
        ({"properties": {"a": {"type": "integer"}}}, "struct<a:long>"),
        ({"type": "array", "items": {"type": "number"}}, "array<double>"),
        ({"$ref": "#/$defs/point"}, "struct<x:double,y:double>"),
        ({"$ref": "#a-point"}, "struct<x:double,y:double>"),
        ({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}}, "struct<a:long>"),
        (
            {"type": ["array", "null"], "items": {"$ref": "#/$defs/point"}},
            "array<struct<x:double,y:double>>",
        ),
        ({"oneOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]}, "struct<x:double,y:double>"),
        ({"anyOf": [{"type": "integer", "minimum": 9}, {"type": "integer", "maximum": 1}]}, "long"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}, {"const": None}]}, "string"),
        ({"allOf": [{"$ref": "#/$defs/point"}], "description": "?"}, "struct<x:double,y:double>"),
        (
            {"allOf": [{"$ref": "#/$defs/point"}, {"properties": {"z": {"type": "integer"}}}]},
            "struct<x:double,y:double,z:long>",
        ),
        (
            {
                "allOf": [
                    {"properties": {"p": {"$ref": "#/$defs/point"}}},
                    {"properties": {"p": {"properties": {"z": {"type": "integer"}}}}},
                ]
            },
            "struct<p:struct<x:double,y:double,z:long>>",
        ),
    ],
)
def test_a_type_becomes_the_column_of_the_table(schema, expected):
    point = {
        "$anchor": "a-point",
        "type": "object",
        "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    }
    (field,) = columns({"f": schema}, **{"$defs": {"point": point}})
    assert str(field.data_type) == expected
    assert field.nullable
    assert not is_json_text(field)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": ["string", "integer"]},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "array"},
        {"type": "array", "items": {"type": ["string", "integer"]}},
        {},
        True,
        {"enum": [1, "a"]},
        {"$ref": "#/properties/f"},
        {"allOf": [{"$ref": "#/properties/f"}]},
        {"type": "array", "items": False},
        {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ],
)
def test_a_value_of_any_type_is_kept_as_json_text(schema):
    (field,) = columns({"f": schema})
    assert str(field.data_type) == "string"
    assert is_json_text(field)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ('{"type": "string"}', "'properties'"),
        ('{"properties": {"a": {}, "A": {}}}', "differ only in case"),
        ('{"properties": {"a": {"type": "nonsense"}}}', "not a valid JSON Schema"),
        ('{"properties": {"a": {"$ref": "http://elsewhere/x"}}}', "another file"),
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "nowhere"),
    ],
)
def test_an_unusable_schema_file_is_an_error_that_says_why(tmp_path, text, reason):
    file = tmp_path / "schema.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        read_json_schema(file)
    assert str(file) in caught.value.message


@pytest.mark.parametrize(
    ("dialect", "definitions"),
    [
        ("http://json-schema.org/draft-07/schema#", "definitions"),
        ("https://json-schema.org/draft/2020-12/schema", "$defs"),
    ],
)
def test_both_dialects_give_columns_and_judge_records(dialect, definitions):
    text = json.dumps(
        {
            "$schema": dialect,
            "$id": "https://example.com/event",
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "integer"},
                "at": {"type": ["string", "null"], "format": "date-time"},
                "place": {"$ref": f"#/{definitions}/place"},
                "kind": {"enum": ["a", "b"]},
            },
            definitions: {
                "place": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
    )
    assert str(record_columns(text)) == (
        "struct<id:long,at:timestamp,place:struct<city:string>,kind:string>"
    )
    validator = record_validator(text)
    assert validator.is_valid({"id": 1, "at": None, "place": {"city": "x"}, "kind": "a"})
    for bad in ({}, {"id": 1, "at": "now"}, {"id": 1, "place": {"city": 1}}, {"id": 1, "kind": 1}):
        assert not validator.is_valid(bad)


@pytest.mark.parametrize("schema", [{"type": "array"}, {}, {"anyOf": [{"type": "string"}, {}]}])
def test_a_record_of_any_kind_is_no_object_with_properties(tmp_path, schema):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    with pytest.raises(ConfigurationError, match="must have type 'object' and a key 'properties'"):
        read_json_schema(file)
