"""Variants out of JSON texts, and JSON texts out of variants (Parquet's Variant Binary Encoding).

As Spark's `parse_json` and `to_json` do it: a number without an exponent is a whole number or a
decimal where it fits, else a double; keys of an object are distinct and sorted.
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
_MOST_DIGITS = 38
_CONTEXT = Context(prec=2 * _MOST_DIGITS)
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def from_json(text: str) -> tuple[bytes, bytes]:
    """A variant's metadata and value.

    Raises:
        VariantError: not JSON, or an object with a key twice.
    """
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise VariantError(f"{text[:60]!r} isn't JSON: {error}") from error
    ids: dict[str, int] = {}
    return variant.metadata(_named(value, ids)), _encoded(value, ids)


def to_json(metadata: bytes, value: bytes) -> str:
    """A variant as JSON; what JSON has no type for is a string.

    Raises:
        VariantError: bytes that aren't a variant.
    """
    try:
        return _text(memoryview(value), _names(metadata))
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise VariantError(f"a variant is cut off or damaged: {error!r}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return found


def _number(text: str) -> Decimal | float:
    """A decimal where the text is one that a variant can hold, as in Spark."""
    if _PLAIN_NUMBER.fullmatch(text):
        digits = text.lstrip("-").replace(".", "").lstrip("0")
        scale = len(text.partition(".")[2])
        if len(digits) <= _MOST_DIGITS and scale <= _MOST_DIGITS:
            return Decimal(text)
    return float(text)


def _whole(text: str) -> int | Decimal | float:
    number = int(text) if len(text) < _MOST_DIGITS else 1 << 64
    return number if -(1 << 63) <= number < 1 << 63 else _number(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no value of JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_whole, parse_constant=_refuse
)


def _named(value: Any, ids: dict[str, int]) -> dict[str, int]:
    """The ids of all keys, given in the order in which they come."""
    if isinstance(value, dict):
        for name, inner in value.items():
            ids.setdefault(name, len(ids))
            _named(inner, ids)
    elif isinstance(value, list):
        for inner in value:
            _named(inner, ids)
    return ids


def _encoded(value: Any, ids: Mapping[str, int]) -> bytes:
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
            return variant.array([_encoded(inner, ids) for inner in value])
        case _:
            return variant.object_({k: _encoded(v, ids) for k, v in value.items()}, ids)


@lru_cache(maxsize=256)
def _names(metadata: bytes) -> Mapping[int, str]:
    return {number: name for name, number in variant.field_ids(metadata).items()}


def _text(data: memoryview, names: Mapping[int, str]) -> str:
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
    texts = [
        _text(data[first_value + _unsigned(data, first_offset + i * width, width) :], names)
        for i in range(count)
    ]
    if kind == _ARRAY:
        return f"[{','.join(texts)}]"
    keys = [names[_unsigned(data, first_id + i * id_width, id_width)] for i in range(count)]
    members = [f"{_quoted(key)}:{text}" for key, text in zip(keys, texts, strict=True)]
    return f"{{{','.join(members)}}}"


def _primitive(kind: int, data: memoryview) -> str:
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind in _WHOLE:
        return str(int.from_bytes(_bytes(data, 1, _WHOLE[kind]), "little", signed=True))
    if kind in _FLOATS:
        layout, width = _FLOATS[kind]
        (number,) = struct.unpack(layout, _bytes(data, 1, width))
        # JSON has no number for the others.
        return repr(number) if math.isfinite(number) else _quoted(_not_finite(number))
    if kind in _DECIMALS:
        unscaled = int.from_bytes(_bytes(data, 2, _DECIMALS[kind]), "little", signed=True)
        return _plain(unscaled, data[1])
    if kind in (_BINARY, _STRING):
        content = _bytes(data, 5, _unsigned(data, 1, 4))
        text = content.decode() if kind == _STRING else base64.b64encode(content).decode()
        return _quoted(text)
    if kind == _UUID:
        return _quoted(str(uuid.UUID(bytes=_bytes(data, 1, 16))))
    return _quoted(_moment(kind, data))


_CONSTANTS = {0: "null", 1: "true", 2: "false"}
_WHOLE = {3: 1, 4: 2, 5: 4, 6: 8}
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


def _moment(kind: int, data: memoryview) -> str:
    """Dates, times and timestamps, the latter in UTC where they are an instant."""
    if kind == _DATE:
        days = int.from_bytes(_bytes(data, 1, 4), "little", signed=True)
        return str(_EPOCH.date() + dt.timedelta(days=days))
    if kind not in (_TIMESTAMP, _TIMESTAMP_NTZ, _TIME, _TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS):
        raise VariantError(f"a value has type {kind}, which isn't known")
    number = int.from_bytes(_bytes(data, 1, 8), "little", signed=True)
    if kind == _TIME:
        return str((_EPOCH + dt.timedelta(microseconds=number)).time())
    nanos = kind in (_TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS)
    seconds, fraction = divmod(number, 10**9 if nanos else 10**6)
    text = f"{(_EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=None)}"
    if fraction:
        text += f".{fraction:0{9 if nanos else 6}}".rstrip("0")
    return text + ("+00:00" if kind in (_TIMESTAMP, _TIMESTAMP_NANOS) else "")


def _plain(unscaled: int, scale: int) -> str:
    """A decimal without an exponent and without zeros behind its last digit."""
    digits = f"{abs(unscaled):0{scale + 1}}"
    sign = "-" if unscaled < 0 else ""
    if not scale:
        return sign + digits
    return (sign + digits[:-scale] + "." + digits[-scale:]).rstrip("0").rstrip(".")


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _bytes(data: memoryview, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise VariantError("a variant is cut off")
    return bytes(data[start : start + length])


def _unsigned(data: memoryview, start: int, width: int) -> int:
    return int.from_bytes(_bytes(data, start, width), "little")
