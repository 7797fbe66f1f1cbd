"""Binary form of variants (PROTOCOL.md, Variant Data Type; Parquet's Variant Binary Encoding).

Encodes variants, and decodes the parts that are needed to reassemble shredded variants. Objects
and arrays are built from encoded values.
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
    """Bytes that aren't a variant, or a shredded variant that violates the specification."""


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
"""Maximum digits, type id and width in bytes."""


def metadata(names: Iterable[str]) -> bytes:
    """A variant's metadata: its field names; the id of a name is its position."""
    encoded = [name.encode() for name in names]
    width = _width(max(len(encoded), sum(map(len, encoded))))
    ends = itertools.accumulate(map(len, encoded), initial=0)
    numbers = b"".join(n.to_bytes(width, "little") for n in (len(encoded), *ends))
    return bytes([1 | (width - 1) << 6]) + numbers + b"".join(encoded)


def field_ids(metadata: bytes) -> dict[str, int]:
    """The ids of a variant's field names, from its metadata.

    Raises:
        VariantError: not metadata of version 1, or truncated.
    """
    if not metadata or metadata[0] & 0x0F != 1:
        raise VariantError("its metadata doesn't have version 1")
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise VariantError("its metadata is truncated")
    ends = [_unsigned(metadata, 1 + width * (i + 1), width) for i in range(count + 1)]
    if ends[0] != 0 or first + ends[-1] > len(metadata):
        raise VariantError("its metadata is truncated")
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
        value: the value in the unit of its kind, since the epoch or midnight.
    """
    type_id, layout = _NUMBERS[kind]
    return _header(type_id) + struct.pack(layout, value)


def integer(value: int) -> bytes:
    """An integer, in the smallest type that holds it, as in Spark.

    Raises:
        VariantError: the integer has more than 64 bits.
    """
    bits = value.bit_length() if value >= 0 else (~value).bit_length()
    for kind, max_bits in (("int8", 7), ("int16", 15), ("int32", 31), ("int64", 63)):
        if bits <= max_bits:
            return number(kind, value)
    raise VariantError(f"{value} has more than 64 bits")


def decimal(unscaled: int, scale: int) -> bytes:
    """A decimal, in the smallest type that holds it.

    Raises:
        VariantError: the decimal has more than 38 digits.
    """
    digits = max(len(str(abs(unscaled))), scale)
    for max_digits, type_id, width in _DECIMALS:
        if digits <= max_digits:
            return (
                _header(type_id) + bytes([scale]) + unscaled.to_bytes(width, "little", signed=True)
            )
    raise VariantError(f"a decimal has {digits} digits; variants allow 38")


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
    """An object of encoded values.

    Raises:
        VariantError: the metadata lacks a field name.
    """
    names = sorted(fields, key=str.encode)
    missing = next((name for name in names if name not in ids), None)
    if missing is not None:
        raise VariantError(f"its metadata lacks the field name {missing!r}")
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
    """The encoded values of an object by field name.

    Raises:
        VariantError: not an object, truncated, or with a field that the metadata lacks.
    """
    if not value or value[0] & 3 != _OBJECT:
        raise VariantError("the unshredded part of an object isn't an object")
    head = value[0] >> 2
    width, id_width, count_width = (head & 3) + 1, (head >> 2 & 3) + 1, 4 if head >> 4 & 1 else 1
    count = _unsigned(value, 1, count_width)
    first_id = 1 + count_width
    first_offset = first_id + count * id_width
    first_value = first_offset + (count + 1) * width
    if first_value > len(value):
        raise VariantError("an object is truncated")
    names = {number: name for name, number in ids.items()}
    offsets = [_unsigned(value, first_offset + i * width, width) for i in range(count + 1)]
    # Values may be stored in any order: a value ends at the next larger offset.
    ends = dict(pairwise(sorted(set(offsets))))
    values: dict[str, bytes] = {}
    for i, offset in enumerate(offsets[:-1]):
        name = names.get(_unsigned(value, first_id + i * id_width, id_width))
        if name is None or first_value + ends.get(offset, len(value)) > len(value):
            raise VariantError("an object is truncated, or has a field without a name")
        values[name] = value[first_value + offset : first_value + ends[offset]]
    return values


def _header(type_id: int) -> bytes:
    return bytes([type_id << 2])


def _offsets(values: Sequence[bytes]) -> tuple[bytes, int]:
    """Offsets of the values and of the end, encoded; and the width of an offset in bytes."""
    position, positions = 0, [0]
    for value in values:
        position += len(value)
        positions.append(position)
    width = _width(position)
    return b"".join(p.to_bytes(width, "little") for p in positions), width


def _width(max_number: int) -> int:
    return max(1, (max_number.bit_length() + 7) // 8)


def _unsigned(data: bytes, start: int, width: int) -> int:
    if start + width > len(data):
        raise VariantError("it is truncated")
    return int.from_bytes(data[start : start + width], "little")
