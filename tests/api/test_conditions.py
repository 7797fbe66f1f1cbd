"""Conditions as filter tuples, in reads, row operations and OPTIMIZE."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError

ROWS = pa.table(
    {
        "id": [1, 2, 3, None],
        "day": ["a", "b", "b", None],
        "at": pa.array([dt.date(2024, 1, n) for n in (1, 2, 3, 4)]),
    }
)


@pytest.fixture
def table(path) -> bayou.api.TableHandle:
    bayou.write(path, ROWS, partition_by="day")
    return bayou.table(path)


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ([("id", "=", 1)], [1]),
        ([("id", "==", "1")], [1]),
        ([("id", "!=", 1)], [2, 3]),
        ([("id", ">", 1), ("id", "<", 3)], [2]),
        ([("id", ">=", 2), ("id", "<=", 2)], [2]),
        ([("id", "in", [1, 3])], [1, 3]),
        ([("id", "not in", {1, 3})], [2]),
        ([("day", "=", None)], [None]),
        ([("day", "!=", None)], [1, 2, 3]),
        ([("at", ">", dt.date(2024, 1, 2))], [3, None]),
        ([[("id", "=", 1)], [("day", "=", "b"), ("id", ">", 2)]], [1, 3]),
        ([], [1, 2, 3, None]),
        ("id = 1 OR id = 2", [1, 2]),
    ],
)
def test_filter_tuples_select_rows(table, condition, ids):
    rows = table.to_arrow(["id"], filter=condition).column("id").to_pylist()
    assert sorted(rows, key=repr) == sorted(ids, key=repr)


@pytest.mark.parametrize(
    "condition",
    [
        5,
        [5],
        [("id", "=")],
        [("id", "~", 1)],
        [(5, "=", 1)],
        [("id", "in", "ab")],
        [("id", "=", object())],
        [[]],
    ],
)
def test_what_is_no_condition_is_refused(table, condition):
    with pytest.raises(ArgumentError) as refused:
        table.to_arrow(filter=condition)
    assert refused.value.argument == "filter"


def test_row_operations_and_optimize_take_filter_tuples(table):
    assert table.delete([("id", "=", 1)]).num_deleted_rows == 1
    assert table.update(new_values={"id": 9}, predicate=[("id", "=", 2)]).num_updated_rows == 1
    bayou.write(table.table_uri, ROWS)
    assert table.optimize(partition_filters=[("day", "=", "b")]).num_files_removed == 2
    assert len(table.file_uris([("day", "=", "b")])) == 1


def test_update_takes_sql_or_values(table):
    table.update({"id": "id + 1"}, predicate="id = 3")
    table.update(new_values={"id": None, "at": dt.date(2030, 1, 1)}, predicate="id = 4")
    assert table.to_arrow(["id"], filter="at = DATE'2030-01-01'").to_pylist() == [{"id": None}]
    for arguments in ({}, {"updates": {"id": "1"}, "new_values": {"id": 1}}, {"new_values": 5}):
        with pytest.raises(ArgumentError):
            table.update(**arguments)
