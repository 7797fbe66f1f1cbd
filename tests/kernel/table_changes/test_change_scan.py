"""Which files of a commit hold its changes, and which of them a filter needs."""

from __future__ import annotations

import pytest

from bayou.errors import (
    CorruptTableError,
    DataFileError,
    PredicateError,
    SchemaError,
    SerializationError,
)
from bayou.kernel import ChangeFile, ChangeState, col
from bayou.protocol.schema import LONG, STRING, StructField, StructType
from support.log_writer import add, commit_info, deletion_vector, metadata, protocol, remove

STATS = {"numRecords": 1, "minValues": {"id": 10}, "maxValues": {"id": 20}, "nullCount": {"id": 0}}


def planned(feed, filter=None, start: int = 0, end: int | None = None) -> list[tuple[object, ...]]:
    """(path, change type, version, live vector, marked vector) of each file."""
    scan = feed.changes(start, end).scan_builder().with_filter(filter).build()
    return [
        (
            f.file.path,
            f.change_type,
            f.version,
            f.file.deletion_vector and f.file.deletion_vector.path_or_inline_dv,
            f.only and f.only.path_or_inline_dv,
        )
        for f in scan.change_files(feed.engine)
    ]


def gone(path: str, **fields):
    return remove(path, partitionValues={}, size=1, **fields)


def test_added_files_are_insertions_and_removed_ones_deletions_which_come_first(feed):
    feed.create()
    feed.commit(add("a"), gone("b"), add("c"))
    assert planned(feed) == [
        ("b", "delete", 1, None, None),
        ("a", "insert", 1, None, None),
        ("c", "insert", 1, None, None),
    ]


def test_a_commit_with_change_data_files_is_told_by_those_alone(feed):
    feed.create()
    feed.commit(add("a"), {"cdc": {"path": "x", "partitionValues": {}, "size": 1}}, gone("b"))
    feed.commit(add("c"))
    assert planned(feed) == [("x", None, 1, None, None), ("c", "insert", 2, None, None)]


def test_files_that_change_no_data_give_nothing(feed):
    feed.create()
    feed.commit(add("a", dataChange=False), gone("b", dataChange=False))
    assert planned(feed) == []


def test_a_merge_that_says_it_changed_no_row_gives_nothing(feed):
    metrics = dict.fromkeys(
        ["numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"], "0"
    )
    feed.create()
    feed.commit(commit_info(operation="MERGE", operationMetrics=metrics), add("a"), gone("b"))
    assert planned(feed) == []
    some = {**metrics, "numTargetRowsDeleted": "1"}
    feed.commit(commit_info(operation="MERGE", operationMetrics=some), gone("a"))
    feed.commit(commit_info(operation="WRITE", operationMetrics=metrics), add("c"))
    feed.commit(commit_info(operation="MERGE"), add("d"))
    assert [p[0] for p in planned(feed)] == ["a", "c", "d"]


def test_files_with_vectors_keep_them(feed):
    feed.create()
    feed.commit(add("a", vector=deletion_vector("v")), gone("b", vector=deletion_vector("w")))
    assert planned(feed) == [
        ("b", "delete", 1, "w", None),
        ("a", "insert", 1, "v", None),
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "new", [("delete", None, "new")]),
        ("old", None, [("insert", None, "old")]),
        ("old", "new", [("delete", "old", "new"), ("insert", "new", "old")]),
        ("old", "old", []),
        (None, None, []),
    ],
)
def test_a_file_that_gets_another_vector_changes_only_where_the_two_differ(
    feed, before, after, expected
):
    def vector(name):
        return None if name is None else deletion_vector(name)

    feed.create()
    feed.commit(add("a", vector=vector(after)), gone("a", vector=vector(before)))
    assert planned(feed) == [("a", kind, 1, live, only) for kind, live, only in expected]


@pytest.fixture
def days(feed):
    feed.create({"id": "long", "day": "date"}, ["day"])
    feed.commit(
        add("a", partition_values={"day": "2024-01-01"}, stats=STATS),
        add("b", partition_values={"day": "2024-01-02"}),
    )
    feed.commit(
        {"cdc": {"path": "c1", "partitionValues": {"day": "2024-01-01"}, "size": 1}},
        {"cdc": {"path": "c2", "partitionValues": {"day": "2024-01-02"}, "size": 1}},
    )
    feed.commit(
        remove("a", partitionValues={"day": "2024-01-01"}, size=1, stats='{"numRecords": 1}'),
        add("d", partition_values={"day": None}, stats=STATS),
    )
    return feed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day = '2024-01-01'", ["a", "c1", "a"]),
        ("day IS NULL", ["d"]),
        ("id = 15", ["a", "b", "c1", "c2", "a", "d"]),
        ("id > 20", ["b", "c1", "c2", "a"]),
        ("_commit_version = 2", ["c1", "c2"]),
        ("_commit_version >= 2 AND day = '2024-01-02'", ["c2"]),
        ("_commit_timestamp < '1970-01-01 00:00:02'", ["a", "b"]),
        ("_change_type = 'insert'", ["a", "b", "c1", "c2", "d"]),
        ("_change_type = 'delete' AND _commit_version <> 2", ["a"]),
        ("_change_type IN ('update_preimage')", ["c1", "c2"]),
        ("_COMMIT_VERSION = 3 AND _change_type = 'delete'", ["a"]),
        ("_commit_version = 1 OR id = 99", ["a", "b", "c1", "c2", "a", "d"]),
        ("_commit_version = id", ["a", "b", "c1", "c2", "a", "d"]),
        ("1 = 2", []),
        (col("day") == "2024-01-02", ["b", "c2"]),
    ],
)
def test_a_filter_leaves_out_files_that_hold_no_row_for_it(days, text, expected):
    assert [p[0] for p in planned(days, text)] == expected


