"""Validation of Parquet footers, because pyarrow aborts the process for some damaged footers.

pyarrow doesn't catch C++ exceptions when the metadata of a column chunk is accessed. This module
checks for the causes of these exceptions: a physical type that differs from the schema, missing or
encrypted columns, bounds of a wrong length, and histograms of a wrong size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bayou.engines.thrift_compact import (
    BINARY,
    INT32,
    INT64,
    LIST,
    MAX_NESTING,
    STRUCT,
    ThriftStruct,
    decode_struct,
    decode_zigzag,
)

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Width in bytes by physical type (0 to 5: boolean, int32, int64, int96, float, double)."""

_BYTE_ARRAY, _FIXED = 6, 7
_BOUNDS = (1, 2, 5, 6)
"""Field numbers of the bounds in Parquet's `Statistics`: deprecated max and min, max and min."""


_MAX_BYTES = 4 << 20
"""Maximum size in bytes of a footer to check. Larger footers aren't checked, because the check
would take as long as reading columns."""


class FooterError(ValueError):
    """A damaged footer."""


class _Leaf(NamedTuple):
    """A leaf column of the schema; `width` is None for values of variable width."""

    physical_type: int
    width: int | None
    repetition_level: int
    definition_level: int


def footer_range(tail: bytes, size: int) -> tuple[int, int] | None:
    """Return the footer's offset and length.

    If the footer is larger than `_MAX_BYTES` or doesn't fit in the file, the footer isn't checked
    and the result is None.

    Args:
        tail: the last 8 bytes of the file.
        size: size of the file in bytes.
    """
    length = int.from_bytes(tail[:4], "little")
    start = size - 8 - length
    return (start, length) if start >= 4 and length <= _MAX_BYTES else None


def check_footer(data: bytes) -> None:
    """Check the Thrift bytes of a footer; raises `FooterError`."""
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
        raise FooterError("the footer is damaged") from error


def _leaves(
    elements: Iterator[ThriftStruct], repetition: int, definition: int, *, is_root: bool = False
) -> Iterator[_Leaf]:
    """Yield the leaf columns below the next schema element, depth-first.

    Args:
        repetition, definition: repetition and definition level of the element's parent.
    """
    element = next(elements)
    if not is_root:
        kind = decode_zigzag(element.get((3, INT32), 0))
        if kind not in (0, 1, 2):  # required, optional, repeated
            raise FooterError("a column of the schema has an unknown repetition type")
        repetition += kind == 2
        definition += kind != 0
    if definition > MAX_NESTING:
        raise FooterError("the schema is nested too deeply")
    children = decode_zigzag(element.get((5, INT32), 0))
    if children > 0 or is_root:
        for _ in range(children):
            yield from _leaves(elements, repetition, definition)
        return
    physical_type = decode_zigzag(element[1, INT32])
    width = _WIDTHS.get(physical_type)
    if physical_type == _FIXED:
        width = decode_zigzag(element[2, INT32])
    yield _Leaf(physical_type, width, repetition, definition)


def _check_row_group(group: ThriftStruct, leaves: Sequence[_Leaf]) -> None:
    columns = _structs(group, 1)
    if len(columns) != len(leaves):
        raise FooterError(
            f"a row group has {len(columns)} columns, but the schema has {len(leaves)}"
        )
    for column, leaf in zip(columns, leaves, strict=True):
        if (8, STRUCT) in column:
            raise FooterError("a column is encrypted")
        metadata = column[3, STRUCT]
        if decode_zigzag(metadata[1, INT32]) != leaf.physical_type:
            raise FooterError("a column chunk has another physical type than the schema")
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
        raise FooterError(
            "unencoded_byte_array_data_bytes is set for a column that isn't of type BYTE_ARRAY"
        )
    for number, level in ((2, leaf.repetition_level), (3, leaf.definition_level)):
        kind, histogram = sizes.get((number, LIST), (INT64, []))
        if histogram and (kind != INT64 or len(histogram) != level + 1):
            raise FooterError("a histogram of a column has a wrong size")


def _structs(fields: ThriftStruct, number: int) -> list[ThriftStruct]:
    kind, values = fields[number, LIST]
    if values and kind != STRUCT:
        raise FooterError("the footer is damaged")
    structs: list[ThriftStruct] = values
    return structs


def orders_nan_last(created_by: str | None) -> bool:
    """Whether a writer includes NaN in the bounds of a column chunk, as the largest value.

    This is true for parquet-mr, which Spark uses. If the maximum in its statistics isn't NaN, the
    column chunk contains no NaN. Other writers may ignore NaN.

    Args:
        created_by: the writer's name and version in the footer.
    """
    return created_by is not None and created_by.startswith("parquet-mr")
