"""Curves that visit every point, and Hilbert's by steps of one."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from bayou.kernel.commands.optimize.row_order import bits_per_dimension, curve_positions

GRIDS = [(1, 5), (2, 4), (3, 3), (4, 2), (5, 1)]


def along(curve: str, dimensions: int, bits: int) -> list[tuple[int, ...]]:
    """All points of a grid in the order of a curve."""
    points = list(itertools.product(range(1 << bits), repeat=dimensions))
    coordinates = [pa.array([p[i] for p in points], pa.int64()) for i in range(dimensions)]
    positions = curve_positions(curve, coordinates, bits).to_pylist()
    assert sorted(positions) == list(range(len(points)))
    return [p for _, p in sorted(zip(positions, points, strict=True))]


@pytest.mark.parametrize(("dimensions", "bits"), GRIDS)
def test_hilbert_goes_from_neighbour_to_neighbour(dimensions, bits):
    path = along("hilbert", dimensions, bits)
    steps = [
        sum(abs(a - b) for a, b in zip(p, q, strict=True)) for p, q in itertools.pairwise(path)
    ]
    assert set(steps) == {1}


@pytest.mark.parametrize(("dimensions", "bits"), GRIDS)
def test_zorder_fills_a_quadrant_before_the_next(dimensions, bits):
    path = along("zorder", dimensions, bits)
    size = 1 << dimensions * (bits - 1)
    for first in range(0, len(path), size):
        halves = {tuple(c >> (bits - 1) for c in p) for p in path[first : first + size]}
        assert len(halves) == 1


def test_zorder_takes_the_bits_in_turn():
    found = curve_positions("zorder", [pa.array([0b11, 0b01]), pa.array([0b00, 0b10])], 2)
    assert found.to_pylist() == [0b1010, 0b0110]


def test_a_position_has_room_for_63_bits():
    assert [bits_per_dimension(n) for n in (1, 4, 6, 7, 9, 63)] == [10, 10, 10, 9, 7, 1]
    with pytest.raises(ValueError, match="64 columns"):
        bits_per_dimension(64)


def test_no_points_have_no_positions():
    empty = pa.array([], pa.int64())
    assert curve_positions("hilbert", [empty, empty], 3).to_pylist() == []
