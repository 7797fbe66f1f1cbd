"""Thrift's compact protocol, as far as Parquet footers need it, without a schema.

A struct is what its bytes say: values by number and type of the field. `encode_struct` gives the
bytes that `decode_struct` was given, in the form that Parquet's writers choose.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

__all__ = [
    "BINARY",
    "INT32",
    "INT64",
    "LIST",
    "MOST_NESTED",
    "STRUCT",
    "ThriftStruct",
    "decode_struct",
    "encode_struct",
    "from_number",
    "to_number",
]

ThriftStruct: TypeAlias = dict[tuple[int, int], Any]
"""Values of a struct by number and type of the field, in the order of the bytes.

Whole numbers are as they stand, in zigzag order (`to_number`); a list is the type of its elements
and their values, a map the types of both and its pairs, a double its 8 bytes.
"""

_TRUE, _FALSE, _BYTE, _DOUBLE, _SET, _MAP, _INT16 = 1, 2, 3, 7, 10, 11, 4
INT32: Final = 5
INT64: Final = 6
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

MOST_NESTED: Final = 64
_LONG_LIST = 15


def decode_struct(data: bytes) -> ThriftStruct:
    """The struct that bytes begin with.

    Raises:
        ValueError: they aren't one; says why.
        IndexError: they are cut off.
    """
    return _struct(data, 0, 0)[0]


def encode_struct(fields: ThriftStruct) -> bytes:
    """The bytes of a struct whose fields ascend."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


def to_number(zigzag: int) -> int:
    """The number that a whole number's zigzag form stands for."""
    return zigzag >> 1 if zigzag & 1 == 0 else -(zigzag >> 1) - 1


def from_number(number: int) -> int:
    """The inverse of `to_number`."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def _struct(data: bytes, at: int, depth: int) -> tuple[ThriftStruct, int]:
    if depth > MOST_NESTED:
        raise ValueError("its footer is nested without end")
    fields: ThriftStruct = {}
    number = 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            zigzag, at = _varint(data, at)
            number = to_number(zigzag)
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
            raise ValueError("its footer is cut off")
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
    raise ValueError(f"its footer has a value of the unknown type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    head = data[at]
    at += 1
    count, kind = head >> 4, head & 15
    if count == _LONG_LIST:
        count, at = _varint(data, at)
    if count > len(data) - at:
        raise ValueError("its footer is cut off")
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
        raise ValueError("its footer is cut off")
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
            raise ValueError("its footer has a number of more than 64 bits")


def _put_struct(out: bytearray, fields: ThriftStruct) -> None:
    before = 0
    for (number, kind), value in fields.items():
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out.append(kind)
            _put_varint(out, from_number(number))
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
        of, values = value
        if len(values) < _LONG_LIST:
            out.append(len(values) << 4 | of)
        else:
            out.append(_LONG_LIST << 4 | of)
            _put_varint(out, len(values))
        for one in values:
            _put_value(out, of, one)
    elif kind == _MAP:
        kinds, pairs = value
        _put_varint(out, len(pairs))
        if pairs:
            out.append(kinds)
        for key, one in pairs:
            _put_value(out, kinds >> 4, key)
            _put_value(out, kinds & 15, one)
    elif kind == _DOUBLE:
        out += value
    else:
        out.append(value)


def _put_varint(out: bytearray, value: int) -> None:
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
