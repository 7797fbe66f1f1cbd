"""Values put into columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bayou.errors import EvaluationError
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.commands.merge.struct_by_name import (
    TargetColumn,
    cast_to_column,
    check_assignable,
)
from bayou.protocol.schema import VOID


def put(values: pa.Array[Any], wanted: Any, before: pa.Array[Any] | None = None) -> list[Any]:
    given = from_arrow_type(values.type)
    place = TargetColumn("t", "c", from_arrow_type(wanted))
    check_assignable(place, given, schema_evolution=True)
    original = None if before is None else (before, from_arrow_type(before.type))
    found = cast_to_column(place, values, given, original)
    return found.cast(wanted).to_pylist()


def test_fields_of_structs_go_by_name_and_null_stays_null() -> None:
    values = pa.array(
        [{"Y": 1, "x": "5"}, None, {"Y": None, "x": None}],
        pa.struct({"Y": pa.int64(), "x": pa.string()}),
    )
    wanted = pa.struct({"x": pa.int32(), "y": pa.int64(), "z": pa.string()})
    assert put(values, wanted) == [
        {"x": 5, "y": 1, "z": None},
        None,
        {"x": None, "y": None, "z": None},
    ]


def test_fields_that_the_value_lacks_stay_where_that_is_asked_for() -> None:
    narrow = pa.struct({"x": pa.int64()})
    wide = pa.struct({"x": pa.int64(), "z": pa.struct({"a": pa.int64(), "b": pa.int64()})})
    values = pa.array([{"x": 1}, None, None, {"x": 4}], narrow)
    before = pa.array(
        [{"x": 9, "z": {"a": 1, "b": 2}}, {"x": 9, "z": {"a": 1, "b": 2}}, None, None], wide
    )
    assert put(values, wide, before) == [
        {"x": 1, "z": {"a": 1, "b": 2}},
        {"x": None, "z": {"a": 1, "b": 2}},
        None,
        {"x": 4, "z": None},
    ]


def test_a_null_struct_with_all_fields_takes_the_place_of_what_was_there() -> None:
    kind = pa.struct({"x": pa.int64()})
    values, before = pa.array([None, {"x": 1}], kind), pa.array([{"x": 9}, None], kind)
    assert put(values, kind, before) == [None, {"x": 1}]


def test_elements_and_map_values_are_cast() -> None:
    given = pa.struct({"b": pa.int32(), "a": pa.string()})
    wanted = pa.struct({"a": pa.int64(), "b": pa.int64()})
    element, other = [{"b": 1, "a": "2"}], [{"a": 2, "b": 1}]
    lists = pa.array([element, None, [], [None]], pa.list_(given)).slice(0, 4)
    assert put(lists, pa.list_(pa.field("element", wanted))) == [other, None, [], [None]]
    maps = pa.array([None, [("k", element[0])], []], pa.map_(pa.string(), given)).slice(1)
    assert put(maps, pa.map_(pa.string(), wanted)) == [[("k", other[0])], []]


def test_a_value_that_does_not_fit_names_the_column() -> None:
    with pytest.raises(EvaluationError, match=r"'c' \(DELTA_CAST_OVERFLOW_IN_TABLE_WRITE\)"):
        put(pa.array([1 << 40]), pa.int32())
    with pytest.raises(EvaluationError, match=r"'c' \(CAST_INVALID_INPUT\)"):
        put(pa.array(["x"]), pa.int32())


def test_nulls_without_a_type_go_anywhere() -> None:
    place = TargetColumn("t", "c", from_arrow_type(pa.struct({"x": pa.int64()})))
    check_assignable(place, VOID, schema_evolution=False)
    assert cast_to_column(place, pa.nulls(2), VOID).to_pylist() == [None, None]
