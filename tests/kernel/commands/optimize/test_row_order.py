"""Rows in the order of a curve: positions from a sample, buckets, spilling, cutting."""

from __future__ import annotations

import datetime as dt
import random
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bayou
from bayou.errors import SchemaError
from bayou.kernel.arrow.read_ahead import map_ahead
from bayou.kernel.commands.optimize import row_order
from bayou.kernel.commands.optimize.row_buckets import RowBuckets, group_rows
from bayou.kernel.commands.optimize.row_order import (
    RowOrder,
    ascending_order,
    in_order,
    ordered_rows,
    row_positions,
)

ZORDER = RowOrder("zorder", (("x",), ("y",)))


def reading(engine, snapshot):
    scan = snapshot().scan_builder().build()
    files = list(scan.scan_files(engine).flat_map(lambda batch: batch.rows()))
    return scan.scan_state(engine), files


@pytest.fixture
def points(path) -> list[tuple[int | None, int]]:
    source = random.Random(7)
    rows = [(source.randrange(10_000), source.randrange(50)) for _ in range(5_000)]
    rows += [(None, i) for i in range(10)]
    for first in range(0, len(rows), 1_000):
        part = rows[first : first + 1_000]
        x = pa.array([x for x, _ in part], pa.int64())
        bayou.write(path, pa.table({"x": x, "y": [y for _, y in part]}))
    return rows


def rows_of(engine, snapshot, memory_bytes: int, parts: int) -> list[list[tuple]]:
    state, files = reading(engine, snapshot)
    with ordered_rows(engine, state, files, ZORDER, memory_bytes=memory_bytes) as rows:
        found = []
        for part in rows.cut(parts):
            table = pa.Table.from_batches(list(part))
            found.append(list(zip(*table.to_pydict().values(), strict=True)))
        return found


def test_rows_come_in_ascending_positions(engine, path, snapshot, points):
    state, files = reading(engine, snapshot)
    positions = row_positions(engine, state, files, ZORDER)
    assert positions.num_rows == len(points)
    with ordered_rows(engine, state, files, ZORDER, memory_bytes=1 << 30) as rows:
        found = [p for part in rows.cut(1) for b in part for p in positions.of(b).to_pylist()]
    assert found == sorted(found)


def test_what_waits_on_the_disk_gives_the_same_rows(engine, path, snapshot, points):
    in_memory = rows_of(engine, snapshot, 1 << 30, 1)
    spilled = rows_of(engine, snapshot, 4_000, 1)
    key = lambda row: (row[0] is not None, row)  # noqa: E731
    assert sorted(spilled[0], key=key) == sorted(in_memory[0], key=key) == sorted(points, key=key)


def test_parts_have_about_the_same_length(engine, path, snapshot, points):
    lengths = [len(part) for part in rows_of(engine, snapshot, 1 << 20, 7)]
    assert len(lengths) == 7
    assert sum(lengths) == len(points)
    assert max(lengths) - min(lengths) < 10


def test_a_large_table_is_sampled(engine, path, snapshot, points, monkeypatch):
    monkeypatch.setattr(row_order, "_SAMPLE_ROWS", 100)
    state, files = reading(engine, snapshot)
    positions = row_positions(engine, state, files, ZORDER)
    assert positions.num_rows == len(points)
    assert 50 < len(positions.sampled) <= 200
    low = positions.of(pa.record_batch({"x": [100, 9_900, None], "y": [1, 49, 0]})).to_pylist()
    assert low[2] <= low[0] < low[1]


def test_null_is_the_least(engine, path, snapshot, points):
    state, files = reading(engine, snapshot)
    positions = row_positions(engine, state, files, ZORDER)
    found = positions.of(pa.record_batch({"x": pa.array([None, 5_000]), "y": [0, 0]})).to_pylist()
    assert found[0] < found[1]


