"""Rows of the change data feed out of data files, change data files and deletion vectors."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ChangeDataFeedError, DataFileError
from bayou.kernel import ChangeFile, ChangeState, read_change_file
from bayou.protocol.schema import StructType
from support.log_writer import metadata, protocol
from support.vectors import inline_vector, write_vectors

FEED = {"delta.enableChangeDataFeed": "true"}


def test_rows_tell_what_happened_in_which_commit_and_when(feed):
    feed.create()
    feed.write("a", id=[1, 2], name=["x", None])
    feed.commit(feed.add("a"), time=1_234_567)
    feed.commit(feed.remove("a"), time=2_000_000)
    at = [dt.datetime(1970, 1, 1, 0, 20, 34, 567_000, dt.UTC)]
    at += [dt.datetime(1970, 1, 1, 0, 33, 20, tzinfo=dt.UTC)]
    assert feed.rows() == [
        {
            "id": number,
            "name": name,
            "_change_type": kind,
            "_commit_version": version,
            "_commit_timestamp": at[version - 1],
        }
        for kind, version in (("insert", 1), ("delete", 2))
        for number, name in ((1, "x"), (2, None))
    ]


def test_change_data_files_say_row_by_row_what_happened(feed):
    feed.create({"id": "long", "day": "date"}, ["day"])
    kinds = ["update_preimage", "update_postimage", "delete", "insert"]
    feed.write("_change_data/a%20b", id=[1, 2, 3, 4], _change_type=kinds)
    action = feed.cdc("_change_data/a%20b", {"day": "2024-01-05"})
    action["cdc"]["path"] = "_change_data/a%2520b"
    feed.commit(action)
    found = feed.rows()
    assert [r["_change_type"] for r in found] == kinds
    assert {r["day"] for r in found} == {dt.date(2024, 1, 5)}


def test_a_data_file_may_have_the_column_of_change_data_which_then_means_nothing(feed):
    feed.create({"id": "long"})
    feed.write("a", id=[1], _change_type=["delete"])
    feed.commit(feed.add("a"))
    assert feed.told() == [(1, "insert", 1)]


@pytest.mark.parametrize("types", [None, ["insert", None]])
def test_a_change_data_file_whose_rows_dont_say_what_happened_is_named(feed, types):
    feed.create({"id": "long"})
    columns = {} if types is None else {"_change_type": types}
    feed.write("c", id=[1, 2], **columns)
    feed.commit(feed.cdc("c"))
    with pytest.raises(DataFileError, match="rows without a value of _change_type") as caught:
        feed.rows()
    assert caught.value.file.endswith("/c")


def test_a_missing_file_is_named(feed):
    feed.create()
    feed.write("a", id=[1])
    feed.commit(feed.add("a"))
    feed.engine.files.delete_files([f"{feed.path}/a"])
    with pytest.raises(DataFileError, match="is missing") as caught:
        feed.rows()
    assert caught.value.file == f"{feed.path}/a"


def test_rows_older_than_a_column_have_nulls_in_it(feed):
    feed.create({"id": "long"})
    feed.write("a", id=[1])
    feed.commit(feed.add("a"))
    feed.commit(metadata({"id": "long", "new": "string"}, (), FEED))
    assert [(r["id"], r["new"]) for r in feed.rows()] == [(1, None)]


def vectors(feed, *rows):
    return write_vectors(feed.engine, feed.path, *rows)


def test_deleted_rows_of_an_added_or_removed_file_are_no_changes(feed):
    feed.create({"id": "long"})
    feed.write("a", id=list(range(6)))
    (vector,) = vectors(feed, [0, 5])
    feed.commit(feed.add("a", vector=vector))
    feed.commit(feed.remove("a", vector=vector))
    assert feed.told() == [
        (i, kind, version) for kind, version in (("insert", 1), ("delete", 2)) for i in range(1, 5)
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, [1, 4], [(1, "delete"), (4, "delete")]),
        ([1, 4], None, [(1, "insert"), (4, "insert")]),
        ([1, 4], [1, 2, 4], [(2, "delete")]),
        ([1, 4], [4, 5], [(5, "delete"), (1, "insert")]),
        ([1, 4], [1, 4], []),
        ([], [0], [(0, "delete")]),
    ],
)
@pytest.mark.parametrize("row_group_size", [1, 2, 100])
def test_a_file_that_stays_changes_where_its_vectors_differ(
    feed, before, after, expected, row_group_size
):
    feed.create({"id": "long"})
    feed.write("a", row_group_size, id=list(range(6)))
    old = None if before is None else inline_vector(before)
    new = None if after is None else vectors(feed, after)[0]
    feed.commit(feed.remove("a", vector=old), feed.add("a", vector=new))
    assert feed.told() == [(i, kind, 1) for i, kind in expected]


def test_only_row_groups_with_changed_rows_are_read(feed):
    feed.create({"id": "long"})
    feed.write("a", 10, id=list(range(100)))
    feed.commit(feed.remove("a"), feed.add("a", vector=inline_vector([15, 17, 55, 99])))
    scan = feed.changes().scan_builder().build()
    (file,) = scan.change_files(feed.engine)
    state = scan.change_state(feed.engine)
    batches = list(read_change_file(feed.engine, state, file))
    assert [b.column("id").to_pylist() for b in batches] == [[15, 17], [55], [99]]


@pytest.mark.parametrize("only", [None, [0, 3, 4, 7, 9]])
def test_a_file_read_in_parts_by_several_workers_gives_the_same_rows(feed, only):
    feed.create({"id": "long"})
    feed.write("a", 3, id=list(range(10)))
    new = feed.add("a", vector=None if only is None else inline_vector(only))
    feed.commit(*([] if only is None else [feed.remove("a")]), new)
    scan = feed.changes().scan_builder().build()
    state = ChangeState.from_bytes(scan.change_state(feed.engine).to_bytes())
    (file,) = scan.change_files(feed.engine)
    copy = ChangeFile.from_bytes(file.to_bytes())
    parts = [
        batch.column("id").to_pylist()
        for group in range(4)
        for batch in read_change_file(feed.engine, state, copy, group, group + 1)
    ]
    assert [i for part in parts for i in part] == list(range(10)) if only is None else only


def test_files_older_than_a_change_of_partition_columns_are_read_as_they_are(feed):
    fields = {"id": "long", "p": "long", "q": "string"}
    feed.create(fields, ["p"])
    feed.write("p=1/a", id=[1, 2], q=["x", "y"])
    feed.commit(feed.add("p=1/a", {"p": "1"}))
    feed.write("q=z/b", id=[3], p=[7])
    feed.commit(
        metadata(fields, ["q"], FEED),
        feed.remove("p=1/a", {"p": "1"}),
        feed.add("q=z/b", {"q": "z"}),
    )
    expected = [
        (1, 1, "x", "insert"),
        (2, 1, "y", "insert"),
        (1, 1, "x", "delete"),
        (2, 1, "y", "delete"),
        (3, 7, "z", "insert"),
    ]

    def told(filter=None):
        return [(r["id"], r["p"], r["q"], r["_change_type"]) for r in feed.rows(filter=filter)]

    assert told() == expected
    assert told("q = 'y'") == expected[:4]
    assert told("q = 'z'") == expected


def test_no_column_of_the_table_may_be_wanted(feed):
    feed.create()
    feed.write("a", id=[1, 2, 3], name=["x", "y", "z"])
    feed.write("c", id=[1, 2], _change_type=["insert", "delete"])
    feed.commit(feed.add("a"))
    feed.commit(feed.cdc("c"))
    feed.commit(feed.remove("a"), feed.add("a", vector=inline_vector([1])))
    scan = feed.changes().scan_builder().with_read_schema(StructType()).build()
    state = scan.change_state(feed.engine)
    batches = [
        batch
        for file in scan.change_files(feed.engine)
        for batch in read_change_file(feed.engine, state, file)
    ]
    found = pa.Table.from_batches(batches, state.logical_arrow_schema)
    assert found.column("_change_type").to_pylist() == ["insert"] * 4 + ["delete"] * 2
    assert found.column("_commit_version").to_pylist() == [1, 1, 1, 2, 2, 3]


def test_a_table_with_mapped_columns_is_read_by_ids_and_change_types_by_name(feed):
    action = metadata({"id": "long"}, (), {**FEED, "delta.columnMapping.mode": "id"})
    action["metaData"]["schemaString"] = action["metaData"]["schemaString"].replace(
        '"metadata": {}',
        '"metadata": {"delta.columnMapping.id": 5, "delta.columnMapping.physicalName": "col-x"}',
    )
    feed.commit(protocol(2, 5), action)
    column = pa.field("col-x", pa.int64(), metadata={"PARQUET:field_id": "5"})
    for name, extra in (("a", {}), ("c", {"_change_type": ["delete"]})):
        table = pa.table({"col-x": [1], **extra})
        fields = [column, *list(table.schema)[1:]]
        feed.write_table(name, table.cast(pa.schema(fields)))
    feed.commit(feed.add("a"))
    feed.commit(feed.cdc("c"))
    assert feed.told() == [(1, "insert", 1), (1, "delete", 2)]


MAPPED = {**FEED, "delta.columnMapping.mode": "name"}


def test_files_with_other_physical_names_that_a_restore_removes_are_named(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1], "name": ["a"]}), configuration=MAPPED)
    table = bayou.table(path)
    table.alter.drop_column("name")
    table.alter.add_column("name", "string")
    bayou.write(path, pa.table({"id": [2], "name": ["b"]}))
    table.restore(0)
    bayou.write(path, pa.table({"id": [3], "name": ["c"]}))
    with pytest.raises(ChangeDataFeedError, match="'name' has a different physical name") as caught:
        table.changes(4).to_arrow()
    assert caught.value.version == 4
    assert table.changes(5).to_arrow()["name"].to_pylist() == ["c"]
    assert table.changes(3, 3).to_arrow()["name"].to_pylist() == ["b"]


def test_files_that_an_overwrite_with_the_same_columns_removes_are_read(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1], "name": ["a"]}), configuration=MAPPED)
    wider = pa.table({"id": [2], "name": ["b"], "new": [0]})
    bayou.write(path, wider, mode="overwrite", overwrite_schema=True)
    feed = bayou.table(path).changes(1).to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["name"], r["_change_type"]) for r in feed] == [
        (1, "a", "delete"),
        (2, "b", "insert"),
    ]


def test_a_removed_double_that_is_no_float_is_an_error_after_a_restore_to_float(tmp_path):
    path = str(tmp_path / "t")
    widening = {**FEED, "delta.enableTypeWidening": "true"}
    bayou.create(path, {"v": "float"}, configuration=widening)
    table = bayou.table(path)
    table.alter.change_type("v", "double")
    bayou.write(path, pa.table({"v": [0.1]}))
    table.restore(0)
    with pytest.raises(DataFileError, match="without rounding"):
        table.changes(3).to_arrow()
