from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol.schema import (
    EDGE_ALGORITHMS,
    LONG,
    PRIMITIVE_NAMES,
    STRING,
    ArrayType,
    DecimalType,
    GeographyType,
    GeometryType,
    MapType,
    PrimitiveType,
    SchemaJsonError,
    StructField,
    StructType,
    data_type_from_json,
    data_type_to_json,
)

PRIMITIVES = st.sampled_from(sorted(PRIMITIVE_NAMES)).map(PrimitiveType)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: DecimalType(p, s)))
METADATA = st.dictionaries(st.text(), st.text() | st.integers(-9, 9) | st.booleans(), max_size=2)


def structs(types):
    fields = st.builds(
        StructField,
        name=st.text(),
        data_type=types,
        nullable=st.booleans(),
        metadata=METADATA,
    )
    return st.lists(fields, max_size=3).map(lambda f: StructType(tuple(f)))


CRS = st.sampled_from(["OGC:CRS84", "EPSG:3857", "SRID:0"])
GEOMETRIES = st.builds(GeometryType, CRS)
GEOGRAPHIES = st.builds(GeographyType, CRS, st.sampled_from(EDGE_ALGORITHMS))
TYPES = st.recursive(
    PRIMITIVES | DECIMALS | GEOMETRIES | GEOGRAPHIES,
    lambda inner: (
        st.builds(ArrayType, element_type=inner, contains_null=st.booleans())
        | st.builds(MapType, key_type=inner, value_type=inner, value_contains_null=st.booleans())
        | structs(inner)
    ),
    max_leaves=8,
)


@given(TYPES)
def test_every_type_survives_its_json(data_type):
    assert data_type_from_json(data_type_to_json(data_type)) == data_type


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("geometry", GeometryType()),
        ("geometry( EPSG:3857 )", GeometryType("EPSG:3857")),
        ("geography", GeographyType()),
        ("geography(OGC:CRS84)", GeographyType()),
        ("geography(vincenty)", GeographyType(algorithm="VINCENTY")),
        ("geography(EPSG:4326,KARNEY)", GeographyType("EPSG:4326", "KARNEY")),
    ],
)
def test_parameters_of_geospatial_types_have_defaults(text, data_type):
    assert data_type_from_json(text) == data_type


@pytest.mark.parametrize("text", ["geometry()", "geometry(x)", "geography(a:b, c)", "geography(,)"])
def test_malformed_geospatial_types_are_unknown(text):
    with pytest.raises(SchemaJsonError, match="unknown type"):
        data_type_from_json(text)


@given(structs(TYPES))
def test_a_schema_survives_its_text(schema):
    assert StructType.from_json(schema.to_json()) == schema


@given(structs(TYPES))
def test_a_text_survives_the_schema(schema):
    text = schema.to_json()
    assert StructType.from_json(text).to_json() == text


def test_the_example_of_the_spec_is_understood():
    text = """{"type": "struct", "fields": [
        {"name": "a", "type": "integer", "nullable": false, "metadata": {}},
        {"name": "b", "type": {"type": "struct", "fields": [
            {"name": "d", "type": "integer", "nullable": false, "metadata": {}}]},
         "nullable": true, "metadata": {}},
        {"name": "c", "type": {"type": "array", "elementType": "integer", "containsNull": false},
         "nullable": true, "metadata": {"comment": "x"}},
        {"name": "e", "type": {"type": "array", "elementType": {"type": "struct", "fields": [
            {"name": "d", "type": "integer", "nullable": false, "metadata": {}}]},
            "containsNull": true}, "nullable": true, "metadata": {}},
        {"name": "f", "type": {"type": "map", "keyType": "string", "valueType": "string",
            "valueContainsNull": true}, "nullable": true, "metadata": {}}]}"""
    schema = StructType.from_json(text)
    assert schema.names == ("a", "b", "c", "e", "f")
    assert json.loads(schema.to_json()) == json.loads(text)
    assert str(schema) == (
        "struct<a:integer,b:struct<d:integer>,c:array<integer>,e:array<struct<d:integer>>,"
        "f:map<string,string>>"
    )


def test_a_bare_decimal_is_that_of_spark():
    assert data_type_from_json("decimal") == DecimalType(10, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"long"',
        '{"type":"struct"}',
        '{"type":"struct","fields":[{"type":"long"}]}',
        '{"type":"struct","fields":[{"name":5,"type":"long"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"number"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(39,1)"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(x,1)"}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":7}]}',
        '{"type":"struct","fields":["a"]}',
    ],
)
def test_a_text_that_isnt_a_schema_is_an_error(text):
    with pytest.raises(SchemaJsonError):
        StructType.from_json(text)


def test_a_field_is_found_by_its_exact_name_first():
    schema = StructType(
        (StructField(name="ID", data_type=LONG), StructField(name="id", data_type=STRING))
    )
    assert schema.get("id") is schema.fields[1]
    assert schema.get("Id") is schema.fields[0]
    assert schema.get("x") is None
    assert schema.select(["id"]).names == ("id",)
    with pytest.raises(KeyError):
        schema.select(["Id"])
