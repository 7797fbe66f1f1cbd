"""Positions on a space-filling curve: Z-order and Hilbert, columnar.

Points near each other on the curve are near each other in every dimension, so that files cut along
it have narrow bounds in all of the columns at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute

__all__ = ["Curve", "bits_per_dimension", "curve_positions"]

pc: Any = pyarrow.compute

Curve: TypeAlias = Literal["zorder", "hilbert"]

_MOST_BITS = 10
"""Of a dimension: 1,024 ranges, about as many as delta-spark cuts a column into."""

_POSITION_BITS = 63
"""Of a position, so that it is an int64."""

_Numbers: TypeAlias = Any
"""A `pa.UInt64Array`."""


def bits_per_dimension(dimensions: int) -> int:
    """How many bits of each dimension a position has room for.

    Raises:
        ValueError: more dimensions than bits.
    """
    bits = min(_MOST_BITS, _POSITION_BITS // dimensions)
    if bits == 0:
        raise ValueError(f"{dimensions} columns are too many, {_POSITION_BITS} are the most")
    return bits


def curve_positions(curve: Curve, coordinates: Sequence[pa.Array[Any]], bits: int) -> pa.Array[Any]:
    """Where points are on a curve, int64.

    Args:
        curve: which; with one dimension they are all the same, the coordinate itself.
        coordinates: of each dimension, without nulls, from 0 to below 2**bits.
        bits: of each dimension; see `bits_per_dimension`.
    """
    points: list[_Numbers] = [c.cast(pa.uint64()) for c in coordinates]
    if curve == "hilbert" and len(points) > 1:
        points = _hilbert_transpose(points, bits)
    positions: pa.Array[Any] = _interleaved(points, bits).cast(pa.int64())
    return positions


def _interleaved(points: Sequence[_Numbers], bits: int) -> _Numbers:
    """The bits of all dimensions in turn, the highest first."""
    position: _Numbers = None
    for bit in range(bits - 1, -1, -1):
        for point in points:
            one = pc.bit_wise_and(pc.shift_right(point, _number(bit)), _number(1))
            if position is None:
                position = one
            else:
                position = pc.bit_wise_or(pc.shift_left(position, _number(1)), one)
    return position


def _hilbert_transpose(points: list[_Numbers], bits: int) -> list[_Numbers]:
    """Coordinates such that their interleaved bits are the position on the Hilbert curve.

    J. Skilling, Programming the Hilbert curve, AIP Conference Proceedings 707 (2004).
    """
    points = list(points)
    last = len(points) - 1
    for bit in range(bits - 1, 0, -1):
        lower = _number((1 << bit) - 1)
        for i in range(len(points)):
            is_set = pc.not_equal(pc.bit_wise_and(points[i], _number(1 << bit)), _number(0))
            if i == 0:
                points[0] = pc.if_else(is_set, pc.bit_wise_xor(points[0], lower), points[0])
                continue
            swap = pc.bit_wise_and(pc.bit_wise_xor(points[0], points[i]), lower)
            points[i] = pc.if_else(is_set, points[i], pc.bit_wise_xor(points[i], swap))
            points[0] = pc.bit_wise_xor(points[0], pc.if_else(is_set, lower, swap))
    for i in range(1, len(points)):
        points[i] = pc.bit_wise_xor(points[i], points[i - 1])
    turned = pc.bit_wise_and(points[last], _number(0))
    for bit in range(bits - 1, 0, -1):
        is_set = pc.not_equal(pc.bit_wise_and(points[last], _number(1 << bit)), _number(0))
        flipped = pc.bit_wise_xor(turned, _number((1 << bit) - 1))
        turned = pc.if_else(is_set, flipped, turned)
    return [pc.bit_wise_xor(point, turned) for point in points]


def _number(value: int) -> pa.Scalar[Any]:
    return pa.scalar(value, pa.uint64())
