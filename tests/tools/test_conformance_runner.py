"""Tables are equal in Arrow only where the runner's own comparison says the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.conformance_runner import LazyCanon, are_equal


class Canon:
    """The part of the runner's module that `LazyCanon` uses; it counts its comparisons."""

    def __init__(self) -> None:
        self.calls = 0

    def norm(self, table):
        return table

    def canon(self, table):
        self.calls += 1
        return {"row_sha256": repr(sorted(map(repr, table.to_pylist()))), "columns": ["a"]}


def test_rows_are_equal_in_any_order():
    one = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
    assert are_equal(one, one.take([2, 0, 1]).select(["b", "a"]))
    assert not are_equal(one, one.slice(1))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([0.0], pa.float32()), pa.array([-0.0], pa.float32())),
        (pa.array([[0.0]]), pa.array([[-0.0]])),
        (pa.array([{"x": 0.0}]), pa.array([{"x": -0.0}])),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64())),
    ],
)
def test_values_that_differ_in_text_are_not_equal(one, other):
    assert not are_equal(pa.table({"a": one}), pa.table({"a": other}))


def test_the_runner_compares_what_arrow_can_not_decide():
    canon = Canon()
    nested = [
        LazyCanon(canon, [pa.table({"a": [[1.5], [0.5]]}).take(order)])
        for order in ([0, 1], [1, 0])
    ]
    assert nested[0]["row_sha256"] == nested[1]["row_sha256"]
    assert canon.calls == 2
    flat = [LazyCanon(canon, [pa.table({"a": [1, 2]})]) for _ in range(2)]
    assert flat[0]["row_sha256"] == flat[1]["row_sha256"]
    assert canon.calls == 2
    assert flat[0]["rows"] == 2
    assert flat[0]["columns"] == ["a"]
