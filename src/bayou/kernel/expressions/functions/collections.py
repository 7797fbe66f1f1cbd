"""Functions of arrays, maps and structs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    argument_type,
    constant_of,
    rowwise,
)
from bayou.kernel.expressions.types import common_type, is_integral, kind_of
from bayou.protocol.schema import (
    BOOLEAN,
    INTEGER,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructType,
)


def _sized(call: Call) -> Binding:
    if len(call.types) != 1 or not isinstance(call.types[0], ArrayType | MapType):
        raise call.error("the function takes an array or map")
    return Binding(arguments=call.types, result=INTEGER)


def _size(values: Sequence[Datum], result: Any) -> Datum:
    lists = values[0]
    if pa.types.is_map(lists.type):
        lists = lists.cast(pa.list_(pa.struct([lists.type.key_field, lists.type.item_field])))
    return pc.cast(pc.list_value_length(lists), result)


def _searched(call: Call) -> Binding:
    array, value = _two(call)
    if not isinstance(array, ArrayType):
        raise call.error("the first argument must be an array")
    both = common_type((array.element_type, value))
    if both is None or both != array.element_type or kind_of(both) is None:
        raise call.error("the value must have the type of the array's elements")
    return Binding(arguments=(array, both), result=BOOLEAN)


def _contains(values: Sequence[Datum], result: Any) -> Datum:
    def contains(array: list[Any], value: Any) -> bool | None:
        if any(_same(element, value) for element in array if element is not None):
            return True
        return None if None in array else False

    return rowwise(contains, result, *values)


def _same(one: Any, other: Any) -> bool:
    both_nan = one != one and other != other  # noqa: PLR0124  # NaN
    return bool(one == other) or both_nan


def _two(call: Call) -> tuple[DataType, DataType]:
    if len(call.types) != 2:
        raise call.error("the function takes 2 arguments")
    return call.types[0], call.types[1]


def _indexed(call: Call) -> Binding:
    container, key = _two(call)
    if isinstance(container, ArrayType):
        if not is_integral(key):
            raise call.error("the index of an array must be an integer")
        return Binding(arguments=(container, key), result=container.element_type)
    if isinstance(container, MapType):
        key_type = container.key_type
        if key != key_type:
            if common_type((key_type, key)) != key_type:
                raise call.error("the key must have the type of the map's keys")
            key = key_type
        return Binding(arguments=(container, key), result=container.value_type)
    raise call.error("the first argument must be an array or map")


def _element(first: int | None, *, name: str) -> Callable[[Sequence[Datum], Any], Datum]:
    """Return a function that evaluates an access to an element of an array or map.

    Args:
        first: rule for the indexes of an array. If 0, indexes start at 0, and an index out of range
            is an error. If 1, indexes start at 1, negative indexes count from the end, and an index
            out of range is an error. If None, indexes start at 0, and an index out of range gives
            NULL.
        name: name of the SQL function, for error messages.
    """

    def element_at(container: Any, key: Any) -> Any:
        if container and isinstance(container[0], tuple):
            return next((value for k, value in container if _same(k, key)), None)
        index = key - (first or 0)
        if first == 1:
            index = key - 1 if key > 0 else len(container) + key if key < 0 else -1
        if 0 <= index < len(container):
            return container[index]
        if first is None:
            return None
        raise EvaluationError(
            f"{name}: index {key} is out of range for an array of {len(container)} elements. This "
            "is an error in Spark's ANSI mode too. Use get(array, index) to return NULL.",
            expression=name,
        )

    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        container, key = values
        if pa.types.is_map(container.type):
            if isinstance(key, pa.Scalar) and key.is_valid:
                return pc.map_lookup(container, key, "first")
            return rowwise(
                lambda pairs, k: element_at(pairs, k) if pairs else None, result, *values
            )
        return rowwise(element_at, result, *values)

    return evaluate


def _field(call: Call) -> Binding:
    container = call.types[0]
    name = constant_of(call, 1)
    field = container.get(str(name)) if isinstance(container, StructType) else None
    if field is None:
        raise call.error(f"the struct has no field {name!r}")
    return Binding(arguments=(container, STRING), result=field.data_type)


def _field_values(values: Sequence[Datum], result: Any) -> Datum:
    struct, name = values
    field_name = name.as_py()
    names = [field.name for field in struct.type]
    if field_name not in names:
        field_name = next(n for n in names if n.lower() == field_name.lower())
    return pc.cast(pc.struct_field(struct, field_name), result)


def _get(call: Call) -> Binding:
    if call.types and not isinstance(call.types[0], ArrayType):
        raise call.error("the first argument must be an array")
    return _indexed(call)


def _keys(call: Call) -> Binding:
    if len(call.types) != 2 or not isinstance(call.types[0], MapType):
        raise call.error("the function takes a map and a key")
    key = argument_type(call, call.types[1], call.types[0].key_type)
    return Binding(arguments=(call.types[0], key), result=BOOLEAN)


def _has_key(values: Sequence[Datum], result: Any) -> Datum:
    return rowwise(lambda pairs, key: any(_same(k, key) for k, _ in pairs), result, *values)


FUNCTIONS = (
    Function(
        name="size",
        signature="size(a), cardinality(a), array_size(a)",
        summary="The number of elements of an array or map.",
        bind=_sized,
        evaluate=_size,
        aliases=("cardinality", "array_size"),
    ),
    Function(
        name="array_contains",
        signature="array_contains(a, value)",
        summary="Whether an element equals the value; NULL if none does and an element is NULL.",
        bind=_searched,
        evaluate=_contains,
        null_handling="more",
    ),
    Function(
        name="map_contains_key",
        signature="map_contains_key(m, key)",
        summary="Whether the map has the key.",
        bind=_keys,
        evaluate=_has_key,
    ),
    Function(
        name="[]",
        signature="a[index], m[key]",
        summary=(
            "The element of an array at a 0-based index (out of range: an error), or the value of "
            "a map for a key (NULL for an unknown key)."
        ),
        bind=_indexed,
        evaluate=_element(0, name="[]"),
        null_handling="more",
    ),
    Function(
        name="element_at",
        signature="element_at(a, index), element_at(m, key)",
        summary="As `a[index]`, but with a 1-based index, which counts from the end if negative.",
        bind=_indexed,
        evaluate=_element(1, name="element_at"),
        null_handling="more",
    ),
    Function(
        name="get",
        signature="get(a, index)",
        summary="The element of an array at a 0-based index; NULL if out of range.",
        bind=_get,
        evaluate=_element(None, name="get"),
        null_handling="more",
    ),
    Function(
        name=".",
        constants=(1,),
        signature="a[0].field",
        summary="A field of a struct in an array or map.",
        bind=_field,
        evaluate=_field_values,
        null_handling="more",
    ),
)
