"""Variants: binary form and JSON (PROTOCOL.md, Variant Data Type; Parquet's Variant Encoding).

This module encodes variants, and converts them from and to JSON like Spark's `parse_json` and
`to_json`. It also splits encoded objects into their fields; readers need this to reassemble
shredded variants. Invalid data raises a `VariantError`.

A JSON number without an exponent becomes an integer or a decimal if it has at most 38 digits. Every
other JSON number becomes a double. The fields of an encoded object are sorted by name.
"""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn
from uuid import UUID


class VariantError(ValueError):
    """Data that isn't a valid variant, or that can't be stored as a variant."""


NULL = b"\x00"
"""The encoded value null."""

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_TRUE, _FALSE = 1, 2
_BINARY, _STRING, _UUID = 15, 16, 20
_MAX_SHORT_STRING = 63
_NUMBERS: Mapping[str, tuple[int, str]] = {
    "int8": (3, "<b"),
    "int16": (4, "<h"),
    "int32": (5, "<i"),
    "int64": (6, "<q"),
    "double": (7, "<d"),
    "date": (11, "<i"),
    "timestamp": (12, "<q"),
    "timestamp_ntz": (13, "<q"),
    "float": (14, "<f"),
    "time": (17, "<q"),
    "timestamp_nanos": (18, "<q"),
    "timestamp_ntz_nanos": (19, "<q"),
}
_DECIMALS = ((9, 8, 4), (18, 9, 8), (38, 10, 16))
"""The decimal types of the encoding, each as (maximum digits, type id, width in bytes)."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAX_DIGITS = 38
_CONTEXT = Context(prec=2 * _MAX_DIGITS)
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_CONSTANTS = {0: "null", _TRUE: "true", _FALSE: "false"}
_NUMBER_TYPES = {type_id: (kind, layout) for kind, (type_id, layout) in _NUMBERS.items()}
_DECIMAL_WIDTHS = {type_id: width for _, type_id, width in _DECIMALS}


def metadata(names: Iterable[str]) -> bytes:
    """Encode the metadata of a variant, which contains the field names of all of its objects.

    The id of a field name is the name's index in `names`.
    """
    encoded = [name.encode() for name in names]
    width = _width(max(len(encoded), sum(map(len, encoded))))
    ends = itertools.accumulate(map(len, encoded), initial=0)
    numbers = b"".join(n.to_bytes(width, "little") for n in (len(encoded), *ends))
    return bytes([1 | (width - 1) << 6]) + numbers + b"".join(encoded)


def field_ids(metadata: bytes) -> dict[str, int]:
    """Return the id of each field name in a variant's metadata."""
    if not metadata or metadata[0] & 0x0F != 1:
        raise VariantError("the variant's metadata doesn't have version 1")
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise VariantError("the variant's metadata is truncated")
    ends = [_unsigned(metadata, 1 + width * (i + 1), width) for i in range(count + 1)]
    if ends[0] != 0 or first + ends[-1] > len(metadata):
        raise VariantError("the variant's metadata is truncated")
    try:
        return {
            metadata[first + start : first + end].decode(): i
            for i, (start, end) in enumerate(pairwise(ends))
        }
    except UnicodeDecodeError as error:
        raise VariantError(
            f"a field name in the variant's metadata isn't UTF-8: {error}"
        ) from error


def boolean(value: bool) -> bytes:
    """Encode a boolean."""
    return _header(_TRUE if value else _FALSE)


def number(kind: str, value: float) -> bytes:
    """Encode a number, date, time or timestamp.

    Args:
        kind: `int8`, `int16`, `int32`, `int64`, `float`, `double`, `date`, `time`, `timestamp`,
            `timestamp_ntz`, `timestamp_nanos` or `timestamp_ntz_nanos`.
        value: the number. A date is in days since the epoch, a time in microseconds since midnight.
            A timestamp is in microseconds since the epoch, or in nanoseconds if the kind ends with
            `_nanos`.
    """
    type_id, layout = _NUMBERS[kind]
    return _header(type_id) + struct.pack(layout, value)


def integer(value: int) -> bytes:
    """Encode an integer in the smallest type that holds it, as in Spark."""
    bits = value.bit_length() if value >= 0 else (~value).bit_length()
    for kind, max_bits in (("int8", 7), ("int16", 15), ("int32", 31), ("int64", 63)):
        if bits <= max_bits:
            return number(kind, value)
    raise VariantError(f"{value} has more than 64 bits")


