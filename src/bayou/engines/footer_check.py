"""Parquet footers that pyarrow can't be trusted with: they end the process.

pyarrow makes a column chunk's metadata and statistics in C++ functions that may throw, and calls
them from Python without catching it. What they throw at is looked for here first: a column of
another physical type than the schema's, missing or encrypted columns, bounds of a wrong length,
histograms of a wrong size. Only footers that are damaged and still Thrift come so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = ["FooterError", "check_footer", "footer_range"]

_Struct: TypeAlias = dict[tuple[int, int], Any]
"""Values of a Thrift struct by number and type of the field: one of another type isn't the field.

Whole numbers are as they stand, in zigzag order; lists come with the type of their elements.
"""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INT32, _INT64 = 5, 6
_MOST_NESTED = 64

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a plain value by physical type: boolean, int32, int64, int96, float, double."""

_BYTE_ARRAY, _FIXED = 6, 7
_BOUNDS = (1, 2, 5, 6)
"""Fields of `Statistics`: the bounds of old and new writers."""


_MOST_BYTES = 4 << 20
"""Larger footers aren't looked at: that would take as long as reading their columns."""


class FooterError(ValueError):
    """A footer that is damaged."""


class _Leaf(NamedTuple):
    """A column of the schema; `width` is None where values have no fixed one."""

    physical_type: int
    width: int | None
    repetition_level: int
    definition_level: int


def footer_range(tail: bytes, size: int) -> tuple[int, int] | None:
    """Offset and length of the footer's Thrift bytes; None where they aren't to be checked.

    Args:
        tail: the last 8 bytes of the file.
        size: bytes of the file.
    """
    length = int.from_bytes(tail[:4], "little")
    start = size - 8 - length
    return (start, length) if start >= 4 and length <= _MOST_BYTES else None


def check_footer(data: bytes) -> None:
    """Check the Thrift bytes of a footer.

    Raises:
        FooterError: it is damaged; says how.
    """
    try:
        footer, _ = _struct(data, 0, 0)
        leaves = list(_leaves(iter(_structs(footer, 2)), 0, 0, is_root=True))
        for group in _structs(footer, 4):
            _check_row_group(group, leaves)
    except (IndexError, KeyError, TypeError, AttributeError, StopIteration, RuntimeError) as error:
        raise FooterError("its footer is damaged") from error


def _leaves(
    elements: Iterator[_Struct], repetition: int, definition: int, *, is_root: bool = False
) -> Iterator[_Leaf]:
    """The leaf columns below the next element of a schema, which stands depth first."""
    element = next(elements)
    if not is_root:
        kind = _number(element.get((3, _INT32), 0))
        if kind not in (0, 1, 2):  # required, optional, repeated
            raise FooterError("a column of its schema is neither optional nor required")
        repetition += kind == 2
        definition += kind != 0
    if definition > _MOST_NESTED:
        raise FooterError("its schema is nested without end")
    children = _number(element.get((5, _INT32), 0))
    if children > 0 or is_root:
        for _ in range(children):
            yield from _leaves(elements, repetition, definition)
        return
    physical_type = _number(element[1, _INT32])
    width = _WIDTHS.get(physical_type)
    if physical_type == _FIXED:
        width = _number(element[2, _INT32])
    yield _Leaf(physical_type, width, repetition, definition)


def _check_row_group(group: _Struct, leaves: Sequence[_Leaf]) -> None:
    columns = _structs(group, 1)
    if len(columns) != len(leaves):
        raise FooterError(f"a row group has {len(columns)} columns, the schema {len(leaves)}")
    for column, leaf in zip(columns, leaves, strict=True):
        if (8, _STRUCT) in column:
            raise FooterError("a column is encrypted")
        metadata = column[3, _STRUCT]
        if _number(metadata[1, _INT32]) != leaf.physical_type:
            raise FooterError("a column has another physical type than the schema says")
        statistics = metadata.get((12, _STRUCT), {})
        for number in _BOUNDS:
            bound = statistics.get((number, _BINARY))
            if bound and leaf.width is not None and len(bound) != leaf.width:
                raise FooterError("a bound of a column has a wrong length")
        sizes = metadata.get((16, _STRUCT))
        if sizes is not None:
            _check_sizes(sizes, leaf)


def _check_sizes(sizes: _Struct, leaf: _Leaf) -> None:
    if (1, _INT64) in sizes and leaf.physical_type != _BYTE_ARRAY:
        raise FooterError("a column that isn't of bytes has a number of bytes")
    for number, level in ((2, leaf.repetition_level), (3, leaf.definition_level)):
        kind, histogram = sizes.get((number, _LIST), (_INT64, []))
        if histogram and (kind != _INT64 or len(histogram) != level + 1):
            raise FooterError("a histogram of a column has a wrong size")


def _structs(fields: _Struct, number: int) -> list[_Struct]:
    kind, values = fields[number, _LIST]
    if values and kind != _STRUCT:
        raise FooterError("its footer is damaged")
    found: list[_Struct] = values
    return found


def _number(zigzag: int) -> int:
    return zigzag >> 1 if zigzag & 1 == 0 else -(zigzag >> 1) - 1


def _struct(data: bytes, at: int, depth: int) -> tuple[_Struct, int]:
    """A struct in Thrift's compact protocol, and where it ends."""
    if depth > _MOST_NESTED:
        raise FooterError("its footer is nested without end")
    fields: _Struct = {}
    number = 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            zigzag, at = _varint(data, at)
            number = _number(zigzag)
        kind = head & 15
        if kind in (_TRUE, _FALSE):
            fields[number, kind] = kind == _TRUE
        else:
            fields[number, kind], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if 4 <= kind <= 6:
        return _varint(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        if at + length > len(data):
            raise FooterError("its footer is cut off")
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth + 1)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _DOUBLE:
        return None, at + 8
    if kind == _MAP:
        return _map(data, at, depth + 1)
    raise FooterError(f"its footer has a value of the unknown type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    head = data[at]
    at += 1
    count, kind = head >> 4, head & 15
    if count == 15:
        count, at = _varint(data, at)
    if count > len(data) - at:
        raise FooterError("its footer is cut off")
    values = []
    for _ in range(count):
        value, at = _value(data, at, kind, depth)
        values.append(value)
    return (kind, values), at


def _map(data: bytes, at: int, depth: int) -> tuple[None, int]:
    count, at = _varint(data, at)
    if count == 0:
        return None, at
    kinds = data[at]
    at += 1
    if count > len(data) - at:
        raise FooterError("its footer is cut off")
    for _ in range(count):
        for kind in (kinds >> 4, kinds & 15):
            _, at = _value(data, at, kind, depth)
    return None, at


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
            raise FooterError("its footer has a number of more than 64 bits")
