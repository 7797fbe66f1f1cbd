"""Rows that differ between versions and tables."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError


def difference(before, after, **options):
    rows = before.diff(after, **options).read_all().to_pylist()
    return Counter(tuple(str(value) for value in row.values()) for row in rows)


@pytest.fixture
def write(tmp_path):
    def write(folder, **columns):
        bayou.write(tmp_path / folder, pa.table(columns), mode="append")
        return bayou.table(tmp_path / folder)

    return write


def test_rows_are_compared_as_multisets(write):
    one = write("one", id=[1, 1, 1, 2, 3]).snapshot()
    two = write("two", id=[1, 3, 3, 4]).snapshot()
    assert difference(one, two) == {("-", "1"): 2, ("-", "2"): 1, ("+", "3"): 1, ("+", "4"): 1}
    assert difference(one, one) == {}


@pytest.mark.parametrize("spills", [False, True])
def test_random_tables_differ_as_counters_do(write, monkeypatch, spills):
    if spills:
        monkeypatch.setattr("bayou.api.diff._PENDING_ROWS", 50)
    numbers = random.Random(7)
    lists = [[numbers.randrange(40) for _ in range(300)] for _ in range(2)]
    snapshots = []
    for name, ids in zip("ab", lists, strict=True):
        for start in range(0, 300, 100):
            chunk = ids[start : start + 100]
            table = write(name, id=chunk, tags=[[str(i)] * (i % 3) for i in chunk])
        snapshots.append(table.snapshot())
    found = difference(*snapshots, columns=["id"])
    before, after = (Counter(ids) for ids in lists)
    expected = {("-", str(i)): n for i, n in (before - after).items()}
    assert found == expected | {("+", str(i)): n for i, n in (after - before).items()}
    with_lists = difference(*snapshots)
    assert sum(with_lists.values()) == sum(found.values())


def test_a_compaction_changes_no_row(write):
    for number in range(3):
        table = write("t", id=[number], place=[{"city": "x", "tags": ["a", None]}])
    table.optimize()
    assert difference(table.snapshot(2), table.snapshot(3)) == {}


def test_files_of_both_versions_are_not_read(write, tmp_path):
    write("t", id=[1])
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    table = write("t", id=[2])
    assert difference(table.snapshot(0), table.snapshot(1)) == {("+", "2"): 1}


def test_equal_values_of_other_types_are_equal(tmp_path):
    nan = float("nan")
    for name, type_ in (("a", pa.int32()), ("b", pa.int64())):
        rows = pa.table({"id": pa.array([1, 2, None], type_), "x": [nan, 0.5, None]})
        bayou.write(tmp_path / name, rows)
    one, two = (bayou.table(tmp_path / name).snapshot() for name in "ab")
    assert difference(one, two) == {}


def test_only_matching_rows_and_given_columns_are_compared(write):
    one = write("one", id=[1, 2], name=["a", "b"], left=[1, 2]).snapshot()
    two = write("two", id=[1, 2], name=["a", "c"], right=["x", "y"]).snapshot()
    assert difference(one, two, columns=["id"]) == {}
    assert difference(one, two, where="id = 1") == {}
    assert difference(one, two) == {("-", "2", "b"): 1, ("+", "2", "c"): 1}


def test_with_a_key_both_states_of_a_row_are_adjacent(write):
    one = write("one", id=[3, 1, 2], v=["a", "b", "c"]).snapshot()
    two = write("two", id=[3, 1, 2], v=["A", "b", "C"]).snapshot()
    rows = one.diff(two, key=["id"]).read_all()
    assert rows["id"].to_pylist() == [2, 2, 3, 3]
    assert rows["_change"].to_pylist() == ["-", "+", "-", "+"]


def test_a_column_with_the_name_of_the_change_is_refused(write):
    one = write("one", id=[1], _change=["x"]).snapshot()
    with pytest.raises(ArgumentError, match="Select other columns"):
        one.diff(one)
    assert difference(one, one, columns=["id"]) == {}


def test_a_column_of_one_side_only_is_refused(write):
    one, two = write("one", id=[1]).snapshot(), write("two", id=[1], b=[1]).snapshot()
    for argument in ("columns", "key"):
        with pytest.raises(ArgumentError, match=f"{argument}: column 'b' isn't in both"):
            one.diff(two, **{argument: ["b"]})
