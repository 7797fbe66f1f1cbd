"""Decodes JSON one string at a time: slower than `pyarrow.json`, but exact for all values."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from bayou.engines.arrow.conversion import without_columns
from bayou.errors import SerializationError
from bayou.json_decoding import JsonDecoder, without_lone_surrogates
from bayou.kernel.arrow.arrays import to_array

_Reader: TypeAlias = Callable[[Any], Any]
"""Function that converts a decoded JSON value to a Python value for an array of an Arrow type. The
result is None if the type can't represent the value."""

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Float values by the JSON string that Spark writes for them. JSON has no such numbers."""

_AnyType: TypeAlias = Any
"""A `pa.DataType`, typed as Any because mypy doesn't narrow types by `pa.types.is_map`."""

_EXACT = Context(prec=100)
"""A decimal context that is exact for Delta's 38 digits; the default context has 28 digits."""

_DECODER: JsonDecoder[Any] = JsonDecoder(object)
_EXACT_DECODER: JsonDecoder[Any] = JsonDecoder(object, float_hook=Decimal)
"""A JSON decoder that keeps every digit of decimals."""


def parse_strings(strings: pa.Array[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Parse each JSON object in `strings` to one row; see `JsonHandler.parse_json`."""
    decoder = _EXACT_DECODER if any(map(_holds_decimal, schema.types)) else _DECODER
    objects = [_decode(string, decoder) for string in strings.cast(pa.binary()).to_pylist()]
    if not schema:
        return without_columns(schema, len(objects))
    columns = [_column([o.get(f.name) for o in objects], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], kind: _AnyType) -> pa.Array[Any]:
    """Convert decoded JSON values to an array of the Arrow type `kind`."""
    if not pa.types.is_struct(kind) or kind.num_fields == 0:
        read = _reader(kind)
        array: pa.Array[Any] = to_array([None if v is None else read(v) for v in values], kind)
        return array
    objects = [v if isinstance(v, dict) else None for v in values]
    fields = [kind.field(i) for i in range(kind.num_fields)]
    return pa.StructArray.from_arrays(
        [_column([None if o is None else o.get(f.name) for o in objects], f.type) for f in fields],
        fields=fields,
        mask=to_array([o is None for o in objects], pa.bool_()),
    )


def _decode(data: bytes | None, decoder: JsonDecoder[Any]) -> dict[str, Any]:
    if data is None:
        return {}
    try:
        value = _decode_any(data, decoder)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SerializationError(f"not JSON ({error}): {_excerpt(data)}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SerializationError(f"not a JSON object: {_excerpt(data)}")
    return value


def _decode_any(data: bytes, decoder: JsonDecoder[Any]) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:  # a number out of a float's range
        return _EXACT_DECODER.decode(data)
    except msgspec.DecodeError:
        replaced = without_lone_surrogates(data)
        if replaced == data:
            raise
        return _decode_any(replaced, decoder)


def _excerpt(data: bytes) -> str:
    return repr(data[:200].decode(errors="replace"))


def _holds_decimal(kind: _AnyType) -> bool:
    if pa.types.is_decimal(kind):
        return True
    fields = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return any(_holds_decimal(f.type) for f in fields)


def _reader(kind: _AnyType) -> _Reader:
    types = pa.types
    if types.is_struct(kind):
        return _struct_reader(kind)
    if types.is_map(kind):
        return _map_reader(kind)
    if types.is_list(kind) or types.is_large_list(kind):
        element = _reader(kind.value_type)
        return lambda v: [element(e) for e in v] if isinstance(v, list) else None
    if types.is_boolean(kind):
        return lambda v: v if isinstance(v, bool) else None
    if types.is_integer(kind):
        return _integer_reader(kind)
    if types.is_floating(kind):
        return _float_reader(kind)
    if types.is_decimal(kind):
        return _decimal_reader(kind)
    if types.is_string(kind) or types.is_large_string(kind):
        return lambda v: v if isinstance(v, str) else None
    if types.is_date(kind):
        return _read_date
    if types.is_timestamp(kind):
        return _timestamp_reader(kind)
    return lambda _: None


def _struct_reader(kind: pa.DataType) -> _Reader:
    fields = [(kind.field(i).name, _reader(kind.field(i).type)) for i in range(kind.num_fields)]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        return {name: field(value.get(name)) for name, field in fields}

    return read


def _map_reader(kind: _AnyType) -> _Reader:
    """Return a function that converts a decoded JSON object to a map of the Arrow type `kind`.

    For a JSON value that isn't an object, the returned function returns None, which becomes null.
    If the keys of `kind` aren't strings, the returned function returns None for every value.
    """
    item = _reader(kind.item_type)
    if not pa.types.is_string(kind.key_type):
        return lambda _: None
    return lambda v: [(k, item(e)) for k, e in v.items()] if isinstance(v, dict) else None


def _integer_reader(kind: pa.DataType) -> _Reader:
    bits = kind.bit_width
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if pa.types.is_signed_integer(kind)
        else (0, (1 << bits) - 1)
    )

    def read(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        return None

    return read


def _float_reader(kind: pa.DataType) -> _Reader:
    limit = {16: 65504.0, 32: 3.4028235677973366e38}.get(kind.bit_width, math.inf)

    def read(value: Any) -> Any:
        if isinstance(value, str):
            return NON_FINITE.get(value)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) and abs(number) < limit else None

    return read


def _decimal_reader(kind: _AnyType) -> _Reader:
    scale, limit = kind.scale, Decimal(10) ** (kind.precision - kind.scale)
    step = Decimal(1).scaleb(-scale)

    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            return None
        try:
            number = Decimal(value)
            if (
                not number.is_finite()
                or number.copy_abs() >= limit
                or _EXACT.remainder(number, step)
            ):
                return None
        except InvalidOperation:
            return None
        return number

    return read


def _read_date(value: Any) -> Any:
    try:
        return dt.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _timestamp_reader(kind: _AnyType) -> _Reader:
    zoned = kind.tz is not None

    def read(value: Any) -> Any:
        try:
            timestamp = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
        except ValueError:
            return None
        if timestamp is None:
            return None
        if timestamp.tzinfo is None:
            return timestamp.replace(tzinfo=dt.UTC) if zoned else timestamp
        timestamp = timestamp.astimezone(dt.UTC)
        return timestamp if zoned else timestamp.replace(tzinfo=None)

    return read
