"""PROTOCOL.md, Log Compaction Files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayou.errors import ArgumentError, StorageError
from bayou.kernel import ByteRange, Snapshot
from bayou.kernel.maintenance.log_compaction import compact_log, is_compaction_due
from support.faults import Fault, FaultInjectingEngine
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


def read(log: LogWriter, first: int, last: int) -> list[dict[str, Any]]:
    name = f"{first:020d}.{last:020d}.compacted.json"
    (data,) = log.engine.files.read_files([ByteRange(path=log.path(name))])
    return [json.loads(line) for line in data.splitlines()]


def live(log: LogWriter) -> list[str]:
    scan = Snapshot.load(log.engine, log.table).scan_builder().build()
    return sorted(f.path for batch in scan.scan_files(log.engine) for f in batch.rows())


def test_the_example_of_the_specification(log):
    log.commit(*HEAD, add("f1"))
    log.commit(commit_info(operation="x"), add("f2"), remove("f1"))
    log.commit(commit_info(operation="x"), add("f3"), add("f4"), txn("app", 4389))
    log.commit(commit_info(operation="x"), remove("f3"), txn("app", 4390))
    assert compact_log(log.engine, log.table, 1, 3)
    found = read(log, 1, 3)
    assert [next(iter(line)) for line in found] == ["txn", "add", "remove", "add", "remove"]
    assert found[0]["txn"]["version"] == 4390
    assert [a["add"]["path"] for a in found if "add" in a] == ["f2", "f4"]
    assert [r["remove"]["path"] for r in found if "remove" in r] == ["f1", "f3"]


def test_a_table_is_read_with_it_where_the_commits_are_gone(log):
    log.commit(*HEAD, add("a"))
    log.commit(remove("a"), add("b"))
    log.commit(add("c"))
    log.commit(remove("c"), add("d"))
    before = live(log)
    compact_log(log.engine, log.table, 0, 2)
    log.put(f"{1:020d}.json", b"nonsense")
    assert live(log) == before == ["b", "d"]


def test_old_tombstones_stay(log):
    log.commit(*HEAD, add("a"))
    log.commit(remove("a", deletionTimestamp=1))
    log.commit(add("b"))
    compact_log(log.engine, log.table, 1, 2)
    assert {"remove"} <= {next(iter(line)) for line in read(log, 1, 2)}


def test_a_domain_that_was_removed_stays_removed(log):
    def domain(removed: bool) -> dict[str, Any]:
        return {"domainMetadata": {"domain": "d", "configuration": "", "removed": removed}}

    log.commit(*HEAD, domain(False))
    log.commit(domain(True))
    log.commit(add("a"))
    compact_log(log.engine, log.table, 1, 2)
    assert read(log, 1, 2)[0] == domain(True)


def test_files_are_told_apart_by_their_vectors(log):
    vector = deletion_vector("v")
    log.commit(*HEAD, add("a"))
    log.commit(remove("a"), add("a", vector=vector))
    compact_log(log.engine, log.table, 0, 1)
    kinds = [next(iter(line)) for line in read(log, 0, 1)]
    assert kinds == ["protocol", "metaData", "remove", "add"]


def test_provenance_and_change_data_are_left_out(log):
    cdc = {"cdc": {"path": "_change_data/a", "partitionValues": {}, "size": 1, "dataChange": False}}
    log.commit(commit_info(operation="x"), *HEAD, add("a"))
    log.commit(commit_info(operation="x"), cdc)
    compact_log(log.engine, log.table, 0, 1)
    assert [next(iter(line)) for line in read(log, 0, 1)] == ["protocol", "metaData", "add"]


def test_a_file_that_is_there_stays(log):
    log.commit(*HEAD, add("a"))
    log.commit(add("b"))
    log.compaction(0, 1, *HEAD, add("a"), add("b"))
    assert not compact_log(log.engine, log.table, 0, 1)


@pytest.mark.parametrize(("first", "last"), [(1, 1), (-1, 2), (2, 1)])
def test_a_range_that_is_none_is_refused(log, first, last):
    log.commit(*HEAD)
    with pytest.raises(ArgumentError, match="at least two versions"):
        compact_log(log.engine, log.table, first, last)


def test_a_commit_that_is_missing_is_named(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    with pytest.raises(ArgumentError, match="commit 2 doesn't exist"):
        compact_log(log.engine, log.table, 0, 3)


def test_a_store_that_fails_leaves_the_table_as_it_was(log):
    log.commit(*HEAD, add("a"))
    log.commit(add("b"))
    faulty = FaultInjectingEngine(log.engine, Fault(operation="write_json_file_atomically"))
    with pytest.raises(StorageError):
        compact_log(faulty, log.table, 0, 1)
    assert live(log) == ["a", "b"]


def test_an_interval_is_counted_from_version_0():
    assert [v for v in range(12) if is_compaction_due(v, 4)] == [3, 7, 11]
