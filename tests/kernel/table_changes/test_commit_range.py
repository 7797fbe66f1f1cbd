"""Commits between two versions as columns (Delta Kernel's CommitRange)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bayou.errors import (
    ArgumentError,
    BayouError,
    CorruptTableError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from bayou.kernel import CommitBoundary, CommitRange, DeltaAction, Snapshot, Table
from bayou.kernel.table_changes.action_columns import action_schema
from support.log_writer import (
    LogWriter,
    add,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    remove,
    txn,
)

HEAD = (protocol(), metadata({"id": "long"}))
FILES = {DeltaAction.ADD, DeltaAction.REMOVE}


@pytest.fixture
def table(log: LogWriter) -> LogWriter:
    """Six versions, of 1000, 2000, ... ms."""
    log.commit(commit_info(operation="CREATE TABLE", operationParameters={"n": 1}), *HEAD)
    log.commit(add("a", stats={"numRecords": 3}), add("b", partition_values={"p": None}))
    log.commit(remove("a", vector=deletion_vector("v", 4)), txn("app", 7))
    log.commit(commit_info(operation="NOTHING"))
    log.commit({"cdc": {"path": "c", "partitionValues": {"p": "1"}, "size": 9}}, add("d"))
    log.commit({"domainMetadata": {"domain": "x", "configuration": "{}", "removed": False}})
    for version in range(6):
        set_time(log, version, 1000 * (version + 1))
    return log


def set_time(log: LogWriter, version: int, time: int) -> None:
    log.engine.files.set_modification_time(log.path(f"{version:020d}.json"), time)


def load(
    log: LogWriter, start: CommitBoundary | int, end: CommitBoundary | int | None = None
) -> CommitRange:
    def boundary(of: CommitBoundary | int) -> CommitBoundary:
        return CommitBoundary.at_version(of) if isinstance(of, int) else of

    builder = Table.for_path(log.engine, log.table).commit_range_builder(boundary(start))
    if end is not None:
        builder = builder.with_end_boundary(boundary(end))
    return builder.build(log.engine)


def at(timestamp: int) -> CommitBoundary:
    return CommitBoundary.at_timestamp(timestamp)


def rows(log: LogWriter, commits: CommitRange, kinds: set[DeltaAction]) -> list[dict[str, object]]:
    batches = list(commits.actions(log.engine, kinds))
    assert all(b.schema.equals(action_schema(kinds)) for b in batches)
    return pa.Table.from_batches(batches, action_schema(kinds)).to_pylist(maps_as_pydicts="strict")


def test_actions_come_commit_by_commit_in_the_order_of_the_log(table):
    found = rows(table, load(table, 0), FILES)
    assert [(r["version"], r["timestamp"], (r["add"] or r["remove"])["path"]) for r in found] == [
        (1, 2000, "a"),
        (1, 2000, "b"),
        (2, 3000, "a"),
        (4, 5000, "d"),
    ]


def test_an_action_is_the_only_one_of_its_row_and_keeps_its_fields(table):
    found = rows(table, load(table, 0), set(DeltaAction))
    kinds = [k for r in found for k in DeltaAction if r[k] is not None]
    assert len(kinds) == len(found)
    by_kind = {k: r[k] for r in found for k in DeltaAction if r[k] is not None}
    assert by_kind["remove"]["deletionVector"]["offset"] == 4
    assert by_kind["remove"]["dataChange"] is True
    assert by_kind["txn"] == {"appId": "app", "version": 7, "lastUpdated": None}
    assert by_kind["cdc"]["partitionValues"] == {"p": "1"}
    assert by_kind["domainMetadata"] == {"domain": "x", "configuration": "{}", "removed": False}
    assert by_kind["protocol"]["minReaderVersion"] == 1
    assert json.loads(by_kind["metaData"]["schemaString"])["type"] == "struct"
    adds = [r["add"] for r in found if r["add"]]
    assert adds[0]["stats"] == '{"numRecords": 3}'
    assert adds[1]["partitionValues"] == {"p": None}


def test_provenance_that_isnt_of_its_type_becomes_text_or_null(log):
    log.commit(
        commit_info(
            timestamp="soon",
            readVersion=2**70,
            operation=["a"],
            isBlindAppend="yes",
            operationParameters={"a": 1, "b": None, "c": {"d": []}},
            operationMetrics="none",
        ),
        *HEAD,
    )
    (row,) = rows(log, load(log, 0), {DeltaAction.COMMIT_INFO})
    info = row["commitInfo"]
    assert info["operationParameters"] == {"a": "1", "b": None, "c": '{"d":[]}'}
    assert info["operation"] == '["a"]'
    assert [info[k] for k in ("timestamp", "readVersion", "isBlindAppend", "operationMetrics")] == [
        None
    ] * 4


def test_commits_come_one_by_one_also_those_without_such_actions(table):
    commits = list(load(table, 2, 4).commit_actions(table.engine, {DeltaAction.TXN}))
    assert [(c.version, c.timestamp) for c in commits] == [(2, 3000), (3, 4000), (4, 5000)]
    batches = [list(c.actions()) for c in commits]
    assert [len(b) for b in batches] == [1, 0, 0]
    assert list(commits[0].actions()) == batches[0]


def test_a_large_commit_comes_in_several_batches(log):
    log.commit(*HEAD)
    log.commit(*(add(f"{i}") for i in range(70_000)))
    batches = list(load(log, 1).actions(log.engine, {DeltaAction.ADD}))
    assert len(batches) > 1
    assert sum(b.num_rows for b in batches) == 70_000


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (2, None, (2, 5)),
        (2, 2, (2, 2)),
        (at(1), None, (0, 5)),
        (at(2000), at(4999), (1, 3)),
        (at(2001), at(5000), (2, 4)),
        (3, at(6000), (3, 5)),
        (at(6000), 5, (5, 5)),
    ],
)
def test_a_range_is_told_by_versions_or_times(table, start, end, expected):
    found = load(table, start, end)
    assert (found.start_version, found.end_version) == expected
    assert found.query_start_boundary in (start, CommitBoundary(version=found.start_version))
    assert (found.query_end_boundary is None) == (end is None)


def test_a_range_beyond_the_latest_version_is_an_error_that_says_which_that_is(table):
    for start, end in [(6, None), (6, 9), (3, 6)]:
        with pytest.raises(VersionNotFoundError, match="latest version is 5") as caught:
            load(table, start, end)
        assert (caught.value.earliest, caught.value.latest) == (0, 5)


def test_a_time_beyond_the_last_commit_is_an_error_that_says_when_that_was(table):
    for start, end in [(at(6001), None), (0, at(6001))]:
        with pytest.raises(VersionNotFoundError, match=r"at 1970-01-01T00:00:06.000\+00:00"):
            load(table, start, end)


def test_an_end_before_the_first_commit_is_an_error(table):
    with pytest.raises(VersionNotFoundError, match="earliest version"):
        load(table, 0, at(999))


def test_a_range_before_the_earliest_commit_is_an_error_that_says_which_that_is(table):
    table.checkpoint(3, [*HEAD, add("b")])
    for version in range(3):
        table.delete(f"{version:020d}.json")
    for end in (None, 1, 4):
        with pytest.raises(VersionNotFoundError, match="earliest available commit is 3") as caught:
            load(table, 1, end)
        assert (caught.value.earliest, caught.value.latest) == (3, 5)
    assert load(table, 3).start_version == 3
    assert load(table, at(0)).start_version == 3


def test_a_log_of_a_checkpoint_alone_has_no_range(table):
    table.checkpoint(5, [*HEAD, add("b")])
    for version in range(6):
        table.delete(f"{version:020d}.json")
    with pytest.raises(VersionNotFoundError, match="a checkpoint and no commits"):
        load(table, 5)


@pytest.mark.parametrize(("start", "end"), [(0, 4), (3, 4), (1, 3)])
def test_a_missing_commit_inside_the_range_is_named(table, start, end):
    table.checkpoint(4, [*HEAD, add("b")])
    table.delete(f"{3:020d}.json")
    with pytest.raises(CorruptTableError, match="commit 3 is missing"):
        load(table, start, end)


def test_a_range_that_ends_before_it_begins_is_an_error(table):
    with pytest.raises(ArgumentError, match="ends at version 1, before its start at version 3"):
        load(table, 3, 1)


def test_a_boundary_is_one_version_or_one_time():
    for facts in ({}, {"version": 1, "timestamp": 1}, {"version": -1}):
        with pytest.raises(ArgumentError):
            CommitBoundary(**facts)


def test_a_folder_without_a_log_is_no_table(engine, table_path):
    builder = Table.for_path(engine, table_path).commit_range_builder(CommitBoundary.at_version(0))
    with pytest.raises(TableNotFoundError):
        builder.build(engine)


def test_equal_and_falling_file_times_are_raised_also_by_commits_before_the_range(table):
    for version, time in enumerate([5000, 5000, 1000, 9000, 9000, 9000]):
        set_time(table, version, time)
    commits = load(table, 2).commit_actions(table.engine, FILES)
    assert [c.timestamp for c in commits] == [5002, 9000, 9001, 9002]


def test_an_in_commit_timestamp_counts_more_than_the_files_time(log):
    log.commit(*HEAD)
    log.commit(commit_info(inCommitTimestamp=77), add("a"))
    set_time(log, 0, 5)
    commits = load(log, 0).commit_actions(log.engine, FILES)
    assert [c.timestamp for c in commits] == [5, 77]


def test_a_protocol_that_cant_be_read_stops_at_its_version(table):
    table.commit(add("z"))
    table.commit(protocol(3, 7, (["fromTheFuture"], ["fromTheFuture"])))
    commits = load(table, 5, 7).commit_actions(table.engine, FILES)
    assert next(commits).version == 5
    assert next(commits).version == 6
    with pytest.raises(
        UnsupportedFeatureError,
        match=r"version 7 on can't be read, because they require fromTheFuture",
    ):
        next(commits)


def test_a_snapshot_given_must_be_of_the_first_version(table):
    snapshot = Snapshot.load(table.engine, table.table, 2)
    assert len(list(load(table, 2).actions(table.engine, FILES, snapshot))) == 2
    with pytest.raises(ArgumentError, match="starts at version 3"):
        load(table, 3).actions(table.engine, FILES, snapshot)


def test_a_broken_line_is_named_when_its_commit_is_reached(table):
    table.put(f"{3:020d}.json", b'{"add": 1}\n')
    commits = load(table, 2).commit_actions(table.engine, FILES)
    assert next(commits).version == 2
    with pytest.raises(CorruptTableError, match="commit 3 .*line 1"):
        list(next(commits).actions())


def test_a_commit_that_vanishes_meanwhile_is_a_typed_error(table):
    commits = load(table, 2)
    table.delete(f"{3:020d}.json")
    with pytest.raises(BayouError, match="deleted while it was read"):
        list(commits.actions(table.engine, FILES))
