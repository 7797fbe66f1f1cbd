"""A minimal Parquet writer for layouts that pyarrow can read but doesn't write.

A file has one row group. Each leaf column has one data page without compression, with the encoding
PLAIN. Examples of such layouts are two-level lists and legacy maps.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
INT32, INT64, INT96, BYTE_ARRAY, FIXED = 1, 2, 3, 6, 7
UTF8, MAP, MAP_KEY_VALUE, LIST, DECIMAL = 0, 1, 2, 3, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The schema of a leaf column.

    Attributes:
        repetition: value of Parquet's Thrift enum `FieldRepetitionType`.
        physical: value of the enum `Type`.
        converted: value of the enum `ConvertedType`; None without a converted type.
    """

    name: str
    repetition: int
    physical: int
    converted: int | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    field_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The schema of a group of columns.

    Attributes:
        repetition: value of Parquet's Thrift enum `FieldRepetitionType`.
        converted: value of the enum `ConvertedType`, such as `LIST`; None without a converted type.
    """

    name: str
    repetition: int
    children: Sequence[Group | Leaf]
    converted: int | None = None
    field_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The content of a leaf column.

    Attributes:
        path: the names from the root of the schema to the column.
        repetition_levels: the repetition level of each value, including nulls.
        definition_levels: the definition level of each value, including nulls.
        values: the values that aren't null, as bytes in the encoding PLAIN without a length prefix.
    """

    path: Sequence[str]
    repetition_levels: Sequence[int]
    definition_levels: Sequence[int]
    values: Sequence[bytes]


def parquet_bytes(
    fields: Sequence[Group | Leaf], columns: Sequence[Column], num_rows: int
) -> bytes:
    """Return the bytes of a Parquet file.

    Args:
        fields: the schema.
        columns: the content of all leaf columns, in the order of the schema.
        num_rows: number of rows.
    """
    content = bytearray(b"PAR1")
    chunks: list[Any] = []
    leaves = {path: leaf for field in fields for path, leaf in _leaves(field, ())}
    for column in columns:
        leaf, max_repetition, max_definition = _levels(fields, column.path)
        body = b""
        if max_repetition:
            body += _encoded_levels(column.repetition_levels)
        if max_definition:
            body += _encoded_levels(column.definition_levels)
        body += b"".join(_plain(leaf, value) for value in column.values)
        count = len(column.definition_levels)
        header = _thrift({1: 0, 2: len(body), 3: len(body), 5: {1: count, 2: 0, 3: 3, 4: 3}})
        offset, size = len(content), len(header) + len(body)
        content += header + body
        metadata = {
            1: leaves[tuple(column.path)].physical,
            2: [0, 3],
            3: [name.encode() for name in column.path],
            4: 0,
            5: _Long(count),
            6: _Long(size),
            7: _Long(size),
            9: _Long(offset),
        }
        chunks.append({2: _Long(offset), 3: metadata})
    schema = [{4: b"schema", 5: len(fields)}]
    for field in fields:
        schema += _elements(field)
    size = len(content) - 4
    footer = _thrift(
        {
            1: 1,
            2: schema,
            3: _Long(num_rows),
            4: [{1: chunks, 2: _Long(size), 3: _Long(num_rows)}],
        }
    )
    return bytes(content + footer + struct.pack("<I", len(footer)) + b"PAR1")


class _Long(int):
    """An integer that is encoded as Thrift's `i64`. Other integers are encoded as `i32`."""


def _leaves(field: Group | Leaf, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Leaf]]:
    path = (*path, field.name)
    if isinstance(field, Leaf):
        return [(path, field)]
    return [leaf for child in field.children for leaf in _leaves(child, path)]


def _levels(fields: Sequence[Group | Leaf], path: Sequence[str]) -> tuple[Leaf, int, int]:
    repeated = defined = 0
    field: Group | Leaf | None = None
    for name in path:
        field = next(f for f in fields if f.name == name)
        repeated += field.repetition == REPEATED
        defined += field.repetition != REQUIRED
        fields = field.children if isinstance(field, Group) else ()
    assert isinstance(field, Leaf)
    return field, repeated, defined


def _elements(field: Group | Leaf) -> list[dict[int, Any]]:
    element: dict[int, Any] = {3: field.repetition, 4: field.name.encode()}
    if field.converted is not None:
        element[6] = field.converted
    if field.field_id is not None:
        element[9] = field.field_id
    if isinstance(field, Group):
        element[5] = len(field.children)
        return [element, *(e for child in field.children for e in _elements(child))]
    element[1] = field.physical
    numbers = {2: field.length, 7: field.scale, 8: field.precision}
    return [element | {key: number for key, number in numbers.items() if number is not None}]


def _encoded_levels(levels: Sequence[int]) -> bytes:
    """Encode repetition or definition levels with RLE, with one run for each level.

    The length of the runs in bytes precedes the runs.
    """
    runs = b"".join(bytes([2, level]) for level in levels)
    return struct.pack("<I", len(runs)) + runs


def _plain(leaf: Leaf, value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value if leaf.physical == BYTE_ARRAY else value


# Thrift's compact protocol: structs are dictionaries by field number.


def _thrift(value: dict[int, Any]) -> bytes:
    result = bytearray()
    last = 0
    for key in sorted(value):
        result += bytes([(key - last) << 4 | _kind(value[key])]) + _body(value[key])
        last = key
    return bytes(result) + b"\x00"


def _kind(value: Any) -> int:
    match value:
        case _Long():
            return 6
        case int():
            return 5
        case bytes():
            return 8
        case list():
            return 9
        case _:
            return 12


def _body(value: Any) -> bytes:
    match value:
        case int():
            return _varint(value << 1 if value >= 0 else (-value << 1) - 1)
        case bytes():
            return _varint(len(value)) + value
        case list():
            items = b"".join(_body(item) for item in value)
            if len(value) < 15:  # more don't fit into the header's four bits
                return bytes([len(value) << 4 | _kind(value[0])]) + items
            return bytes([0xF0 | _kind(value[0])]) + _varint(len(value)) + items
        case _:
            return _thrift(value)


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
