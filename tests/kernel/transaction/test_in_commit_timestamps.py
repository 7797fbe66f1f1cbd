"""In-commit timestamps depend on the winning commits, and are later than all of them."""

from __future__ import annotations

import json
import time

import pytest

from bayou.kernel import Table
from support.transactions import append, begin, commit_lines, only_action


@pytest.fixture
def table(engine, table_path) -> Table:
    return Table.for_path(engine, table_path)


def test_in_commit_timestamps_come_first_and_only_rise(engine, table):
    append(engine, begin(engine, table, {"delta.enableInCommitTimestamps": "true"}))
    late = begin(engine, table)
    for _ in range(3):
        append(engine, begin(engine, table))
    assert append(engine, late) == 4
    first = [commit_lines(engine, table, v)[0]["commitInfo"] for v in range(5)]
    stamps = [info["inCommitTimestamp"] for info in first]
    assert stamps == sorted(set(stamps))
    assert abs(stamps[-1] - time.time() * 1000) < 60_000
    assert table.latest_snapshot(engine).timestamp == stamps[-1]
    assert "delta.inCommitTimestampEnablementVersion" not in (
        table.latest_snapshot(engine).properties
    )


def test_a_table_that_turns_them_on_says_from_when(engine, table):
    append(engine, begin(engine, table))
    late = begin(engine, table, {"delta.enableInCommitTimestamps": "true"})
    append(engine, begin(engine, table))
    assert append(engine, late) == 2
    found = commit_lines(engine, table, 2)
    stamp = found[0]["commitInfo"]["inCommitTimestamp"]
    properties = only_action(found, "metaData")["configuration"]
    assert properties["delta.inCommitTimestampEnablementVersion"] == "2"
    assert properties["delta.inCommitTimestampEnablementTimestamp"] == str(stamp)
    assert append(engine, begin(engine, table)) == 3
    again = table.latest_snapshot(engine).properties
    assert again["delta.inCommitTimestampEnablementVersion"] == "2"


def test_they_begin_behind_the_time_of_the_commit_before(engine, table):
    append(engine, begin(engine, table))
    ahead = int(time.time() * 1000) + 3_600_000
    engine.files.set_modification_time(f"{table.path}/_delta_log/{0:020d}.json", ahead)
    append(engine, begin(engine, table, {"delta.enableInCommitTimestamps": "true"}))
    snapshot = table.latest_snapshot(engine)
    assert snapshot.timestamp == ahead + 1
    assert snapshot.properties["delta.inCommitTimestampEnablementTimestamp"] == str(ahead + 1)
    assert table.snapshot_as_of_timestamp(engine, ahead).version == 0


def test_they_begin_behind_the_time_of_a_winner(engine, table):
    append(engine, begin(engine, table))
    late = begin(engine, table, {"delta.enableInCommitTimestamps": "true"})
    ahead = int(time.time() * 1000) + 3_600_000
    winner = {"commitInfo": {"timestamp": ahead, "operation": "WRITE", "isBlindAppend": True}}
    path = f"{table.path}/_delta_log/{1:020d}.json"
    engine.files.put_if_absent(path, json.dumps(winner).encode())
    assert append(engine, late) == 2
    assert table.latest_snapshot(engine).timestamp == ahead + 1