def decimal(unscaled: int, scale: int) -> bytes:
    """Encode a decimal in the smallest type that holds it."""
    digits = max(len(str(abs(unscaled))), scale)
    for max_digits, type_id, width in _DECIMALS:
        if digits <= max_digits:
            return (
                _header(type_id) + bytes([scale]) + unscaled.to_bytes(width, "little", signed=True)
            )
    raise VariantError(f"a decimal has {digits} digits, but variants allow at most 38")


def string(value: str) -> bytes:
    """Encode a string."""
    data = value.encode()
    if len(data) <= _MAX_SHORT_STRING:
        return bytes([len(data) << 2 | _SHORT_STRING]) + data
    return _header(_STRING) + struct.pack("<I", len(data)) + data


def binary(value: bytes) -> bytes:
    """Encode a binary value."""
    return _header(_BINARY) + struct.pack("<I", len(value)) + value


def uuid(value: bytes) -> bytes:
    """Encode a UUID of 16 bytes, big-endian."""
    return _header(_UUID) + value


def array(elements: Sequence[bytes]) -> bytes:
    """Encode an array of encoded values."""
    is_large = len(elements) > 255  # more than a byte can count
    offsets, width = _offsets(elements)
    head = (width - 1) | is_large << 2
    return b"".join(
        [
            bytes([head << 2 | _ARRAY]),
            len(elements).to_bytes(4 if is_large else 1, "little"),
            offsets,
            *elements,
        ]
    )


def object_(fields: Mapping[str, bytes], ids: Mapping[str, int]) -> bytes:
    """Encode an object from its fields.

    Args:
        fields: the encoded value of each field.
        ids: the id of each field name in the variant's metadata.
    """
    names = sorted(fields, key=str.encode)
    missing = next((name for name in names if name not in ids), None)
    if missing is not None:
        raise VariantError(f"the variant's metadata lacks the field name {missing!r}")
    is_large = len(names) > 255  # more than a byte can count
    values = [fields[name] for name in names]
    offsets, width = _offsets(values)
    id_width = _width(max((ids[name] for name in names), default=0))
    head = (width - 1) | (id_width - 1) << 2 | is_large << 4
    return b"".join(
        [
            bytes([head << 2 | _OBJECT]),
            len(names).to_bytes(4 if is_large else 1, "little"),
            *(ids[name].to_bytes(id_width, "little") for name in names),
            offsets,
            *values,
        ]
    )


def object_fields(value: bytes, ids: Mapping[str, int]) -> dict[str, bytes]:
    """Split an encoded object into a dict of encoded values by field name.

    Args:
        ids: the id of each field name, as returned by `field_ids`.
    """
    if not value or value[0] & 3 != _OBJECT:
        raise VariantError("the field `value` of a shredded object isn't an object")
    head = value[0] >> 2
    width, id_width, count_width = (head & 3) + 1, (head >> 2 & 3) + 1, 4 if head >> 4 & 1 else 1
    count = _unsigned(value, 1, count_width)
    first_id = 1 + count_width
    first_offset = first_id + count * id_width
    first_value = first_offset + (count + 1) * width
    if first_value > len(value):
        raise VariantError("an object in a variant is truncated")
    names = {number: name for name, number in ids.items()}
    offsets = [_unsigned(value, first_offset + i * width, width) for i in range(count + 1)]
    # Values may be stored in any order: a value ends at the next larger offset.
    ends = dict(pairwise(sorted(set(offsets))))
    values: dict[str, bytes] = {}
    for i, offset in enumerate(offsets[:-1]):
        name = names.get(_unsigned(value, first_id + i * id_width, id_width))
        if name is None or first_value + ends.get(offset, len(value)) > len(value):
            raise VariantError("an object in a variant is truncated, or has a field without a name")
        values[name] = value[first_value + offset : first_value + ends[offset]]
    return values


def from_json(string: str) -> tuple[bytes, bytes]:
    """Parse JSON into a variant's metadata and value.

    Raises:
        VariantError: the string isn't JSON, an object in it has a duplicate key, or it is nested
            too deeply.
    """
    ids: dict[str, int] = {}
    try:
        value = _DECODER.decode(string)
        return metadata(_assign_ids(value, ids)), _encode(value, ids)
    except VariantError:
        raise
    except RecursionError as error:
        raise VariantError(f"{string[:60]!r} is nested too deeply") from error
    except ValueError as error:
        raise VariantError(f"{string[:60]!r} isn't JSON: {error}") from error


