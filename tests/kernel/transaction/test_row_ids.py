"""Row ids and row commit versions of a commit depend on the winning commits."""

from __future__ import annotations

import json

import msgspec
import pytest

from bayou.errors import ArgumentError
from bayou.kernel import Table, write_data
from support.transactions import ROWS, append, begin, commit_lines, only_action


@pytest.fixture
def table(engine, table_path) -> Table:
    return Table.for_path(engine, table_path)


def test_rows_get_ids_of_their_own_behind_a_winner(engine, table):
    append(engine, begin(engine, table, {"delta.enableRowTracking": "true"}))
    late = begin(engine, table)
    append(engine, begin(engine, table))
    assert append(engine, late) == 2
    for version in range(3):
        add = only_action(commit_lines(engine, table, version), "add")
        assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (3 * version, version)
    mark = table.latest_snapshot(engine).domain_metadata["delta.rowTracking"]
    assert json.loads(mark) == {"rowIdHighWaterMark": 8}
    properties = table.latest_snapshot(engine).properties
    assert properties["delta.rowTracking.materializedRowIdColumnName"].startswith("_row-id-col-")
    features = table.latest_snapshot(engine).protocol.writer_features
    assert {"rowTracking", "domainMetadata"} <= set(features or [])


def test_a_file_that_has_ids_keeps_them(engine, table):
    append(engine, begin(engine, table, {"delta.enableRowTracking": "true"}))
    transaction = begin(engine, table)
    with transaction.read_files(engine) as files:
        (file,) = files
    removes = list(transaction.generate_remove_actions(engine))
    moved = msgspec.structs.replace(file.add, path="other.parquet")
    transaction.commit(engine, [*removes, moved])
    found = commit_lines(engine, table, 1)
    assert only_action(found, "add")["baseRowId"] == 0
    assert only_action(found, "add")["defaultRowCommitVersion"] == 0
    assert only_action(found, "remove")["baseRowId"] == 0


def test_new_ids_are_above_those_of_files_that_come_with_theirs(engine, table):
    append(engine, begin(engine, table, {"delta.enableRowTracking": "true"}))
    transaction = begin(engine, table)
    adds = write_data(engine, transaction.transaction_state(engine), ROWS.to_batches())
    restored = [
        msgspec.structs.replace(a, path=f"r{i}", base_row_id=90) for i, a in enumerate(adds)
    ]
    transaction.commit(engine, [*adds, *restored])
    found = [line["add"] for line in commit_lines(engine, table, 1) if "add" in line]
    assert [a["baseRowId"] for a in found] == [93, 90]
    mark = table.latest_snapshot(engine).domain_metadata["delta.rowTracking"]
    assert json.loads(mark) == {"rowIdHighWaterMark": 95}


def test_new_ids_are_above_those_of_a_file_that_begins_below_the_mark(engine, table):
    append(engine, begin(engine, table, {"delta.enableRowTracking": "true"}))
    transaction = begin(engine, table)
    adds = write_data(engine, transaction.transaction_state(engine), ROWS.to_batches())
    restored = [msgspec.structs.replace(a, path="r", base_row_id=1) for a in adds]
    transaction.commit(engine, [*restored, *adds])
    found = [line["add"] for line in commit_lines(engine, table, 1) if "add" in line]
    assert [a["baseRowId"] for a in found] == [1, 4]
    mark = table.latest_snapshot(engine).domain_metadata["delta.rowTracking"]
    assert json.loads(mark) == {"rowIdHighWaterMark": 6}


def test_a_file_below_the_mark_needs_no_statistics(engine, table):
    append(engine, begin(engine, table, {"delta.enableRowTracking": "true"}))
    transaction = begin(engine, table)
    with transaction.read_files(engine) as files:
        (file,) = files
    removes = list(transaction.generate_remove_actions(engine))
    transaction.commit(
        engine, [*removes, msgspec.structs.replace(file.add, path="other.parquet", stats=None)]
    )
    assert only_action(commit_lines(engine, table, 1), "add")["baseRowId"] == 0
    mark = table.latest_snapshot(engine).domain_metadata["delta.rowTracking"]
    assert json.loads(mark) == {"rowIdHighWaterMark": 2}


def test_rows_that_are_not_counted_get_no_ids(engine, table):
    append(engine, begin(engine, table, {"delta.enableRowTracking": "true"}))
    transaction = begin(engine, table)
    adds = write_data(engine, transaction.transaction_state(engine), ROWS.to_batches())
    with pytest.raises(ArgumentError, match="numRecords"):
        transaction.commit(engine, [msgspec.structs.replace(a, stats=None) for a in adds])
