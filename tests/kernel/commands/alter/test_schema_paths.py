"""Fields of schemas found and changed by path."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayou.errors import SchemaError
from bayou.kernel.commands.alter.schema_paths import (
    field_at,
    resolve_path,
    with_changed_field,
    with_field,
    without_field,
)
from bayou.kernel.table_features.column_dependencies import quote_path
from bayou.protocol.schema import LONG, STRING, ArrayType, MapType, StructField, StructType


def column(name, data_type=LONG):
    return StructField(name=name, data_type=data_type)


INNER = StructType((column("X"), column("y")))
SCHEMA = StructType(
    (
        column("a"),
        column("S", INNER),
        column("l", ArrayType(element_type=INNER)),
        column("m", MapType(key_type=STRING, value_type=INNER)),
    )
)


def test_paths_are_spelled_as_the_schema_spells_them():
    assert resolve_path("t", SCHEMA, ("s", "x")) == ("S", "X")
    assert resolve_path("t", SCHEMA, ("L", "ELEMENT", "Y")) == ("l", "element", "y")
    assert resolve_path("t", SCHEMA, ("m", "Value")) == ("m", "value")


@pytest.mark.parametrize("path", [("b",), ("s", "z"), ("a", "x"), ("l", "x"), ("m", "element")])
def test_an_unknown_path_is_named(path):
    with pytest.raises(SchemaError, match="has no column") as caught:
        field_at("t", SCHEMA, path)
    assert caught.value.column == ".".join(path)


@pytest.mark.parametrize(
    ("position", "names"),
    [(None, ("X", "y", "n")), ("", ("n", "X", "y")), ("x", ("X", "n", "y"))],
)
@pytest.mark.parametrize("parent", [("S",), ("l", "element"), ("m", "value")])
def test_a_field_is_added_at_its_place(parent, position, names):
    found = with_field("t", SCHEMA, parent, column("n"), position)
    assert field_at("t", found, parent).data_type.names == names


def test_a_field_that_is_there_in_another_case_is_not_added():
    with pytest.raises(SchemaError, match="already"):
        with_field("t", SCHEMA, ("S",), column("x"), None)


def test_a_field_is_dropped_but_not_the_last():
    found = without_field("t", SCHEMA, ("s", "x"))
    assert field_at("t", found, ("S",)).data_type.names == ("y",)
    with pytest.raises(SchemaError, match="last"):
        without_field("t", found, ("S", "y"))
    with pytest.raises(SchemaError, match="part of"):
        without_field("t", SCHEMA, ("l", "element"))


@pytest.mark.parametrize(
    ("position", "names"),
    [("", ("l", "a", "S", "m")), ("m", ("a", "S", "m", "l")), ("a", ("a", "l", "S", "m"))],
)
def test_a_field_is_moved(position, names):
    assert with_changed_field("t", SCHEMA, ("l",), lambda f: f, position).names == names


def test_the_inside_of_arrays_and_maps_is_changed():
    def to_text(field):
        return replace(field, data_type=STRING)

    assert str(with_changed_field("t", SCHEMA, ("m", "value"), to_text)).endswith(
        "m:map<string,string>>"
    )
    assert "l:array<string>" in str(with_changed_field("t", SCHEMA, ("l", "element"), to_text))


def test_names_with_a_dot_are_quoted_as_in_the_history():
    assert quote_path(("a.b", "c")) == "`a.b`.c"
