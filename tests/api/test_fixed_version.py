"""Handles with a fixed version, metrics by name, and the typed statistics of files."""

from __future__ import annotations

import datetime as dt
import time

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import bayou
from bayou.errors import ArgumentError, CommitConflictError, VersionNotFoundError


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t")
    for number in range(3):
        bayou.write(path, pa.table({"id": pa.array([number], pa.int64())}))
    return path


def ids(table):
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


def test_a_handle_opened_at_a_version_reads_it_whatever_is_committed(path):
    table = bayou.table(path, version=1)
    bayou.write(path, pa.table({"id": pa.array([9], pa.int64())}))
    assert (table.version(), table.count(), ids(table)) == (1, 2, [0, 1])
    assert pa.table(table).num_rows == 2
    assert table.snapshot(0).count() == 1
    table.update_incremental()
    assert (table.version(), ids(table)) == (3, [0, 1, 2, 9])


@pytest.mark.parametrize("as_text", [False, True])
def test_a_version_is_loaded_by_time(path, as_text):
    time.sleep(0.05)
    now = dt.datetime.now(dt.UTC)
    time.sleep(0.05)
    bayou.write(path, pa.table({"id": pa.array([9], pa.int64())}))
    table = bayou.table(path)
    table.load_as_version(now.isoformat() if as_text else now)
    assert table.version() == 2
    table.load_as_version(3)  # a later version than the loaded one
    assert table.version() == 3


def test_a_missing_version_is_an_error_at_once(path):
    with pytest.raises(VersionNotFoundError):
        bayou.table(path, version=7)
    with pytest.raises(ArgumentError, match="version"):
        bayou.table(path, version=-1)


def test_a_row_operation_starts_at_the_loaded_version(path):
    table = bayou.table(path, version=1)
    with pytest.raises(CommitConflictError):
        table.delete("id = 0")  # version 2 added rows that the condition didn't see
    table.load_as_version(2)
    assert table.delete("id = 0")["num_deleted_rows"] == 1
    assert table.version() == 2
    assert ids(bayou.table(path)) == [1, 2]


def test_metrics_are_read_by_name(path):
    table = bayou.table(path)
    updated = table.update({"id": "id + 10"}, predicate="id > 0")
    assert (updated["num_updated_rows"], updated["numUpdatedRows"]) == (2, 2)
    assert dict(updated)["num_updated_rows"] == updated.num_updated_rows
    with pytest.raises(KeyError, match="rows"):
        updated["rows"]
    compacted = table.optimize.compact()
    assert compacted["numFilesRemoved"] == compacted.num_files_removed > 0
    assert table.restore(0)["version"] == table.version()


def test_a_vacuum_is_the_list_of_its_paths(path):
    table = bayou.table(path)
    assert table.vacuum() == []
    assert table.vacuum() != ["x"]
    table.optimize.compact()
    would = table.vacuum(retention_hours=0, enforce_retention_duration=False)
    assert len(would) == 3
    assert list(would) == would.inventory["path"].to_pylist()
    assert [would[0], *would[1:]] == list(would)


ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "s": [{"a": 1, "b": "x"}, {"a": 5, "b": None}, None],
        "tags": [["x"], [], None],
        "p": ["v", "w", "v"],
    }
)


@pytest.mark.parametrize("flatten", [False, True])
def test_files_have_the_statistics_that_deltalake_reads(tmp_path, flatten):
    path = str(tmp_path / "t")
    write_deltalake(path, ROWS, partition_by=["p"])
    ours = bayou.table(path).get_add_actions(flatten=flatten)
    theirs = pa.table(DeltaTable(path).get_add_actions(flatten=flatten))
    shared = [name for name in theirs.column_names if name in ours.column_names]
    assert {"path", "size_bytes", "num_records"} < set(shared)
    assert {"min.id", "max.s.a", "partition.p"} <= set(shared) or not flatten
    by_path = [("path", "ascending")]
    found, expected = (t.select(shared).sort_by(by_path).to_pylist() for t in (ours, theirs))
    for row, other in zip(found, expected, strict=True):
        for name in shared:
            if isinstance(other[name], dict):
                assert row[name].items() >= other[name].items()
            else:
                assert row[name] == other[name]


def test_statistics_have_logical_names(tmp_path):
    path = str(tmp_path / "t")
    mapped = {"delta.columnMapping.mode": "name"}
    bayou.write(path, ROWS, partition_by=["p"], configuration=mapped)
    bayou.table(path).alter.rename_column("id", "number")
    flat = bayou.table(path).get_add_actions(flatten=True)
    assert {"min.number", "max.s.a", "null_count.number", "partition.p"} <= set(flat.column_names)
    rows = flat.sort_by("partition.p").to_pylist()
    assert [(r["partition.p"], r["min.number"], r["max.s.a"]) for r in rows] == [
        ("v", 1, 1),
        ("w", 2, 5),
    ]


def test_a_table_without_files_has_no_actions(tmp_path):
    table = bayou.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]))
    assert table.get_add_actions().num_rows == 0
    assert table.get_add_actions(flatten=True).num_rows == 0


@pytest.mark.parametrize("name", ["DeltaTable", "write_deltalake", "QueryBuilder", "Schema"])
def test_names_of_deltalake_are_answered_with_ours(name):
    with pytest.raises(AttributeError, match="Use "):
        getattr(bayou, name)
