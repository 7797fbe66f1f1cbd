"""Thrift's compact protocol without a schema: the parts that Parquet footers use.

For data from Parquet writers, `encode_struct(decode_struct(data))` equals `data`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

ThriftStruct: TypeAlias = dict[tuple[int, int], Any]
"""Values of a struct by field number and type, in the order of the bytes.

Integers are zigzag-encoded (see `decode_zigzag`). A list is a pair of element type and values. A
map is also a pair: one byte that contains its key type and value type, and a list of (key, value).
A double is 8 bytes.
"""

_TRUE, _FALSE, _BYTE, _DOUBLE, _SET, _MAP, _INT16 = 1, 2, 3, 7, 10, 11, 4
INT32: Final = 5
INT64: Final = 6
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

MAX_NESTING: Final = 64
_LONG_LIST = 15


def decode_struct(data: bytes) -> ThriftStruct:
    """Decode the struct at the beginning of `data`.

    Raises:
        ValueError, IndexError: the data is damaged.
    """
    return _struct(data, 0, 0)[0]


def encode_struct(fields: ThriftStruct) -> bytes:
    """Encode a struct whose field numbers ascend."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


def decode_zigzag(zigzag: int) -> int:
    """Decode a zigzag-encoded integer."""
    return zigzag >> 1 if zigzag & 1 == 0 else -(zigzag >> 1) - 1


def encode_zigzag(number: int) -> int:
    """Encode an integer in zigzag form, the inverse of `decode_zigzag`."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def _struct(data: bytes, at: int, depth: int) -> tuple[ThriftStruct, int]:
    if depth > MAX_NESTING:
        raise ValueError("the footer is nested too deeply")
    fields: ThriftStruct = {}
    number = 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            zigzag, at = _varint(data, at)
            number = decode_zigzag(zigzag)
        kind = head & 15
        if kind in (_TRUE, _FALSE):
            fields[number, kind] = kind == _TRUE
        else:
            fields[number, kind], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if _INT16 <= kind <= INT64:
        return _varint(data, at)
    if kind == BINARY:
        length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError("the footer is truncated")
        return data[at : at + length], at + length
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (LIST, _SET):
        return _list(data, at, depth + 1)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _DOUBLE:
        return data[at : at + 8], at + 8
    if kind == _MAP:
        return _map(data, at, depth + 1)
    raise ValueError(f"the footer has a value of the unknown type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    head = data[at]
    at += 1
    count, kind = head >> 4, head & 15
    if count == _LONG_LIST:
        count, at = _varint(data, at)
    if count > len(data) - at:
        raise ValueError("the footer is truncated")
    values = []
    for _ in range(count):
        value, at = _value(data, at, kind, depth)
        values.append(value)
    return (kind, values), at


def _map(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[tuple[Any, Any]]], int]:
    count, at = _varint(data, at)
    if count == 0:
        return (0, []), at
    kinds = data[at]
    at += 1
    if count > len(data) - at:
        raise ValueError("the footer is truncated")
    pairs = []
    for _ in range(count):
        key, at = _value(data, at, kinds >> 4, depth)
        value, at = _value(data, at, kinds & 15, depth)
        pairs.append((key, value))
    return (kinds, pairs), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value, shift = byte & 127, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise ValueError("the footer has an integer of more than 64 bits")


def _put_struct(out: bytearray, fields: ThriftStruct) -> None:
    before = 0
    for (number, kind), value in fields.items():
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out.append(kind)
            _put_varint(out, encode_zigzag(number))
        before = number
        if kind not in (_TRUE, _FALSE):
            _put_value(out, kind, value)
    out.append(0)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if _INT16 <= kind <= INT64:
        _put_varint(out, value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind in (LIST, _SET):
        element_kind, values = value
        if len(values) < _LONG_LIST:
            out.append(len(values) << 4 | element_kind)
        else:
            out.append(_LONG_LIST << 4 | element_kind)
            _put_varint(out, len(values))
        for element in values:
            _put_value(out, element_kind, element)
    elif kind == _MAP:
        kinds, pairs = value
        _put_varint(out, len(pairs))
        if pairs:
            out.append(kinds)
        for key, element in pairs:
            _put_value(out, kinds >> 4, key)
            _put_value(out, kinds & 15, element)
    elif kind == _DOUBLE:
        out += value
    else:
        out.append(value)


def _put_varint(out: bytearray, value: int) -> None:
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
