"""Conversion of a few Python values to Arrow arrays without importing pandas.

`pyarrow.array` imports pandas if it is installed, which takes longer than reading a small table.
"""

from __future__ import annotations

import sys
from array import array as packed
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

_FEW = 1000
_CODES: dict[Any, str] = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float32(): "f",
    pa.float64(): "d",
}
_ENCODED: dict[Any, Any] = {pa.string(): str.encode, pa.binary(): bytes}


def to_array(values: Sequence[Any], arrow_type: Any) -> Any:
    """Return `pyarrow.array(values, arrow_type)`.

    Args:
        values: None, or values of the Python type that `to_pylist` returns for `arrow_type`.
    """
    if "pandas" in sys.modules or len(values) > _FEW:
        return pa.array(values, arrow_type)
    return _build(values, arrow_type)


def to_scalar(value: Any, arrow_type: Any) -> Any:
    """Return `pyarrow.scalar(value, arrow_type)`."""
    return to_array([value], arrow_type)[0]


def maps_as_pairs(value: Any, arrow_type: Any) -> Any:
    """Convert dicts to lists of pairs where `arrow_type` has a map, as `pyarrow.array` expects."""
    if value is None:
        return None
    if pa.types.is_map(arrow_type):
        return list(value.items())
    if pa.types.is_struct(arrow_type):
        return {f.name: maps_as_pairs(value.get(f.name), f.type) for f in arrow_type}
    return value


def _build(values: Sequence[Any], arrow_type: Any) -> Any:
    code = _CODES.get(arrow_type)
    if code is not None:
        data = packed(code, [0 if value is None else value for value in values])
        return _from_buffers(values, arrow_type, [data])
    encode = _ENCODED.get(arrow_type)
    if encode is not None:
        parts = [b"" if value is None else encode(value) for value in values]
        return _from_buffers(values, arrow_type, [_offsets(parts), b"".join(parts)])
    if pa.types.is_boolean(arrow_type):
        return _from_buffers(values, arrow_type, [_bits(values)])
    if pa.types.is_struct(arrow_type) and all(isinstance(v, Mapping | None) for v in values):
        rows = [value or {} for value in values]
        children = [_build([row.get(f.name) for row in rows], f.type) for f in arrow_type]
        return _from_buffers(values, arrow_type, [], children)
    if pa.types.is_map(arrow_type):
        entries = [list(value or ()) for value in values]
        pairs = list(chain.from_iterable(entries))
        keys = _build([key for key, _ in pairs], arrow_type.key_type)
        items = _build([item for _, item in pairs], arrow_type.item_type)
        fields = [arrow_type.key_field, arrow_type.item_field]
        struct = pa.StructArray.from_arrays([keys, items], fields=fields)
        return _from_buffers(values, arrow_type, [_offsets(entries)], [struct])
    if pa.types.is_list(arrow_type):
        lists = [list(value or ()) for value in values]
        elements = _build(list(chain.from_iterable(lists)), arrow_type.value_type)
        return _from_buffers(values, arrow_type, [_offsets(lists)], [elements])
    return pa.array(values, arrow_type)


def _from_buffers(
    values: Sequence[Any], arrow_type: Any, buffers: Sequence[Any], children: Sequence[Any] = ()
) -> Any:
    nulls = sum(value is None for value in values)
    validity = _bits([value is not None for value in values]) if nulls else None
    data = [None if part is None else pa.py_buffer(part) for part in (validity, *buffers)]
    return pa.Array.from_buffers(
        arrow_type, len(values), data, null_count=nulls, children=list(children)
    )


def _offsets(parts: Sequence[Any]) -> Any:
    return packed("i", accumulate((len(part) for part in parts), initial=0))


def _bits(flags: Sequence[Any]) -> bytes:
    bits = bytearray(len(flags) // 8 + 1)
    for number, flag in enumerate(flags):
        if flag:
            bits[number >> 3] |= 1 << (number & 7)
    return bytes(bits)
