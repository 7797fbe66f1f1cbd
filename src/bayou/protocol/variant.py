"""Variants in binary form (PROTOCOL.md, Variant Data Type; Parquet's Variant Binary Encoding).

As much of it as making variants takes, and putting shredded ones together: objects and arrays are
built from the encoded values in them, whatever those are.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

__all__ = [
    "NULL",
    "VariantError",
    "array",
    "binary",
    "boolean",
    "decimal",
    "field_ids",
    "integer",
    "metadata",
    "number",
    "object_",
    "object_fields",
    "string",
    "uuid",
]


class VariantError(ValueError):
    """Bytes that aren't a variant, or a shredded variant that breaks its specification."""


NULL = b"\x00"
"""The value null."""

_SHORT_STRING, _OBJECT, _ARRAY = 1, 2, 3
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
"""Most digits, type and bytes."""


def metadata(names: Iterable[str]) -> bytes:
    """A variant's metadata: the names of its fields, whose ids are their positions."""
    texts = [name.encode() for name in names]
    width = _width(max(len(texts), sum(map(len, texts))))
    ends = itertools.accumulate(map(len, texts), initial=0)
    numbers = b"".join(n.to_bytes(width, "little") for n in (len(texts), *ends))
    return bytes([1 | (width - 1) << 6]) + numbers + b"".join(texts)


def field_ids(metadata: bytes) -> dict[str, int]:
    """The ids of a variant's field names, from its metadata.

    Raises:
        VariantError: not metadata of version 1, or cut off.
    """
    if not metadata or metadata[0] & 0x0F != 1:
        raise VariantError("its metadata isn't of version 1")
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise VariantError("its metadata is cut off")
    ends = [_unsigned(metadata, 1 + width * (i + 1), width) for i in range(count + 1)]
    if ends[0] != 0 or first + ends[-1] > len(metadata):
        raise VariantError("its metadata is cut off")
    try:
        return {
            metadata[first + start : first + end].decode(): i
            for i, (start, end) in enumerate(pairwise(ends))
        }
    except UnicodeDecodeError as error:
        raise VariantError(f"a field name in its metadata isn't UTF-8: {error}") from error


def boolean(value: bool) -> bytes:
    """A boolean."""
    return _header(_TRUE if value else _FALSE)


def number(kind: str, value: float) -> bytes:
    """A number, date, time or timestamp.

    Args:
        kind: `int8` to `int64` (see `integer`), `float`, `double`, `date` (days), `time`,
            `timestamp`, `timestamp_ntz` (microseconds), `timestamp_nanos`, `timestamp_ntz_nanos`.
        value: in that unit, since the epoch or midnight.
    """
    type_id, layout = _NUMBERS[kind]
    return _header(type_id) + struct.pack(layout, value)


def integer(value: int) -> bytes:
    """A whole number, in as few bytes as it takes, as Spark has it.

    Raises:
        VariantError: one of more than 64 bits.
    """
    bits = value.bit_length() if value >= 0 else (~value).bit_length()
    for kind, most in (("int8", 7), ("int16", 15), ("int32", 31), ("int64", 63)):
        if bits <= most:
            return number(kind, value)
    raise VariantError(f"{value} has more than 64 bits")


def decimal(unscaled: int, scale: int) -> bytes:
    """A decimal, in as few bytes as it takes.

    Raises:
        VariantError: one of more than 38 digits.
    """
    digits = max(len(str(abs(unscaled))), scale)
    for most, type_id, width in _DECIMALS:
        if digits <= most:
            return (
                _header(type_id) + bytes([scale]) + unscaled.to_bytes(width, "little", signed=True)
            )
    raise VariantError(f"a decimal of {digits} digits is none of a variant's")


def string(value: str) -> bytes:
    """A string."""
    data = value.encode()
    if len(data) <= _MAX_SHORT_STRING:
        return bytes([len(data) << 2 | _SHORT_STRING]) + data
    return _header(_STRING) + struct.pack("<I", len(data)) + data


def binary(value: bytes) -> bytes:
    """Bytes."""
    return _header(_BINARY) + struct.pack("<I", len(value)) + value


def uuid(value: bytes) -> bytes:
    """A UUID of 16 bytes, big-endian."""
    return _header(_UUID) + value


def array(elements: Sequence[bytes]) -> bytes:
    """An array of encoded values."""
    is_large = len(elements) > 255  # what a byte holds
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
    """An object of encoded values.

    Raises:
        VariantError: a name that the metadata doesn't have.
    """
    names = sorted(fields, key=str.encode)
    missing = next((name for name in names if name not in ids), None)
    if missing is not None:
        raise VariantError(f"its metadata lacks the field name {missing!r}")
    is_large = len(names) > 255  # what a byte holds
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
    """The encoded values of an object by name.

    Raises:
        VariantError: not an object, cut off, or with a field that the metadata doesn't name.
    """
    if not value or value[0] & 3 != _OBJECT:
        raise VariantError("what is left of a shredded object isn't an object")
    head = value[0] >> 2
    width, id_width, count_width = (head & 3) + 1, (head >> 2 & 3) + 1, 4 if head >> 4 & 1 else 1
    count = _unsigned(value, 1, count_width)
    first_id = 1 + count_width
    first_offset = first_id + count * id_width
    first_value = first_offset + (count + 1) * width
    if first_value > len(value):
        raise VariantError("an object is cut off")
    names = {number: name for name, number in ids.items()}
    offsets = [_unsigned(value, first_offset + i * width, width) for i in range(count + 1)]
    # Values needn't stand in the order of the names: one ends where the next begins.
    ends = dict(pairwise(sorted(set(offsets))))
    found: dict[str, bytes] = {}
    for i, offset in enumerate(offsets[:-1]):
        name = names.get(_unsigned(value, first_id + i * id_width, id_width))
        if name is None or first_value + ends.get(offset, len(value)) > len(value):
            raise VariantError("an object is cut off, or has a field without a name")
        found[name] = value[first_value + offset : first_value + ends[offset]]
    return found


def _header(type_id: int) -> bytes:
    return bytes([type_id << 2])


def _offsets(values: Sequence[bytes]) -> tuple[bytes, int]:
    """Where each of the values begins and the last one ends; bytes of each of these numbers."""
    position, positions = 0, [0]
    for value in values:
        position += len(value)
        positions.append(position)
    width = _width(position)
    return b"".join(p.to_bytes(width, "little") for p in positions), width


def _width(most: int) -> int:
    return max(1, (most.bit_length() + 7) // 8)


def _unsigned(data: bytes, start: int, width: int) -> int:
    if start + width > len(data):
        raise VariantError("it is cut off")
    return int.from_bytes(data[start : start + width], "little")
