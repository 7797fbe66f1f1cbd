"""Conversion of Arrow columns to JSON: one string for each value.

The conversion is lossless. NaN and infinity become the strings `NaN`, `Infinity` and `-Infinity`,
because JSON doesn't have these numbers. Decimals have all their digits, timestamps are in ISO 8601,
and binary values are in Base64.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.compute import pc

Column: TypeAlias = Any
"""A `pyarrow.Array`, typed as Any: pyarrow's type stubs don't have all methods of arrays."""

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def json_values(column: Column) -> Column:
    """Return each value as JSON text; a null becomes the text `null`."""
    if isinstance(column.type, pa.JsonType):
        return pc.fill_null(_without_encoding(column), "null")
    return pc.fill_null(_json(_without_encoding(column)), "null")


def joined(columns: list[Column], separator: str) -> Column:
    """Join the strings of each row by a separator. The columns must have no nulls."""
    return pc.binary_join_element_wise(*columns, separator)


def _joined(*parts: Any) -> Column:
    return pc.binary_join_element_wise(*parts, "")


def _without_encoding(column: Column) -> Column:
    """Decode dictionary arrays, and return the storage arrays of extension arrays.

    Other arrays are returned unchanged.
    """
    if isinstance(column, pa.ExtensionArray):
        return _without_encoding(column.storage)
    if pa.types.is_dictionary(column.type):
        return _without_encoding(pc.cast(column, column.type.value_type))
    return column


def column_text(column: Column) -> Column:
    """Return each value as a string; structs, lists and maps are JSON. A null stays null."""
    column = _without_encoding(column)
    kind = column.type
    if _is_nested(kind):
        return _json(column)
    if pa.types.is_floating(kind):
        return _float_text(column)
    if pa.types.is_timestamp(kind):
        text = pc.replace_substring(pc.cast(column, pa.string()), " ", "T", max_replacements=1)
        if kind.unit == "s":
            return text
        return pc.replace_substring_regex(text, r"\.?0*(Z|[+-]\d{4})?$", r"\1")
    if _is_binary(kind):
        return pa.array(
            [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()],
            pa.string(),
        )
    if pa.types.is_string(kind):
        return column
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())


def _float_text(column: Column) -> Column:
    text = pc.cast(column, pa.string())
    infinity = pc.if_else(pc.greater(column, pc.cast(0, column.type)), "Infinity", "-Infinity")
    text = pc.if_else(pc.is_inf(column), infinity, text)
    return pc.if_else(pc.is_nan(column), "NaN", text)


def _json(column: Column) -> Column:
    kind = column.type
    if pa.types.is_struct(kind):
        return _json_objects(column)
    if pa.types.is_map(kind):
        return _json_maps(column)
    if _is_list(kind):
        return _joined("[", _per_list(column, json_values(column.flatten())), "]")
    text = column_text(column)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return text
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), text, _joined('"', text, '"'))
    return _json_strings(text)


def _json_objects(column: Column) -> Column:
    names = [field.name for field in column.type]
    if not names:
        return pc.if_else(pc.is_valid(column), "{}", pa.scalar(None, pa.string()))
    members = json_members(names, column.flatten())
    return pc.if_else(pc.is_valid(column), members, pa.scalar(None, pa.string()))


def json_members(names: list[str], columns: list[Column]) -> Column:
    """Return a JSON object for each row, with a member for each column."""
    members = [
        _joined(f"{msgspec.json.encode(name).decode()}:", json_values(column))
        for name, column in zip(names, columns, strict=True)
    ]
    return _joined("{", joined(members, ","), "}")


def _json_maps(column: Column) -> Column:
    entries = pc.cast(
        column,
        pa.list_(
            pa.struct([("key", column.type.key_type), ("value", column.type.item_type)]),
        ),
    )
    keys, values = entries.flatten().flatten()
    members = joined([_json_strings(column_text(keys)), json_values(values)], ":")
    return _joined("{", _per_list(entries, members), "}")


def _per_list(lists: Column, values: Column) -> Column:
    """Return a string for each list in `lists`: its elements, joined by commas; a null stays null.

    Args:
        values: the elements of all lists, as strings.
    """
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = pa.concat_arrays(
        [pa.array([0], pa.int32()), pc.cast(pc.cumulative_sum(lengths), pa.int32())]
    )
    text = pc.binary_join(pa.ListArray.from_arrays(offsets, values), ",")
    return pc.if_else(pc.is_valid(lists), text, pa.scalar(None, pa.string()))


def _json_strings(text: Column) -> Column:
    """Encode strings as JSON.

    All strings are quoted at once. Then the strings that need escapes are encoded one by one.
    """
    escaped = pc.match_substring_regex(text, _NEEDS_ESCAPE)
    quoted = _joined('"', text, '"')
    return replaced(quoted, escaped, lambda v: msgspec.json.encode(v[1:-1]).decode())


def replaced(text: Column, selected: Column, replacement: Callable[[str], str]) -> Column:
    """Apply `replacement` to the strings for which the mask `selected` is true; keep the others."""
    selected = pc.fill_null(selected, False)
    if selected.true_count == 0:
        return text
    values = [replacement(value) for value in text.filter(selected).to_pylist()]
    return pc.replace_with_mask(text, selected, pa.array(values, text.type))


def _is_nested(type: pa.DataType) -> bool:
    return pa.types.is_struct(type) or pa.types.is_map(type) or _is_list(type)


def _is_list(type: pa.DataType) -> bool:
    return (
        pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    )


def _is_binary(type: pa.DataType) -> bool:
    return (
        pa.types.is_binary(type)
        or pa.types.is_large_binary(type)
        or pa.types.is_fixed_size_binary(type)
    )
