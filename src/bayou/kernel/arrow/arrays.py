"""Conversion of Python values to Arrow arrays without importing pandas.

`pyarrow.array` imports pandas if pandas is installed. The import takes longer than reading a small
table.
"""

from __future__ import annotations

import datetime as dt
import sys
from array import array as packed
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, Inexact
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

_FEW = 200_000
"""Maximum number of values for which the conversion in Python is faster than importing pandas."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOCAL_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # for timestamps without a time zone
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT = Context(prec=100, traps=[Inexact])
_CODES: dict[Any, str] = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.uint64(): "Q",
    pa.float32(): "f",
    pa.float64(): "d",
}


def to_array(values: Sequence[Any], arrow_type: Any) -> Any:
    """Convert Python values to an Arrow array, as `pyarrow.array(values, arrow_type)` does.

    Up to 200,000 values are converted without importing pandas.

    Args:
        values: the values; each is None, or of the Python type that `to_pylist` returns for
            `arrow_type`.
    """
    if "pandas" in sys.modules or len(values) > _FEW:
        return pa.array(values, arrow_type)
    try:
        return _build(values, arrow_type)
    except (TypeError, AttributeError, ArithmeticError, ValueError):  # unexpected Python type
        return pa.array(values, arrow_type)


def to_scalar(value: Any, arrow_type: Any) -> Any:
    """Convert a Python value to an Arrow scalar without importing pandas."""
    return to_array([value], arrow_type)[0]


def arange(start: int, stop: int) -> Any:
    """Return the int64 array from `start` up to but not including `stop`.

    `pyarrow.array(range(...))` takes a thousand times as long.
    """
    return pa.arange(start, stop)  # type: ignore[attr-defined]  # missing in pyarrow-stubs


class ConstantColumn:
    """A column with the same value in all rows. The arrays that `array` returns share memory."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._array: pa.Array[Any] = pa.repeat(value, 0)

    def array(self, num_rows: int) -> pa.Array[Any]:
        if len(self._array) < num_rows:
            self._array = pa.repeat(self._value, num_rows)
        return self._array.slice(0, num_rows)


def maps_as_pairs(value: Any, arrow_type: Any) -> Any:
    """Convert a dict to a list of pairs for each map type in `arrow_type`, for `pyarrow.array`.

    Maps inside arrays aren't converted.
    """
    if value is None:
        return None
    if pa.types.is_map(arrow_type):
        return list(value.items())
    if pa.types.is_struct(arrow_type):
        return {f.name: maps_as_pairs(value.get(f.name), f.type) for f in arrow_type}
    return value


def _build(values: Sequence[Any], arrow_type: Any) -> Any:
    if values.count(None) == len(values):
        return pa.nulls(len(values), arrow_type)
    code = _CODES.get(arrow_type)
    if code is not None:
        numbers = [0 if value is None else value for value in values] if None in values else values
        return _from_buffers(values, arrow_type, [packed(code, numbers)])
    if (convert := _integer_converter(arrow_type)) is not None:
        size = arrow_type.bit_width // 8
        integers = [0 if value is None else convert(value) for value in values]
        data = b"".join([number.to_bytes(size, "little", signed=True) for number in integers])
        return _from_buffers(values, arrow_type, [data])
    if arrow_type == pa.string():
        strings = ["" if value is None else value for value in values] if None in values else values
        joined = "".join(strings)
        if joined.isascii():
            return _from_buffers(values, arrow_type, [_offsets(strings), joined.encode()])
        encoded = list(map(str.encode, strings))
        return _from_buffers(values, arrow_type, [_offsets(encoded), b"".join(encoded)])
    if arrow_type == pa.binary():
        parts = [b"" if value is None else bytes(value) for value in values]
        return _from_buffers(values, arrow_type, [_offsets(parts), b"".join(parts)])
    if pa.types.is_boolean(arrow_type):
        return _from_buffers(values, arrow_type, [_bits(values)])
    if pa.types.is_struct(arrow_type) and all(isinstance(v, Mapping | None) for v in values):
        rows = [value or {} for value in values]
        children = [_build([row.get(f.name) for row in rows], f.type) for f in arrow_type]
        return _from_buffers(values, arrow_type, [], children)
    if pa.types.is_map(arrow_type):
        entries = [value or () for value in values]
        pairs = list(chain.from_iterable(entries))
        keys = _build([key for key, _ in pairs], arrow_type.key_type)
        items = _build([item for _, item in pairs], arrow_type.item_type)
        fields = [arrow_type.key_field, arrow_type.item_field]
        struct = pa.StructArray.from_arrays([keys, items], fields=fields)
        return _from_buffers(values, arrow_type, [_offsets(entries)], [struct])
    if pa.types.is_list(arrow_type):
        lists = [value or () for value in values]
        elements = _build(list(chain.from_iterable(lists)), arrow_type.value_type)
        return _from_buffers(values, arrow_type, [_offsets(lists)], [elements])
    return pa.array(values, arrow_type)


def _integer_converter(arrow_type: Any) -> Callable[[Any], int] | None:
    """Return a function that converts a Python value to the integer that Arrow stores for it.

    The result is None if this module doesn't convert values of `arrow_type` in this way. The
    returned function raises an error for a decimal with more digits than the type allows.
    """
    if arrow_type == pa.date32():
        return lambda value: (value - _EPOCH.date()).days
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "us":
        return lambda value: (value - (_EPOCH if value.tzinfo else _LOCAL_EPOCH)) // _MICROSECOND
    if pa.types.is_decimal128(arrow_type):
        scale, limit = arrow_type.scale, 10**arrow_type.precision
        return lambda value: _unscaled(value, scale, limit)
    return None


def _unscaled(value: Decimal, scale: int, limit: int) -> int:
    scaled = value.scaleb(scale, _EXACT)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= limit:
        raise ArithmeticError(f"{value} has more digits than its decimal type allows")
    return unscaled


def _from_buffers(
    values: Sequence[Any], arrow_type: Any, buffers: Sequence[Any], children: Sequence[Any] = ()
) -> Any:
    nulls = values.count(None)
    validity = _bits([value is not None for value in values]) if nulls else None
    data = [None if part is None else pa.py_buffer(part) for part in (validity, *buffers)]
    return pa.Array.from_buffers(
        arrow_type, len(values), data, null_count=nulls, children=list(children)
    )


def _offsets(parts: Sequence[Any]) -> Any:
    return packed("i", accumulate(map(len, parts), initial=0))


def _bits(flags: Sequence[Any]) -> bytes:
    digits = "".join(["1" if flag else "0" for flag in reversed(flags)])
    return int(digits or "0", 2).to_bytes(len(flags) // 8 + 1, "little")
