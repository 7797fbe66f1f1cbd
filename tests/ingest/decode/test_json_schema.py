"""JSON Schema to columns."""

from __future__ import annotations

import json

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.decode import read_json_schema, record_columns
from bayou.ingest.decode.json_schema import is_json_text


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
    ],
)
def test_a_type_becomes_the_column_of_the_table(schema, expected):
    point = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}
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
        ('{"properties": {"a": {"type": "nonsense"}}}', "not a usable JSON Schema"),
        ('{"properties": {"a": {"$ref": "http://elsewhere/x"}}}', "outside"),
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "nowhere"),
    ],
)
def test_an_unusable_schema_file_is_an_error_that_says_why(tmp_path, text, reason):
    file = tmp_path / "schema.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        read_json_schema(file)
    assert str(file) in caught.value.message
