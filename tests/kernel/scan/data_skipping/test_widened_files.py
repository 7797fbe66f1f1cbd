"""Bounds of a column that was float: texts of floats in old files, of doubles in new ones."""

from __future__ import annotations

import json

import pytest

from bayou.kernel import LogSlice, Scan, Snapshot
from bayou.kernel.log import replay
from support.log_writer import (
    add,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    remove,
)

PROTOCOL = protocol(3, 7, (["typeWidening", "deletionVectors"],) * 2)
FLOAT_TO_DOUBLE = {"fromType": "float", "toType": "double"}
CHANGE_TIME = 1_000
ABOVE = "v > 1.1D"
"""True for the float 1.1, which is 1.10000002384 as a double, not for the double."""


def table(kind, changes=(), **others):
    """A metaData action of a column `v` and others without history."""
    action = dict(metadata(others)["metaData"])
    schema = json.loads(action["schemaString"])
    history = {"delta.typeChanges": list(changes)} if changes else {}
    schema["fields"].append({"name": "v", "type": kind, "nullable": True, "metadata": history})
    return {"metaData": {**action, "schemaString": json.dumps(schema)}}


def file(path, time=CHANGE_TIME + 1, **fields):
    """A file whose only value is written as 1.1."""
    stats = {
        "numRecords": 1,
        "minValues": {"v": 1.1},
        "maxValues": {"v": 1.1},
        "nullCount": {"v": 0},
    }
    return add(path, stats=stats, modificationTime=time, **fields)


@pytest.fixture(autouse=True, params=[1 << 40, 0], ids=["memory", "spilled"])
def store(request, monkeypatch):
    """Where the replay stores file actions."""
    monkeypatch.setattr(replay, "SPILL_THRESHOLD_BYTES", request.param)


DOUBLE = table("double", [FLOAT_TO_DOUBLE])


def widened(log):
    """A float file, and the column made double."""
    log.commit(PROTOCOL, table("float"), file("old", 1))
    log.commit(commit_info(timestamp=CHANGE_TIME), DOUBLE)


def kept(log, text=ABOVE):
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_filter(text).build()
    with scan.scan_files(log.engine) as batches:
        return sorted(f.path for batch in batches for f in batch.rows())


def test_bounds_of_files_behind_the_change_are_taken_as_they_are(log):
    widened(log)
    log.commit(file("new"))
    assert kept(log) == ["old"]
    assert kept(log, "v = 1.1D") == ["new", "old"]
    assert kept(log, "v = CAST(1.1 AS FLOAT)") == ["old"]
    assert kept(log, "v <> 1.1D") == ["old"]


def test_other_processes_know_it_too(log):
    widened(log)
    log.commit(file("new"))
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_filter(ABOVE).build()
    there = Scan.from_bytes(scan.to_bytes())
    found = []
    for part in scan.slices(log.engine):
        with there.replay_slice(log.engine, LogSlice.from_bytes(part.to_bytes())) as batches:
            found += [f.path for batch in batches for f in batch.rows()]
    assert found == ["old"]


def test_a_later_change_that_has_nothing_to_do_with_floats_changes_nothing(log):
    widened(log)
    log.commit(file("new"))
    log.commit(
        commit_info(timestamp=CHANGE_TIME + 9), table("double", [FLOAT_TO_DOUBLE], other="long")
    )
    assert kept(log) == ["old"]


def test_the_in_commit_timestamp_is_the_time_of_the_change(log):
    log.commit(PROTOCOL, table("float"), file("old", 1))
    log.commit(commit_info(timestamp=9_999, inCommitTimestamp=CHANGE_TIME), DOUBLE)
    log.commit(file("new"))
    assert kept(log) == ["old"]


def test_files_of_the_commit_that_changed_the_type_may_be_of_either(log):
    log.commit(PROTOCOL, table("float"))
    log.commit(commit_info(timestamp=CHANGE_TIME), DOUBLE, file("same"))
    assert kept(log) == ["same"]


@pytest.mark.parametrize("info", [(), (commit_info(operation="CHANGE COLUMN"),)])
def test_a_change_of_unknown_time_tells_nothing(log, info):
    log.commit(PROTOCOL, table("float"))
    log.commit(*info, DOUBLE)
    log.commit(file("new"))
    assert kept(log) == ["new"]


def test_a_float_file_that_gets_a_deletion_vector_stays_one(log):
    widened(log)
    log.commit(remove("old"), file("old", vector=deletion_vector("a")))
    assert kept(log) == ["old"]
    log.commit(remove("old", vector=deletion_vector("a")), file("old", vector=deletion_vector("b")))
    assert kept(log) == ["old"]


def test_a_float_file_that_gets_other_statistics_stays_one(log):
    widened(log)
    log.commit(file("old"))
    assert kept(log) == ["old"]


def test_a_float_file_that_comes_back_stays_one(log):
    widened(log)
    log.commit(remove("old"))
    assert kept(log) == []
    log.commit(file("old"))
    assert kept(log) == ["old"]


def test_restored_files_may_be_float_files(log):
    widened(log)
    log.commit(commit_info(operation="RESTORE"), file("forgotten"))
    assert kept(log) == ["forgotten", "old"]


def test_files_older_than_the_change_are_float_files(log):
    widened(log)
    log.commit(file("forgotten", CHANGE_TIME))
    assert kept(log) == ["forgotten", "old"]


def test_a_column_that_became_float_again_and_double_once_more(log):
    widened(log)
    log.commit(file("double"))
    log.commit(table("float"))
    log.commit(file("float"))
    log.commit(commit_info(timestamp=CHANGE_TIME), DOUBLE)
    log.commit(file("new"))
    assert kept(log) == ["double", "float", "old"]


def test_where_the_change_lies_before_the_checkpoint_all_files_may_be_float_files(log):
    widened(log)
    log.checkpoint(1, [PROTOCOL, DOUBLE, file("old", 1)])
    log.commit(file("new"))
    assert kept(log) == ["new", "old"]


def test_files_of_a_checkpoint_may_be_float_files_where_the_change_is_replayed(log):
    log.commit(PROTOCOL, table("float"), file("old", 1))
    log.checkpoint(0, [PROTOCOL, table("float"), file("old", 1)])
    log.commit(commit_info(timestamp=CHANGE_TIME), DOUBLE)
    log.commit(file("new"))
    assert kept(log) == ["old"]


def test_compacted_commits_dont_tell_their_order(log):
    widened(log)
    log.commit(file("new"))
    log.commit(file("newer"))
    log.commit(file("newest"))
    log.compaction(2, 3, file("new"), file("newer"))
    assert kept(log) == ["new", "newer", "old"]
    log.compaction(1, 3, DOUBLE, file("new"), file("newer"))
    assert kept(log)[:2] == ["new", "newer"]
