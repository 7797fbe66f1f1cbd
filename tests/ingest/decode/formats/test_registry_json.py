"""JSON values with a JSON Schema of a schema registry."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bayou.ingest.decode import DecodePlan, additions
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat, Registry, RegistryAddress
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.schema import StructType
from support.registry_double import RegistryDouble

ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://example.com/order.json",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "customer": {"$ref": "customer.json"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
    },
    "required": ["id"],
    "definitions": {"line": {"type": "object", "properties": {"price": {"type": "number"}}}},
}
CUSTOMER = {
    "$id": "https://example.com/customer.json",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "home": {"$ref": "place.json#/definitions/place"},
        "kind": {"$ref": "#/definitions/kind"},
    },
    "definitions": {"kind": {"type": "string", "enum": ["private", "company"]}},
}
PLACE = {"definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}}}


@pytest.fixture
def double():
    with RegistryDouble() as double:
        yield double


@pytest.fixture
def order(double):
    """Register the order's schema with its references; return its id."""
    double.register("place", json.dumps(PLACE), "JSON")
    place = [{"name": "place.json", "subject": "place", "version": 1}]
    double.register("customer", json.dumps(CUSTOMER), "JSON", place)
    customer = [{"name": "customer.json", "subject": "customer", "version": 1}]
    return double.register("orders-value", json.dumps(ORDER), "JSON", customer)


def of_registry(double):
    return RecordFormat(
        name="json-schema", registry=Registry(address=RegistryAddress(url=double.url))
    )


def value(number, record):
    body = record if isinstance(record, bytes) else json.dumps(record).encode()
    return b"\x00" + number.to_bytes(4, "big") + body


def decoded(format, values, columns=None):
    columns = columns or StructType()
    while True:
        plan = DecodePlan(columns=columns, json_schema=None, discover=True)
        found = RecordDecoder(format, plan).decode(pa.array(values, pa.binary()))
        if not found.new_fields.fields:
            return found
        for _, field in additions(columns, found.new_fields):
            columns = merge_schemas("t", columns, StructType((field,)))


def test_columns_and_values_are_those_of_the_schema_and_its_references(double, order):
    record = {
        "id": 12345678901234567,
        "at": "2026-01-05T10:00:00Z",
        "customer": {"name": "Ada", "home": {"city": "Ulm"}, "kind": "private"},
        "lines": [{"price": 2}],
    }
    found = decoded(of_registry(double), [value(order, record), value(order, {"id": 2})])
    assert found.columns.schema.field("at").type == pa.timestamp("us", "UTC")
    (first, second) = found.columns.to_pylist()
    assert first["id"] == record["id"]
    assert first["customer"] == record["customer"]
    assert first["lines"] == [{"price": 2.0}]
    assert second == {"id": 2, "at": None, "customer": None, "lines": None}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"id": "x"}, 'schema: "x" is not of type "integer"'),
        ({}, 'schema: "id" is a required property'),
        ({"id": 1, "customer": {"kind": "robot"}}, 'schema: "robot" is not one of'),
        (b"{", "not valid JSON"),
        (b'{"id": ' + b"[" * 101 + b"]" * 101 + b"}", "nested too deeply"),
    ],
)
def test_a_value_that_does_not_match_its_schema_is_a_dead_letter(double, order, record, reason):
    found = decoded(of_registry(double), [value(order, record), value(order, {"id": 1})])
    assert found.columns.num_rows == 1
    assert reason in found.reasons[0].as_py()


def test_a_value_without_the_header_is_a_dead_letter(double):
    found = decoded(of_registry(double), [b'{"id": 1}'])
    assert found.reasons.to_pylist() == ["doesn't start with a schema registry's header"]


def test_a_schema_that_is_none_makes_dead_letters(double):
    for text, reason in (
        ("{", "isn't a JSON Schema"),
        ('{"type": "nonsense"}', "isn't a JSON Schema"),
        ('{"type": "object", "properties": {"a": {"$ref": "gone.json"}}}', "gone.json"),
        ('{"type": "string"}', "the root of the schema must have type 'object'"),
    ):
        number = double.register("x", text, "JSON")
        found = decoded(of_registry(double), [value(number, b'"a"')])
        assert f"schema {number} of the registry" in found.reasons[0].as_py()
        assert reason in found.reasons[0].as_py()


def test_references_that_refer_to_the_same_schema_are_requested_once(double):
    double.register("b", json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}}))
    reference = {"name": "b.json", "subject": "b", "version": 1}
    both = {"x": {"$ref": "b.json"}, "y": {"$ref": "b.json"}}
    text = json.dumps({"type": "object", "properties": both, "$defs": {"own": {}}})
    number = double.register("a", text, "JSON", [reference])
    found = decoded(of_registry(double), [value(number, {"x": {"n": 1}, "y": {"n": 2}})])
    assert found.columns.to_pylist() == [{"x": {"n": 1}, "y": {"n": 2}}]
    assert len(double.queries("/subjects/b/versions/1")) == 1


def test_a_field_that_the_schema_lacks_is_a_new_column(double):
    text = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    number = double.register("a", text, "JSON")
    found = decoded(of_registry(double), [value(number, {"id": 1, "more": True})])
    assert found.columns.to_pylist() == [{"id": 1, "more": True}]