def to_json(metadata: bytes, value: bytes) -> str:
    """Convert a variant to JSON; values without a JSON type become strings.

    Raises:
        VariantError: the bytes aren't a variant, or the variant is nested too deeply.
    """
    try:
        return _json(memoryview(value), _names(metadata))
    except RecursionError as error:
        raise VariantError("a variant is nested too deeply") from error
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
    """Parse a JSON number as a decimal if a variant can store it, otherwise as a double."""
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
    """Add the keys of all JSON objects in `value` to `ids`, numbered by first occurrence."""
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
            return NULL
        case bool():
            return boolean(value)
        case int():
            return integer(value)
        case float():
            return number("double", value)
        case Decimal():
            _, _, exponent = value.as_tuple()
            assert isinstance(exponent, int)  # neither NaN nor an infinity
            return decimal(int(value.scaleb(-exponent, _CONTEXT)), -exponent)
        case str():
            return string(value)
        case list():
            return array([_encode(inner, ids) for inner in value])
        case _:
            return object_({k: _encode(v, ids) for k, v in value.items()}, ids)


@lru_cache(maxsize=256)
def _names(metadata: bytes) -> Mapping[int, str]:
    return {number: name for name, number in field_ids(metadata).items()}


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


def _primitive(type_id: int, data: memoryview) -> str:
    if type_id in _CONSTANTS:
        return _CONSTANTS[type_id]
    if type_id in _DECIMAL_WIDTHS:
        unscaled = int.from_bytes(_bytes(data, 2, _DECIMAL_WIDTHS[type_id]), "little", signed=True)
        return _plain_decimal(unscaled, data[1])
    if type_id in (_BINARY, _STRING):
        content = _bytes(data, 5, _unsigned(data, 1, 4))
        is_string = type_id == _STRING
        return _quoted(content.decode() if is_string else base64.b64encode(content).decode())
    if type_id == _UUID:
        return _quoted(str(UUID(bytes=_bytes(data, 1, 16))))
    if type_id not in _NUMBER_TYPES:
        raise VariantError(f"a variant has a value of the unknown type {type_id}")
    kind, layout = _NUMBER_TYPES[type_id]
    (value,) = struct.unpack(layout, _bytes(data, 1, struct.calcsize(layout)))
    if isinstance(value, float):
        # JSON has no numbers for NaN and the infinities.
        return repr(value) if math.isfinite(value) else _quoted(_not_finite(value))
    return str(value) if kind.startswith("int") else _quoted(_datetime(kind, value))


def _datetime(kind: str, value: int) -> str:
    """Format a date, time or timestamp. A timestamp with a time zone is written in UTC."""
    if kind == "date":
        return str(_EPOCH.date() + dt.timedelta(days=value))
    if kind == "time":
        return str((_EPOCH + dt.timedelta(microseconds=value)).time())
    digits = 9 if kind.endswith("_nanos") else 6
    seconds, fraction = divmod(value, 10**digits)
    formatted = f"{(_EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=None)}"
    if fraction:
        formatted += f".{fraction:0{digits}}".rstrip("0")
    return formatted + ("" if kind.startswith("timestamp_ntz") else "+00:00")


def _plain_decimal(unscaled: int, scale: int) -> str:
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


def _header(type_id: int) -> bytes:
    return bytes([type_id << 2])


def _offsets(values: Sequence[bytes]) -> tuple[bytes, int]:
    """Return the encoded offsets of `values`, and the width of one offset in bytes.

    There is one offset for the start of each value, followed by one for the end of the last value.
    """
    position, positions = 0, [0]
    for value in values:
        position += len(value)
        positions.append(position)
    width = _width(position)
    return b"".join(p.to_bytes(width, "little") for p in positions), width


def _width(max_number: int) -> int:
    return max(1, (max_number.bit_length() + 7) // 8)


def _unsigned(data: bytes | memoryview, start: int, width: int) -> int:
    return int.from_bytes(_bytes(data, start, width), "little")


def _bytes(data: bytes | memoryview, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise VariantError("it is truncated")
    return bytes(data[start : start + length])
