"""Conversion between JSON and variants (Parquet's Variant Binary Encoding).

Follows Spark's `parse_json` and `to_json`: a number without an exponent is an integer or a decimal
if it fits, else a double; the keys of an object are distinct and sorted.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
import uuid
from collections.abc import Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, NoReturn

from bayou.protocol import variant
from bayou.protocol.variant import VariantError

__all__ = ["from_json", "to_json"]

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAX_DIGITS = 38
_CONTEXT = Context(prec=2 * _MAX_DIGITS)
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def from_json(string: str) -> tuple[bytes, bytes]:
    """Parse JSON into a variant's metadata and value.

    Raises:
        VariantError: not JSON, or an object with a duplicate key.
    """
    try:
        value = _DECODER.decode(string)
    except (ValueError, RecursionError) as error:
        raise VariantError(f"{string[:60]!r} isn't JSON: {error}") from error
    ids: dict[str, int] = {}
    return variant.metadata(_assign_ids(value, ids)), _encode(value, ids)


def to_json(metadata: bytes, value: bytes) -> str:
    """A variant as JSON; values of types that JSON lacks become strings.

    Raises:
        VariantError: the bytes aren't a variant.
    """
    try:
        return _json(memoryview(value), _names(metadata))
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise VariantError(f"a variant is truncated or damaged: {error!r}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {duplicate!r} twice")
    return members


def _number(string: str) -> Decimal | float:
    """A decimal if a variant can hold the number, else a double, as in Spark."""
    if _PLAIN_NUMBER.fullmatch(string):
        digits = string.lstrip("-").replace(".", "").lstrip("0")
        scale = len(string.partition(".")[2])
        if len(digits) <= _MAX_DIGITS and scale <= _MAX_DIGITS:
            return Decimal(string)
    return float(string)


def _integer(string: str) -> int | Decimal | float:
    number = int(string) if len(string) < _MAX_DIGITS else 1 << 64
    return number if -(1 << 63) <= number < 1 << 63 else _number(string)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} isn't a JSON value")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_number,
    parse_int=_integer,
    parse_constant=_reject_constant,
)


def _assign_ids(value: Any, ids: dict[str, int]) -> dict[str, int]:
    """Add the ids of all keys, in the order of their first occurrence."""
    if isinstance(value, dict):
        for name, inner in value.items():
            ids.setdefault(name, len(ids))
            _assign_ids(inner, ids)
    elif isinstance(value, list):
        for inner in value:
            _assign_ids(inner, ids)
    return ids


def _encode(value: Any, ids: Mapping[str, int]) -> bytes:
    match value:
        case None:
            return variant.NULL
        case bool():
            return variant.boolean(value)
        case int():
            return variant.integer(value)
        case float():
            return variant.number("double", value)
        case Decimal():
            _, _, exponent = value.as_tuple()
            assert isinstance(exponent, int)  # neither NaN nor an infinity
            return variant.decimal(int(value.scaleb(-exponent, _CONTEXT)), -exponent)
        case str():
            return variant.string(value)
        case list():
            return variant.array([_encode(inner, ids) for inner in value])
        case _:
            return variant.object_({k: _encode(v, ids) for k, v in value.items()}, ids)


@lru_cache(maxsize=256)
def _names(metadata: bytes) -> Mapping[int, str]:
    return {number: name for name, number in variant.field_ids(metadata).items()}


def _json(data: memoryview, names: Mapping[int, str]) -> str:
    kind, head = data[0] & 3, data[0] >> 2
    if kind == _SHORT_STRING:
        return _quoted(_bytes(data, 1, head).decode())
    if kind == _PRIMITIVE:
        return _primitive(head, data)
    width = (head & 3) + 1
    id_width = (head >> 2 & 3) + 1 if kind == _OBJECT else 0
    count_width = 4 if head >> (4 if kind == _OBJECT else 2) & 1 else 1
    count = _unsigned(data, 1, count_width)
    first_id = 1 + count_width
    first_offset = first_id + count * id_width
    first_value = first_offset + (count + 1) * width
    values = [
        _json(data[first_value + _unsigned(data, first_offset + i * width, width) :], names)
        for i in range(count)
    ]
    if kind == _ARRAY:
        return f"[{','.join(values)}]"
    keys = [names[_unsigned(data, first_id + i * id_width, id_width)] for i in range(count)]
    members = [f"{_quoted(key)}:{value}" for key, value in zip(keys, values, strict=True)]
    return f"{{{','.join(members)}}}"


def _primitive(kind: int, data: memoryview) -> str:
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind in _INTEGERS:
        return str(int.from_bytes(_bytes(data, 1, _INTEGERS[kind]), "little", signed=True))
    if kind in _FLOATS:
        layout, width = _FLOATS[kind]
        (number,) = struct.unpack(layout, _bytes(data, 1, width))
        # JSON has no numbers for NaN and the infinities.
        return repr(number) if math.isfinite(number) else _quoted(_not_finite(number))
    if kind in _DECIMALS:
        unscaled = int.from_bytes(_bytes(data, 2, _DECIMALS[kind]), "little", signed=True)
        return _plain_decimal(unscaled, data[1])
    if kind in (_BINARY, _STRING):
        content = _bytes(data, 5, _unsigned(data, 1, 4))
        string = content.decode() if kind == _STRING else base64.b64encode(content).decode()
        return _quoted(string)
    if kind == _UUID:
        return _quoted(str(uuid.UUID(bytes=_bytes(data, 1, 16))))
    return _quoted(_datetime(kind, data))


_CONSTANTS = {0: "null", 1: "true", 2: "false"}
_INTEGERS = {3: 1, 4: 2, 5: 4, 6: 8}
_FLOATS = {7: ("<d", 8), 14: ("<f", 4)}
_DECIMALS = {8: 4, 9: 8, 10: 16}
_BINARY, _STRING, _UUID = 15, 16, 20
_DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _TIME, _TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS = (
    11,
    12,
    13,
    17,
    18,
    19,
)


def _datetime(kind: int, data: memoryview) -> str:
    """A date, time or timestamp; a timestamp with a time zone is in UTC."""
    if kind == _DATE:
        days = int.from_bytes(_bytes(data, 1, 4), "little", signed=True)
        return str(_EPOCH.date() + dt.timedelta(days=days))
    if kind not in (_TIMESTAMP, _TIMESTAMP_NTZ, _TIME, _TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS):
        raise VariantError(f"a value has the unknown type {kind}")
    number = int.from_bytes(_bytes(data, 1, 8), "little", signed=True)
    if kind == _TIME:
        return str((_EPOCH + dt.timedelta(microseconds=number)).time())
    nanos = kind in (_TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS)
    seconds, fraction = divmod(number, 10**9 if nanos else 10**6)
    formatted = f"{(_EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=None)}"
    if fraction:
        formatted += f".{fraction:0{9 if nanos else 6}}".rstrip("0")
    return formatted + ("+00:00" if kind in (_TIMESTAMP, _TIMESTAMP_NANOS) else "")


def _plain_decimal(unscaled: int, scale: int) -> str:
    """A decimal without an exponent and without trailing zeros."""
    digits = f"{abs(unscaled):0{scale + 1}}"
    sign = "-" if unscaled < 0 else ""
    if not scale:
        return sign + digits
    return (sign + digits[:-scale] + "." + digits[-scale:]).rstrip("0").rstrip(".")


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _quoted(string: str) -> str:
    return json.dumps(string, ensure_ascii=False)


def _bytes(data: memoryview, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise VariantError("a variant is truncated")
    return bytes(data[start : start + length])


def _unsigned(data: memoryview, start: int, width: int) -> int:
    return int.from_bytes(_bytes(data, start, width), "little")
