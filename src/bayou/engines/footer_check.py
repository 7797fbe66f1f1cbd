"""Parquet footers that pyarrow can't be trusted with: they end the process.

pyarrow makes a column chunk's metadata and statistics in C++ functions that may throw, and calls
them from Python without catching it. What they throw at is looked for here first: a column of
another physical type than the schema's, missing or encrypted columns, bounds of a wrong length,
histograms of a wrong size. Only footers that are damaged and still Thrift come so far.

What a Parquet file's writer tells of its statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bayou.engines.thrift_compact import (
    BINARY,
    INT32,
    INT64,
    LIST,
    MOST_NESTED,
    STRUCT,
    ThriftStruct,
    decode_struct,
    to_number,
)

__all__ = ["FooterError", "check_footer", "counts_nan", "footer_range"]


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
        footer = decode_struct(data)
        leaves = list(_leaves(iter(_structs(footer, 2)), 0, 0, is_root=True))
        for group in _structs(footer, 4):
            _check_row_group(group, leaves)
    except FooterError:
        raise
    except ValueError as error:
        raise FooterError(str(error)) from error
    except (IndexError, KeyError, TypeError, AttributeError, StopIteration, RuntimeError) as error:
        raise FooterError("its footer is damaged") from error


def _leaves(
    elements: Iterator[ThriftStruct], repetition: int, definition: int, *, is_root: bool = False
) -> Iterator[_Leaf]:
    """The leaf columns below the next element of a schema, which stands depth first."""
    element = next(elements)
    if not is_root:
        kind = to_number(element.get((3, INT32), 0))
        if kind not in (0, 1, 2):  # required, optional, repeated
            raise FooterError("a column of its schema is neither optional nor required")
        repetition += kind == 2
        definition += kind != 0
    if definition > MOST_NESTED:
        raise FooterError("its schema is nested without end")
    children = to_number(element.get((5, INT32), 0))
    if children > 0 or is_root:
        for _ in range(children):
            yield from _leaves(elements, repetition, definition)
        return
    physical_type = to_number(element[1, INT32])
    width = _WIDTHS.get(physical_type)
    if physical_type == _FIXED:
        width = to_number(element[2, INT32])
    yield _Leaf(physical_type, width, repetition, definition)


def _check_row_group(group: ThriftStruct, leaves: Sequence[_Leaf]) -> None:
    columns = _structs(group, 1)
    if len(columns) != len(leaves):
        raise FooterError(f"a row group has {len(columns)} columns, the schema {len(leaves)}")
    for column, leaf in zip(columns, leaves, strict=True):
        if (8, STRUCT) in column:
            raise FooterError("a column is encrypted")
        metadata = column[3, STRUCT]
        if to_number(metadata[1, INT32]) != leaf.physical_type:
            raise FooterError("a column has another physical type than the schema says")
        statistics = metadata.get((12, STRUCT), {})
        for number in _BOUNDS:
            bound = statistics.get((number, BINARY))
            if bound and leaf.width is not None and len(bound) != leaf.width:
                raise FooterError("a bound of a column has a wrong length")
        sizes = metadata.get((16, STRUCT))
        if sizes is not None:
            _check_sizes(sizes, leaf)


def _check_sizes(sizes: ThriftStruct, leaf: _Leaf) -> None:
    if (1, INT64) in sizes and leaf.physical_type != _BYTE_ARRAY:
        raise FooterError("a column that isn't of bytes has a number of bytes")
    for number, level in ((2, leaf.repetition_level), (3, leaf.definition_level)):
        kind, histogram = sizes.get((number, LIST), (INT64, []))
        if histogram and (kind != INT64 or len(histogram) != level + 1):
            raise FooterError("a histogram of a column has a wrong size")


def _structs(fields: ThriftStruct, number: int) -> list[ThriftStruct]:
    kind, values = fields[number, LIST]
    if values and kind != STRUCT:
        raise FooterError("its footer is damaged")
    found: list[ThriftStruct] = values
    return found


def counts_nan(created_by: str | None) -> bool:
    """Whether the writer takes NaN for the largest number, so that another maximum excludes it.

    parquet-mr does, which Spark writes with; Arrow's writer, and whoever isn't known, may leave NaN
    out of the bounds.
    """
    return created_by is not None and created_by.startswith("parquet-mr")
