"""Slices of rows by their size in bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.kernel.arrow.large_rows import (
    computed_in_slices,
    slices_by_size,
    taken_sizes,
)

ITEM = {"s": "abcd", "n": 1}
ITEM_TYPE = pa.struct({"s": pa.string(), "n": pa.int32()})


SIZES = [
    (pa.array([1, None, 3], pa.int64()), 8),
    (pa.array([True, None, False]), 1),
    (pa.nulls(3), 0),
    (pa.array(["a", None, "äb"]), [1, 0, 3]),
    (pa.array([b"", b"ab", None], pa.large_binary()), [0, 2, 0]),
    (pa.array([ITEM, None, {"s": "", "n": 2}], ITEM_TYPE), [8, 4, 4]),
    (pa.array([[1, 2], None, [3]], pa.list_(pa.int16())), [4, 0, 2]),
    (pa.array([[ITEM, ITEM], [], [ITEM]], pa.list_(ITEM_TYPE)), [16, 0, 8]),
    (
        pa.array([[("k", "vvv")], None, []], pa.map_(pa.string(), pa.string())),
        [4, 0, 0],
    ),
    (pa.array(["a", None, "bcd"]).dictionary_encode(), [1, 0, 3]),
]
COLUMNS = [column for column, _ in SIZES]
ALL_ROWS = pa.array([0, 1, 2], pa.int64())


@pytest.mark.parametrize(
    ("column", "expected"),
    SIZES,
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_each_row_has_the_size_of_its_values(column: Any, expected: int | list[int]) -> None:
    def of(array: Any) -> Any:
        sizes = taken_sizes([array], ALL_ROWS)
        return sizes if isinstance(sizes, int) else sizes.to_pylist()

    assert of(column) == expected
    middle = pa.concat_arrays([column, column, column]).slice(3, 3)
    assert of(middle) == expected


def test_sizes_of_columns_are_added_and_taken() -> None:
    columns = [pa.array([1, 2], pa.int32()), pa.array(["x", None]), pa.array([True, True])]
    assert taken_sizes(columns, pa.array([0, 1])).to_pylist() == [6, 5]
    assert taken_sizes(columns, pa.array([1, None, 0, 0])).to_pylist() == [5, 5, 6, 6]
    assert taken_sizes(columns[:1], pa.array([1])) == 4
    assert taken_sizes([], pa.array([1])) == 0


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_taken_rows_have_the_sizes_of_their_values(column: Any) -> None:
    middle = pa.concat_arrays([column.take([1, 0, 2]), column, column]).slice(3, 3)
    indices = pa.array([2, None, 0, 0, 1, 2], pa.int64())
    sizes, expected = taken_sizes([middle], indices), taken_sizes([middle], ALL_ROWS)
    if isinstance(expected, int):
        assert sizes == expected
    else:
        taken = expected.take(indices).fill_null(sizes[1]).to_pylist()
        assert sizes.to_pylist() == taken
    empty = taken_sizes([middle.slice(0, 0)], pa.nulls(2, pa.int64()))
    assert empty == expected if isinstance(expected, int) else len(empty) == 2


@given(st.lists(st.integers(0, 12)), st.integers(1, 20))
def test_slices_are_consecutive_and_hold_about_the_maximum(sizes: list[int], limit: int) -> None:
    array = pa.array(sizes, pa.int64())
    slices = list(slices_by_size(array, len(sizes), limit))
    assert [row for first, count in slices for row in range(first, first + count)] == list(
        range(len(sizes))
    )
    assert all(sum(sizes[first : first + count - 1]) <= limit for first, count in slices if count)
    assert slices or not sizes


def test_rows_of_one_size_are_divided_by_their_number() -> None:
    assert list(slices_by_size(10, 5, 25)) == [(0, 2), (2, 2), (4, 1)]
    assert list(slices_by_size(100, 2, 25)) == [(0, 1), (1, 1)]
    assert list(slices_by_size(0, 5, 25)) == [(0, 5)]
    assert list(slices_by_size(8, 0, 25)) == [(0, 0)]


def test_a_result_that_is_too_large_is_computed_in_halves() -> None:
    def compute(offset: int, length: int) -> range:
        if length > 2:
            raise pa.ArrowCapacityError("too large")
        return range(offset, offset + length)

    assert [list(part) for part in computed_in_slices(3, 7, compute)] == [
        [3],
        [4, 5],
        [6, 7],
        [8, 9],
    ]


def test_one_row_that_is_too_large_is_an_error() -> None:
    def compute(offset: int, length: int) -> int:
        raise pa.ArrowInvalid(f"{offset}: {length}")

    with pytest.raises(pa.ArrowInvalid, match="0: 1"):
        list(computed_in_slices(0, 5, compute))
