"""Pairs of equal keys."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bayou.kernel.commands.merge.join import source_keys


def pairs(
    source: list[pa.Array[Any]],
    target: list[pa.Array[Any]],
    *,
    null_safe: bool = False,
    most: int = 3,
) -> list[tuple[int, int]]:
    rows = pa.array(range(len(source[0])), pa.int64())
    keys = source_keys(source, [null_safe] * len(source), rows)
    found: list[tuple[int, int]] = []
    for part in keys.pairs(target, most):
        found += zip(part.targets.to_pylist(), part.sources.to_pylist(), strict=True)
    return found


KEYS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=12)


@given(KEYS.filter(bool), KEYS)
def test_all_pairs_of_two_columns_are_found_in_the_order_of_the_target(
    source: list[tuple[int, str]], target: list[tuple[int, str]]
) -> None:
    def columns(rows: list[tuple[int, str]]) -> list[pa.Array[Any]]:
        return [
            pa.array([r[0] for r in rows], pa.int64()),
            pa.array([r[1] for r in rows], pa.string()),
        ]

    found = pairs(columns(source), columns(target))
    assert [t for t, _ in found] == sorted(t for t, _ in found)
    wanted = [(t, s) for t, a in enumerate(target) for s, b in enumerate(source) if a == b]
    assert sorted(found) == wanted


_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
INTEGERS = st.one_of(st.integers(-3, 12), st.sampled_from([_LOW, _LOW + 1, _HIGH - 1, _HIGH]))


@given(
    st.lists(INTEGERS, min_size=1, max_size=12),
    st.lists(st.none() | INTEGERS, max_size=12),
)
def test_all_pairs_of_an_integer_column_are_found(
    source: list[int], target: list[int | None]
) -> None:
    found = pairs([pa.array(source, pa.int64())], [pa.array(target, pa.int64())])
    assert [t for t, _ in found] == sorted(t for t, _ in found)
    wanted = [(t, s) for t, a in enumerate(target) for s, b in enumerate(source) if a == b]
    assert sorted(found) == wanted


def test_small_integers_are_found_at_the_ends_of_their_type() -> None:
    low, high = -128, 127
    source = [pa.array([low, low + 1], pa.int8())]
    target = [pa.array([high, low, None, low + 2, low + 1], pa.int8())]
    assert pairs(source, target) == [(1, 0), (4, 1)]


def test_null_finds_nothing_unless_the_comparison_is_null_safe() -> None:
    target = [pa.array([None, 1], pa.int64())]
    assert pairs([pa.array([1, 2])], target) == [(1, 0)]
    assert pairs([pa.array([1, None], pa.int64())], target, null_safe=True) == [(0, 1), (1, 0)]


def test_nan_equals_itself_and_zero_its_negative() -> None:
    source = [pa.array([math.nan, -0.0])]
    assert pairs(source, [pa.array([0.0, math.nan, 1.0])]) == [(0, 1), (1, 0)]
    single = [pa.array([math.nan, 0.0], pa.float32())]
    assert pairs(single, [pa.array([-0.0, math.nan], pa.float32())]) == [(0, 1), (1, 0)]


def test_keys_of_every_comparable_type_are_found() -> None:
    for values in (
        pa.array([True, False]),
        pa.array([b"\x00", b""]),
        pa.array([Decimal("1.10"), Decimal("2.00")], pa.decimal128(5, 2)),
        pa.array([Decimal("1.10"), Decimal("2.00")], pa.decimal256(40, 2)),
        pa.array([0, 1], pa.date32()),
        pa.array([0, 1], pa.timestamp("us", "UTC")),
        pa.array([0, 1], pa.timestamp("us")),
    ):
        assert pairs([values], [values.take(pa.array([1, 0]))]) == [(0, 1), (1, 0)]


def test_source_rows_keep_the_numbers_they_were_given() -> None:
    keys = source_keys([pa.array([7, 8])], [False], pa.array([40, 50], pa.int64()))
    (found,) = keys.pairs([pa.array([8, 9, 7])], 10)
    assert found.targets.to_pylist() == [0, 2]
    assert found.sources.to_pylist() == [50, 40]
