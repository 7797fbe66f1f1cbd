"""PROTOCOL.md, Commit Provenance Information."""

from __future__ import annotations

import pytest

from bayou.errors import TableNotFoundError
from bayou.kernel import Table
from bayou.kernel.log.commit_times import read_history
from support.log_writer import LogWriter, add, commit_info, metadata, protocol

HEAD = (protocol(), metadata({"id": "long"}))


def history(log: LogWriter, limit: int | None = None):
    return read_history(log.engine, log.table, limit)


def test_commits_are_told_newest_first_as_they_were_written(log):
    log.commit(commit_info(operation="CREATE TABLE", operationParameters={"a": "1"}), *HEAD)
    log.commit(commit_info(operation="WRITE", custom={"deep": [1, None]}), add("a"))
    newest, oldest = history(log)
    assert (newest["version"], newest["operation"]) == (1, "WRITE")
    assert newest["custom"] == {"deep": [1, None]}
    assert oldest["operationParameters"] == {"a": "1"}
    assert list(newest)[:2] == ["version", "timestamp"]


def test_a_commit_that_says_nothing_has_version_and_time(log):
    log.commit(*HEAD)
    log.engine.files.set_modification_time(log.path(f"{0:020d}.json"), 1234)
    assert history(log) == [{"version": 0, "timestamp": 1234}]


def test_the_time_is_the_files_and_not_the_writers_clock(log):
    log.commit(commit_info(timestamp=1, operation="WRITE"), *HEAD)
    log.engine.files.set_modification_time(log.path(f"{0:020d}.json"), 1234)
    assert history(log)[0]["timestamp"] == 1234


def test_the_time_is_the_in_commit_timestamp_where_there_is_one(log):
    log.commit(commit_info(inCommitTimestamp=77, timestamp=1), *HEAD)
    assert history(log)[0]["timestamp"] == 77


def test_a_time_names_its_version_though_files_have_one_time(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    log.commit(add("b"))
    for version, time in enumerate([5000, 5000, 4000]):
        log.engine.files.set_modification_time(log.path(f"{version:020d}.json"), time)
    times = {entry["version"]: entry["timestamp"] for entry in history(log)}
    assert times == {0: 5000, 1: 5001, 2: 5002}
    table = Table.for_path(log.engine, log.table)
    found = {v: table.snapshot_as_of_timestamp(log.engine, t).version for v, t in times.items()}
    assert found == {0: 0, 1: 1, 2: 2}
    assert history(log, 1)[0]["timestamp"] == 5002


def test_in_commit_timestamps_count_no_more_once_they_are_off(log):
    log.commit(commit_info(inCommitTimestamp=77), *HEAD)
    log.commit(commit_info(inCommitTimestamp=88), add("a"))
    log.commit(add("b"))
    for version in range(3):
        log.engine.files.set_modification_time(log.path(f"{version:020d}.json"), 90 + version)
    assert [entry["timestamp"] for entry in history(log)] == [92, 91, 90]


@pytest.mark.parametrize(("limit", "versions"), [(None, [2, 1, 0]), (2, [2, 1]), (9, [2, 1, 0])])
def test_a_limit_keeps_the_newest(log, limit, versions):
    log.commit(*HEAD)
    log.commit(add("a"))
    log.commit(add("b"))
    assert [entry["version"] for entry in history(log, limit)] == versions


def test_only_commits_still_in_the_log_are_told(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    log.checkpoint(1, [*HEAD, add("a")])
    log.delete(f"{0:020d}.json")
    assert [entry["version"] for entry in history(log)] == [1]


def test_a_path_without_a_log_has_no_history(engine, table_path):
    with pytest.raises(TableNotFoundError):
        read_history(engine, table_path)