def test_statistics_of_a_file_whose_vector_changes_dont_count(feed):
    feed.create()
    feed.commit(
        gone("a", stats='{"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 1}}'),
        add("a", stats=STATS, vector=deletion_vector("v")),
        add("b", stats=STATS),
    )
    assert [p[0] for p in planned(feed, "id = 1")] == ["a"]


def test_the_whole_filter_remains_to_be_applied(days):
    builder = days.changes().scan_builder()
    assert builder.build().remaining_filter is None
    remaining = builder.with_filter("day = '2024-01-01' AND _commit_version = 2").build()
    assert "_commit_version" in str(remaining.remaining_filter)


@pytest.mark.parametrize("text", ["nonsense = 1", "_commit_versions = 1", "id = "])
def test_a_filter_that_cant_be_understood_is_an_error(days, text):
    with pytest.raises(PredicateError):
        days.changes().scan_builder().with_filter(text).build()


def test_a_read_schema_is_part_of_the_tables(days):
    builder = days.changes().scan_builder()
    state = builder.with_read_schema(StructType((StructField(name="id", data_type=LONG),)))
    assert state.build().change_state(days.engine).logical_arrow_schema.names == [
        "id",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
    for field in [
        StructField(name="id", data_type=STRING),
        StructField(name="_change_type", data_type=STRING),
    ]:
        with pytest.raises(SchemaError):
            builder.with_read_schema(StructType((field,))).build()


def test_files_and_state_of_a_scan_travel_as_bytes(feed):
    feed.create()
    feed.commit(add("a", vector=deletion_vector("n", 1)), gone("a", vector=deletion_vector("o")))
    feed.commit({"cdc": {"path": "x", "partitionValues": {"p": None}, "size": 1}})
    scan = feed.changes().scan_builder().with_filter("id = 3").build()
    files = list(scan.change_files(feed.engine))
    assert [ChangeFile.from_bytes(f.to_bytes()) for f in files] == files
    assert [f.size for f in files] == [1, 1, 1]
    state = scan.change_state(feed.engine)
    assert ChangeState.from_bytes(state.to_bytes()) == state


@pytest.mark.parametrize("kind", [ChangeFile, ChangeState])
def test_bytes_of_something_else_are_refused(days, kind):
    scan = days.changes().scan_builder().build()
    other = scan.change_state(days.engine).scan_state.to_bytes()
    for data in (b"", b"\xc0", other):
        with pytest.raises(SerializationError):
            kind.from_bytes(data)


def test_partition_values_that_a_remove_lacks_are_those_of_its_add(feed):
    feed.create({"id": "long", "day": "date"}, ["day"])
    feed.commit(add("a", partition_values={"day": "2024-01-01"}, size=77))
    feed.commit(add("b", partition_values={"day": "2024-01-02"}))
    feed.commit(remove("a"), remove("b"))
    scan = feed.changes(3).scan_builder().build()
    found = {f.file.path: f.file for f in scan.change_files(feed.engine)}
    assert found["a"].partition_values == {"day": "2024-01-01"}
    assert (found["a"].size, found["b"].size) == (77, 1)


def test_partition_values_that_a_remove_lacks_are_those_of_its_add_where_partitioning_ends(feed):
    feed.create({"id": "long", "day": "date"}, ["day"])
    feed.commit(add("a", partition_values={"day": "2024-01-01"}, size=77))
    columns = {"id": "long", "day": "date"}
    feed.commit(metadata(columns, [], {"delta.enableChangeDataFeed": "true"}), remove("a"))
    (file,) = feed.changes(2).scan_builder().build().change_files(feed.engine)
    assert file.file.partition_values == {"day": "2024-01-01"}
    assert file.size == 77


def test_a_remove_of_a_file_that_was_never_there_is_named(feed):
    feed.create({"id": "long", "day": "date"}, ["day"])
    feed.commit(remove("a"))
    with pytest.raises(
        CorruptTableError, match="remove action of file a in version .* has no partition values"
    ):
        planned(feed)
    feed.log.commit(
        protocol(1, 4),
        metadata({"id": "long", "day": "date"}, ["day"], {"delta.enableChangeDataFeed": "true"}),
        remove("z"),
        version=0,
    )
    with pytest.raises(CorruptTableError, match="file z"):
        planned(feed)


def test_files_are_the_same_however_their_paths_are_spelled(feed):
    feed.create(partition_columns=["name"])
    feed.commit(add("name=ä/a", partition_values={"name": "ä"}, size=77))
    feed.commit(remove("name=%C3%A4/a"))
    feed.commit(add("name=ä/b", partition_values={"name": "ä"}))
    feed.commit(
        add("name=ä/b", partition_values={"name": "ä"}, vector=deletion_vector("n")),
        remove("name=%C3%A4/b"),
    )
    scan = feed.changes(2, 2).scan_builder().build()
    (deleted,) = scan.change_files(feed.engine)
    assert (deleted.file.path, deleted.file.size) == ("name=%C3%A4/a", 77)
    assert deleted.file.partition_values == {"name": "ä"}
    assert planned(feed, None, 4) == [("name=ä/b", "delete", 4, None, "n")]


def test_without_partition_columns_a_removes_size_is_that_of_the_file(feed):
    feed.create()
    feed.write("a.parquet", id=[1])
    feed.commit(remove("a.parquet"))
    (file,) = feed.changes().scan_builder().build().change_files(feed.engine)
    assert file.size == feed.engine.files.status(f"{feed.path}/a.parquet").size
    feed.commit(remove("b.parquet"))
    with pytest.raises(DataFileError, match=r"b\.parquet is missing"):
        planned(feed)
