"""Constants that are compared with bounds: lists as runs in order, and those off a type's scale."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

from bayou.kernel.expressions.model import (
    Expression,
    Literal,
)
from bayou.kernel.scan.data_skipping.column_ranges import Range
from bayou.protocol.schema import BYTE, INTEGER, LONG, SHORT, DecimalType

__all__ = ["MAX_POINTS", "is_off_scale", "known_values", "runs"]

MAX_POINTS = 64
_EXACT = Context(prec=100)
_INTEGERS = (BYTE, SHORT, INTEGER, LONG)


def is_off_scale(expression: Expression, other: Range) -> bool:
    """A constant with more decimals than the other side's type has."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, Decimal):
        return False
    scale = other.data_type.scale if isinstance(other.data_type, DecimalType) else 0
    if not isinstance(other.data_type, DecimalType) and other.data_type not in _INTEGERS:
        return False
    exponent = expression.value.normalize(_EXACT).as_tuple().exponent
    return isinstance(exponent, int) and -exponent > scale


def known_values(values: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """Those that aren't NULL."""
    return tuple(value for value in values if value.value is not None)


def runs(values: tuple[Literal, ...]) -> Iterator[tuple[Literal, Literal]]:
    """Least and greatest of runs of neighbours: one value each, more where there are many."""
    try:
        ordered = sorted(values, key=lambda literal: _order(literal.value))
    except TypeError:  # of different kinds
        ordered = list(values)
        length = 1
    else:
        length = -(-len(ordered) // MAX_POINTS)
    for start in range(0, len(ordered), length):
        run = ordered[start : start + length]
        yield run[0], run[-1]


def _order(value: object) -> Any:
    """Sort key in Spark's order: NaN is above all."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124  # NaN
        return (1, 0)
    if isinstance(value, str):
        return (0, value.encode())
    return (0, value)
