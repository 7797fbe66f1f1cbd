"""Infers the column types of fields that no schema defines.

The input is either JSON values, or the types that Arrow's JSON reader inferred.

An integer is a `long`, any other number a `double`, a string a `string`, an object a `struct`, an
array an `array`. Dates are strings, too, because the next record may have a string that isn't a
date. Null, `[]` and `{}` have no type. A `string` column stores the JSON of an array whose elements
have several types, of an integer beyond 64 bits, and of a value nested more than 32 levels deep.

If a field has values of several types, its type is the first of these types in this list: `struct`,
`array`, `double`, `long`, `boolean`, `string`. A `double` column also stores the `long` values.
Records with values of other types become dead letters. The type of a field therefore doesn't depend
on the order of records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from bayou.ingest.decode.json_schema import JSON_TEXT, is_json_text
from bayou.protocol.schema import (
    BOOLEAN,
    DOUBLE,
    LONG,
    STRING,
    ArrayType,
    DataType,
    StructField,
    StructType,
)

_LONG_LIMIT = 2**63
_MAX_LEVELS = 32
"""Maximum nesting depth of a column's type.

Arrow reads 100 levels, where an array counts as two levels.
"""


class NestedTooDeeplyError(Exception):
    """A value is nested too deeply for a column's type, so a string column must store its JSON."""


def infer_field(name: str, value: Any, level: int = 0) -> StructField | None:
    """Return the column for a decoded JSON value; None if the value has no type.

    Null, `[]` and `{}` have no type. An array or object that contains only these values has no type
    either.

    Args:
        level: the nesting depth of the value inside its top-level column.
    """
    try:
        kind = _of_value(value, level)
    except _MixedTypesError:
        return StructField(name=name, data_type=STRING, metadata=JSON_TEXT)
    return None if kind is None else StructField(name=name, data_type=kind)


def infer_arrow_field(name: str, kind: pa.DataType) -> StructField | None:
    """Return the column for a type that `pyarrow.json` inferred.

    The result is None if the type has no values other than null, `[]` and `{}`.

    Raises:
        NestedTooDeeplyError: the type has too many levels. Call `infer_field` with each value
            instead.
    """
    data_type = _of_arrow(kind, 0)
    return None if data_type is None else StructField(name=name, data_type=data_type)


def merge_fields(first: StructType, second: Iterable[StructField]) -> StructType:
    """Return the fields of `first`, followed by the fields that only `second` has.

    If a field has different types in `first` and `second`, its type follows the rules in the
    docstring of this module.
    """
    merged = {f.name: f for f in first}
    for field in second:
        known = merged.get(field.name)
        merged[field.name] = field if known is None else _merged_field(known, field)
    return StructType(tuple(merged.values()))


def merge_all(fields: Iterable[StructField]) -> StructType:
    """Merge fields as `merge_fields` does, in a time that isn't quadratic in their number."""
    parts = [StructType((field,)) for field in fields] or [StructType()]
    while len(parts) > 1:
        pairs = zip(parts[::2], [*parts[1::2], StructType()], strict=False)
        parts = [merge_fields(first, second) for first, second in pairs]
    return parts[0]


def _merged_field(first: StructField, second: StructField) -> StructField:
    merged = _merge(first.data_type, second.data_type)
    if merged == second.data_type and (merged != first.data_type or is_json_text(second)):
        return second
    return first.with_data_type(merged)


class _MixedTypesError(Exception):
    """A value has elements of several types, so a string column must store its JSON."""


def _of_value(value: Any, level: int) -> DataType | None:
    match value:
        case None:
            return None
        case bool():
            return BOOLEAN
        case int():
            if not -_LONG_LIMIT <= value < _LONG_LIMIT:
                raise _MixedTypesError
            return LONG
        case float():
            return DOUBLE
        case str():
            return STRING
        case _ if level == _MAX_LEVELS:
            raise _MixedTypesError
        case list():
            return _of_list(value, level + 1)
        case _:
            fields = [infer_field(k, v, level + 1) for k, v in value.items()]
            known = tuple(f for f in fields if f is not None)
            return StructType(known) if known else None


def _of_list(values: list[Any], level: int) -> DataType | None:
    element: DataType | None = None
    for value in values:
        kind = _of_value(value, level)
        if kind is None:
            continue
        if element is not None and not _are_compatible(element, kind):
            raise _MixedTypesError
        element = kind if element is None else _merge(element, kind)
    return None if element is None else ArrayType(element_type=element)


def _of_arrow(kind: pa.DataType, level: int) -> DataType | None:
    if level > _MAX_LEVELS:
        raise NestedTooDeeplyError
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        return LONG
    if pa.types.is_floating(kind):
        return DOUBLE
    if pa.types.is_struct(kind):
        kinds = [(f.name, _of_arrow(f.type, level + 1)) for f in kind]
        known = tuple(StructField(name=n, data_type=k) for n, k in kinds if k is not None)
        return StructType(known) if known else None
    if pa.types.is_list(kind):
        element = _of_arrow(kind.value_type, level + 1)
        return None if element is None else ArrayType(element_type=element)
    return None if pa.types.is_null(kind) else STRING


def _merge(first: DataType, second: DataType) -> DataType:
    match first, second:
        case (StructType(), StructType()):
            return merge_fields(first, second)
        case (ArrayType(element_type=a), ArrayType(element_type=b)):
            return ArrayType(element_type=_merge(a, b))
        case _:
            return min(first, second, key=_strictness)


def _are_compatible(first: DataType, second: DataType) -> bool:
    numbers = (LONG, DOUBLE)
    return (
        first == second
        or (first in numbers and second in numbers)
        or (isinstance(first, StructType) and isinstance(second, StructType))
        or (isinstance(first, ArrayType) and isinstance(second, ArrayType))
    )


def _strictness(kind: DataType) -> int:
    match kind:
        case StructType():
            return 0
        case ArrayType():
            return 1
        case _:
            return 2 + (_SCALARS.index(kind) if kind in _SCALARS else len(_SCALARS))


_SCALARS = (DOUBLE, LONG, BOOLEAN, STRING)