def test_texts_times_flags_and_nested_fields_have_an_order(engine, path, snapshot):
    rows = pa.table(
        {
            "s": ["a", "b", None],
            "flag": [True, False, None],
            "n": pa.array([{"f": 1.5}, {"f": float("nan")}, None]),
        }
    )
    bayou.write(path, rows)
    state, files = reading(engine, snapshot)
    order = RowOrder("hilbert", (("s",), ("flag",), ("n", "f")))
    with ordered_rows(engine, state, files, order, memory_bytes=1 << 20) as found:
        assert sum(b.num_rows for part in found.cut(2) for b in part) == 3


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([3, -1, None, 7, 7, 0], pa.int16()),
        ([0.5, float("nan"), -0.0, None, float("-inf"), 1e300], pa.float64()),
        (["b", "", None, "é", "a" * 50, "z"], pa.string()),
        ([b"b", b"", None, b"\xff", b"a"], pa.binary()),
        ([Decimal("1.50"), Decimal("-2.00"), None, Decimal("9.99")], pa.decimal128(38, 2)),
        ([dt.date(2024, 1, 2), None, dt.date(1, 1, 1), dt.date(9999, 1, 1)], pa.date32()),
        ([dt.datetime(2024, 1, 2), None, dt.datetime(1, 1, 1)], pa.timestamp("us", "UTC")),
        ([True, False, None], pa.bool_()),
    ],
)
def test_positions_of_a_column_have_the_order_of_its_values(
    engine, path, snapshot, values, data_type
):
    column = pa.array(values, data_type)
    bayou.write(path, pa.table({"x": column}))
    state, files = reading(engine, snapshot)
    positions = row_positions(engine, state, files, RowOrder("zorder", (("x",),)))
    found = positions.of(pa.record_batch({"x": column})).to_pylist()
    ordered = column.take(pc.array_sort_indices(column, null_placement="at_start"))
    if pa.types.is_floating(data_type):  # Arrow sorts NaN beside null, Spark above all numbers
        ordered = pa.array([None, float("-inf"), -0.0, 0.5, 1e300, float("nan")])
    ranks = [
        found[column.to_pylist().index(v)] if v == v else found[1] for v in ordered.to_pylist()
    ]
    assert ranks == sorted(ranks)
    assert len(set(ranks[1:])) == len(set(map(repr, values))) - 1


def test_a_list_has_no_order(engine, path, snapshot):
    bayou.write(path, pa.table({"l": [[1], [2]]}))
    state, files = reading(engine, snapshot)
    with pytest.raises(SchemaError, match="can't be ordered by column 'l'"):
        row_positions(engine, state, files, RowOrder("zorder", (("l",),)))


def test_no_rows_are_no_parts(engine, path, snapshot):
    bayou.write(path, pa.table({"x": [1], "y": [1]}))
    state, _ = reading(engine, snapshot)
    with ordered_rows(engine, state, [], ZORDER, memory_bytes=1) as rows:
        assert list(rows.cut(3)) == []


def test_the_folder_of_spilled_rows_goes_away(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with RowBuckets(16) as buckets:
        for i in range(3):
            batch = pa.record_batch({"a": list(range(100))})
            number = pa.array([j % 2 for j in range(100)])
            buckets.add(group_rows(batch, pa.array([i] * 100), number))
        assert list(tmp_path.iterdir())
        table, positions = buckets.take(1)
        assert table.num_rows == len(positions) == 150
        assert set(table["a"].to_pylist()) == set(range(1, 100, 2))
        assert buckets.take(1)[0].num_rows == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("memory_bytes", "threads"), [(1, 1), (1 << 30, 16)])
def test_batches_of_threads_fit_into_the_memory(
    engine, path, snapshot, points, monkeypatch, memory_bytes, threads
):
    used = []

    def recording(function, items, threads):
        used.append(threads)
        return map_ahead(function, items, threads)

    monkeypatch.setattr(row_order, "map_ahead", recording)
    monkeypatch.setattr(row_order.pa, "cpu_count", lambda: 16)
    parts = rows_of(engine, snapshot, memory_bytes, 1)
    assert sum(map(len, parts)) == len(points)
    assert set(used) == {threads}


@pytest.mark.parametrize(
    "positions",
    [
        [[5]],
        [[7, 3, 3], [], [3, 7, 1 << 20]],
        [[1 << 60, (1 << 60) + 1], [1 << 60]],
        [[(1 << 62) + 1, 0, 5], [5, (1 << 63) - 1]],  # too many bits to add the index
    ],
)
def test_positions_are_sorted_and_equal_positions_keep_their_order(positions):
    chunked = pa.chunked_array(positions, pa.int64())
    assert ascending_order(chunked).to_pylist() == pc.sort_indices(chunked).to_pylist()


def test_rows_that_are_too_large_for_an_array_are_divided(monkeypatch):
    monkeypatch.setattr(row_order, "_SORTED_BYTES", 40)
    positions = pa.chunked_array([[7, 3, 3], [3, 7, 1 << 20, 0]])
    rows = pa.table({"n": pa.chunked_array([[0, 1, 2, 3], [4, 5, 6]])})
    found = [n for batch in in_order(rows, positions) for n in batch["n"].to_pylist()]
    assert found == [6, 1, 2, 3, 0, 4, 5]
    equal = pa.chunked_array([[3] * 7])
    assert [n for batch in in_order(rows, equal) for n in batch["n"].to_pylist()] == list(range(7))


def test_positions_are_sorted_without_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert ascending_order(pa.chunked_array([[2, 1], [1]], pa.int64())).to_pylist() == [1, 2, 0]
