from __future__ import annotations

import pytest

from bayou.protocol.schema import (
    DOUBLE,
    LONG,
    ArrayType,
    MapType,
    StructField,
    StructType,
    data_type_from_json,
)
from bayou.protocol.type_widening import (
    columns_widened_from_float,
    is_readable_change,
    is_widening,
    unsupported_type_changes,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("byte", "short"),
        ("byte", "long"),
        ("integer", "long"),
        ("float", "double"),
        ("byte", "double"),
        ("integer", "double"),
        ("date", "timestamp_ntz"),
        ("decimal(6,2)", "decimal(10,4)"),
        ("decimal(6,2)", "decimal(8,2)"),
        ("short", "decimal(10,0)"),
        ("integer", "decimal(12,2)"),
        ("long", "decimal(20,0)"),
    ],
)
def test_the_protocol_s_widenings_are_known(before, after):
    assert is_widening(data_type_from_json(before), data_type_from_json(after))
    assert not is_widening(data_type_from_json(after), data_type_from_json(before))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("long", "double"),
        ("integer", "string"),
        ("integer", "float"),
        ("date", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(6,2)", "decimal(7,4)"),
        ("decimal(6,2)", "decimal(6,2)"),
        ("decimal(6,2)", "double"),
        ("integer", "decimal(9,0)"),
        ("long", "decimal(20,1)"),
        ("long", "long"),
    ],
)
def test_other_changes_are_not(before, after):
    assert not is_widening(data_type_from_json(before), data_type_from_json(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [("byte", "decimal(3,0)"), ("short", "decimal(7,2)"), ("long", "decimal(19,0)")],
)
def test_a_change_that_is_read_is_not_made(before, after):
    before, after = data_type_from_json(before), data_type_from_json(after)
    assert is_readable_change(before, after)
    assert not is_widening(before, after)


def changed(*changes):
    return {"delta.typeChanges": list(changes)}


def test_unknown_changes_are_named_with_their_column():
    known = {"fromType": "short", "toType": "long"}
    unknown = {"fromType": "long", "toType": "double", "fieldPath": "element"}
    inner = StructType((StructField(name="x", data_type=LONG, metadata=changed("odd")),))
    schema = StructType(
        (
            StructField(name="a", data_type=LONG, metadata=changed(known)),
            StructField(name="b", data_type=LONG, metadata=changed(known, unknown)),
            StructField(name="l", data_type=ArrayType(element_type=inner)),
            StructField(name="m", data_type=MapType(key_type=LONG, value_type=inner)),
            StructField(
                name="n",
                data_type=LONG,
                metadata=changed({"fromType": "interval", "toType": "long"}),
            ),
        )
    )
    assert unsupported_type_changes(schema) == [
        "b.element: long -> double",
        "l.element.x: 'odd'",
        "m.value.x: 'odd'",
        "n: interval -> long",
    ]


def test_columns_that_were_float_are_found_in_structs_too():
    def double(name, before, **inner):
        change = {"fromType": before, "toType": "double", **inner}
        return StructField(name=name, data_type=DOUBLE, metadata={"delta.typeChanges": [change]})

    inside = StructType((double("b", "float"), double("c", "integer")))
    schema = StructType(
        (
            double("a", "float"),
            double("b", "integer"),
            double("c", "float", fieldPath="element"),
            StructField(name="d", data_type=DOUBLE),
            StructField(name="s", data_type=inside),
            StructField(name="l", data_type=ArrayType(element_type=inside)),
        )
    )
    assert columns_widened_from_float(schema) == {("a",), ("s", "b")}
