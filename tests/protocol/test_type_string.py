"""Types by their names in SQL."""

from __future__ import annotations

import pytest

from bayou.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
)
from bayou.protocol.type_string import length_limits, parse_field, parse_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bigint", LONG),
        (" LONG ", LONG),
        ("decimal", DecimalType(10, 0)),
        ("DECIMAL(12, 3)", DecimalType(12, 3)),
        ("array<date>", ArrayType(element_type=DATE)),
        (
            "map<string,array<int>>",
            MapType(key_type=STRING, value_type=ArrayType(element_type=INTEGER)),
        ),
        (
            "struct<a: int NOT NULL, `b c` map<string, bigint>>",
            StructType(
                (
                    StructField(name="a", data_type=INTEGER, nullable=False),
                    StructField(name="b c", data_type=MapType(key_type=STRING, value_type=LONG)),
                )
            ),
        ),
        ("struct<>", StructType()),
    ],
)
def test_a_type_is_read(text, expected):
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text", ["", "bigints", "array<int", "decimal(10,", "int int", "varchar", "char(0)", "array"]
)
def test_what_is_not_a_type_is_refused_with_its_text(text):
    with pytest.raises(SchemaJsonError, match="isn't a type"):
        parse_type(text)


def test_length_limits_stand_in_the_metadata_of_the_column():
    field = parse_field("c", "map<char(2),struct<x: array<varchar(3)>, y: int>>")
    assert str(field.data_type) == "map<string,struct<x:array<string>,y:integer>>"
    assert field.metadata == {
        "__CHAR_VARCHAR_TYPE_STRING": "map<char(2),struct<x:array<varchar(3)>,y:int>>"
    }
    assert [(limit.path, str(limit)) for limit in length_limits(field)] == [
        (("key",), "char(2)"),
        (("value", "x", "element"), "varchar(3)"),
    ]


def test_a_column_without_limits_has_no_metadata():
    assert parse_field("c", "string").metadata == {}
    assert length_limits(parse_field("c", "string")) == ()
