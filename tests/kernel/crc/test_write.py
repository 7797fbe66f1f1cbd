"""PROTOCOL.md, Version Checksum File: what is written, and from what it follows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.errors import CorruptTableError, StorageError
from bayou.kernel import ByteRange, Snapshot
from bayou.kernel.crc.write import write_checksum
from bayou.protocol.version_checksum import FileSizeHistogram
from support.examples import examples
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
WRITE = commit_info(operation="WRITE", txnId="t", engineInfo="bayou/0")
VECTORS = (
    protocol(3, 7, (["deletionVectors"], ["deletionVectors"])),
    metadata({"id": "long"}, (), {"delta.enableDeletionVectors": "true"}),
)


def read(log: LogWriter, version: int) -> dict[str, Any]:
    (data,) = log.engine.files.read_files([ByteRange(path=log.path(f"{version:020d}.crc"))])
    return json.loads(data)


def domain(name: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": removed}}


def written(log: LogWriter, version: int) -> dict[str, Any]:
    assert write_checksum(log.engine, log.table, version)
    return read(log, version)


def test_the_first_version_is_described_by_its_commit(log):
    log.commit(WRITE, *HEAD, add("a", size=5), add("b", size=9000), txn("app", 1, 7), domain("d"))
    found = written(log, 0)
    assert (found["numFiles"], found["tableSizeBytes"]) == (2, 9005)
    assert (found["numMetadata"], found["numProtocol"]) == (1, 1)
    assert found["metadata"]["schemaString"] == HEAD[1]["metaData"]["schemaString"]
    assert found["protocol"] == HEAD[0]["protocol"]
    assert found["setTransactions"] == [{"appId": "app", "version": 1, "lastUpdated": 7}]
    assert [d["domain"] for d in found["domainMetadata"]] == ["d"]
    assert found["txnId"] == "t"
    assert found["fileSizeHistogram"]["fileCounts"][:3] == [1, 1, 0]
    assert found["fileSizeHistogram"]["totalBytes"][:3] == [5, 9000, 0]
    assert "inCommitTimestampOpt" not in found
    assert "numDeletedRecordsOpt" not in found


def test_the_next_version_follows_from_the_one_before(log):
    log.commit(WRITE, *HEAD, add("a", size=5), txn("app", 1), domain("d"), domain("e"))
    written(log, 0)
    log.commit(
        WRITE, remove("a", size=5), add("b", size=7), txn("app", 2), domain("d", removed=True)
    )
    found = written(log, 1)
    assert (found["numFiles"], found["tableSizeBytes"]) == (1, 7)
    assert found["setTransactions"] == [{"appId": "app", "version": 2}]
    assert [d["domain"] for d in found["domainMetadata"]] == ["e"]
    assert sum(found["fileSizeHistogram"]["fileCounts"]) == 1


def test_metadata_and_protocol_are_the_latest(log):
    log.commit(WRITE, *HEAD)
    written(log, 0)
    log.commit(WRITE, protocol(1, 7, ([], ["appendOnly"])), metadata({"id": "long", "b": "long"}))
    found = written(log, 1)
    assert found["protocol"]["writerFeatures"] == ["appendOnly"]
    assert '"b"' in found["metadata"]["schemaString"]


def test_deletion_vectors_are_counted_where_the_table_writes_them(log):
    log.commit(WRITE, *VECTORS, add("a"), add("b"))
    assert written(log, 0)["numDeletionVectorsOpt"] == 0
    vector = {**deletion_vector("v"), "cardinality": 12}
    log.commit(WRITE, remove("a", size=1), add("a", vector=vector))
    found = written(log, 1)
    assert (found["numFiles"], found["numDeletionVectorsOpt"]) == (2, 1)
    assert found["numDeletedRecordsOpt"] == 12
    counts = found["deletedRecordCountsHistogramOpt"]["deletedRecordCounts"]
    assert counts == [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]


def test_an_in_commit_timestamp_is_that_of_the_commit(log):
    log.commit(WRITE, *HEAD)
    written(log, 0)
    log.commit(commit_info(operation="WRITE", inCommitTimestamp=77), add("a"))
    assert written(log, 1)["inCommitTimestampOpt"] == 77
    log.commit(WRITE, add("b"))
    assert "inCommitTimestampOpt" not in written(log, 2)


def test_transactions_that_expire_are_not_listed(log):
    configuration = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    log.commit(WRITE, protocol(), metadata({"id": "long"}, (), configuration), txn("app", 1))
    assert "setTransactions" not in written(log, 0)


def test_too_many_transactions_are_not_listed_at_all(log):
    log.commit(WRITE, *HEAD, *(txn(f"app{i}", 1) for i in range(100)))
    assert len(written(log, 0)["setTransactions"]) == 100
    log.commit(WRITE, txn("another", 1))
    assert "setTransactions" not in written(log, 1)


def test_a_checksum_is_never_overwritten(log):
    log.commit(WRITE, *HEAD, add("a"))
    log.checksum(0, numFiles=7)
    assert write_checksum(log.engine, log.table, 0)
    assert read(log, 0)["numFiles"] == 7


def test_a_table_without_checksums_is_counted_while_no_checkpoint_is_in_the_way(log):
    log.commit(WRITE, *HEAD, add("a", size=4), add("b", size=5))
    log.commit(commit_info(operation="WRITE", engineInfo="another"), remove("a"))
    log.commit(WRITE, add("c", size=6))
    found = written(log, 2)
    assert (found["numFiles"], found["tableSizeBytes"]) == (2, 11)


def test_a_table_without_checksums_is_not_counted_through_its_checkpoint(log):
    log.commit(WRITE, *HEAD, add("a"))
    log.checkpoint(0, [*HEAD, add("a")])
    log.commit(WRITE, add("b"))
    assert not write_checksum(log.engine, log.table, 1)
    assert not [s for s in log.engine.files.list_from(log.path("0")) if s.path.endswith("crc")]


def test_a_checksum_that_is_missing_between_is_bridged(log):
    log.commit(WRITE, *HEAD, add("a", size=1))
    log.checkpoint(0, [*HEAD, add("a", size=1)])
    written(log, 0)
    log.commit(WRITE, add("b", size=2))
    log.commit(WRITE, add("c", size=4))
    found = written(log, 2)
    assert (found["numFiles"], found["tableSizeBytes"]) == (3, 7)


def test_commits_of_an_unknown_writer_are_not_bridged(log):
    log.commit(WRITE, *HEAD, add("a"))
    log.checkpoint(0, [*HEAD, add("a")])
    written(log, 0)
    log.commit(commit_info(operation="WRITE", engineInfo="another"), add("b"))
    log.commit(WRITE, add("c"))
    assert not write_checksum(log.engine, log.table, 2)


@pytest.mark.parametrize(
    "crc", [{"numFiles": 1}, {"numFiles": 0, "metadata": None}], ids=["incomplete", "no metadata"]
)
def test_an_incomplete_checksum_is_as_good_as_none(log, crc):
    log.commit(WRITE, *HEAD, add("a", size=3))
    log.checksum(0, **crc)
    log.commit(WRITE, add("b", size=4))
    assert written(log, 1)["tableSizeBytes"] == 7


def test_a_remove_without_a_size_makes_it_count(log):
    log.commit(WRITE, *HEAD, add("a", size=3), add("b", size=4))
    written(log, 0)
    log.commit(WRITE, remove("a"))
    assert written(log, 1)["tableSizeBytes"] == 4


def test_more_removes_than_files_make_it_count(log):
    log.commit(WRITE, *HEAD, add("a", size=3))
    log.checksum(0, metadata=HEAD[1]["metaData"], protocol=HEAD[0]["protocol"])
    log.commit(WRITE, remove("a", size=3), add("b", size=2))
    log.commit(WRITE, remove("b", size=2))
    assert written(log, 1)["numFiles"] == 1


@pytest.mark.parametrize(
    ("operation", "actions", "expected"),
    [
        ("COMPUTE STATS", (add("a", size=3),), (1, 3)),
        ("ROW TRACKING BACKFILL", (add("a", size=3),), (1, 3)),
        ("Deletion Vector Tombstones", (remove("a", size=3),), (1, 3)),
        ("RESTORE", (add("a", size=3, dataChange=False),), (1, 3)),
        ("CLONE", (add("a", size=3, dataChange=False),), (1, 3)),
    ],
)
def test_operations_that_name_files_again_change_no_number(log, operation, actions, expected):
    log.commit(WRITE, *HEAD, add("a", size=3))
    written(log, 0)
    log.commit(commit_info(operation=operation), *actions)
    found = written(log, 1)
    assert (found["numFiles"], found["tableSizeBytes"]) == expected


@pytest.mark.parametrize("operation", ["RESTORE", "CLONE"])
def test_files_that_are_new_are_counted_beside_those_that_are_named_again(log, operation):
    vector = {**deletion_vector("v"), "cardinality": 2}
    log.commit(WRITE, *VECTORS, add("a", size=3, vector=vector), add("b", size=4))
    written(log, 0)
    log.commit(
        commit_info(operation=operation),
        add("a", size=3, vector=vector, dataChange=False),
        remove("b", size=4),
        add("c", size=5),
    )
    found = written(log, 1)
    assert (found["numFiles"], found["tableSizeBytes"]) == (2, 8)
    assert sum(found["fileSizeHistogram"]["fileCounts"]) == 2
    assert (found["numDeletionVectorsOpt"], found["numDeletedRecordsOpt"]) == (1, 2)


def test_files_of_an_optimize_are_counted(log):
    log.commit(WRITE, *HEAD, add("a", size=3), add("b", size=4))
    written(log, 0)
    log.commit(
        commit_info(operation="OPTIMIZE"),
        *(remove(path, size=size, dataChange=False) for path, size in (("a", 3), ("b", 4))),
        add("c", size=6, dataChange=False),
    )
    found = written(log, 1)
    assert (found["numFiles"], found["tableSizeBytes"]) == (1, 6)


def test_a_commit_that_is_gone_is_an_error(log):
    log.commit(WRITE, *HEAD)
    with pytest.raises(CorruptTableError):
        write_checksum(log.engine, log.table, 3)


def test_a_store_that_fails_leaves_no_checksum(log):
    log.commit(WRITE, *HEAD)
    faulty = FaultInjectingEngine(log.engine, Fault(operation="put_if_absent", path=".crc"))
    with pytest.raises(StorageError):
        write_checksum(faulty, log.table, 0)
    assert Snapshot.load(log.engine, log.table).log_segment.checksum is None


@settings(max_examples=examples(50))
@given(st.lists(st.integers(0, 1 << 40)), st.data())
def test_a_histogram_gives_back_what_was_put_in(sizes, data):
    gone = data.draw(st.lists(st.sampled_from(sizes), unique_by=id) if sizes else st.just([]))
    full = FileSizeHistogram.empty().updated(sizes, ())
    assert full is not None
    assert (sum(full.file_counts), sum(full.total_bytes)) == (len(sizes), sum(sizes))
    assert full.updated(gone, gone) == full
    assert full.updated((), sizes) == FileSizeHistogram.empty()


def test_nothing_follows_from_a_checksum_of_a_commit_that_the_log_has_lost(log):
    """A replica without its last commit goes on: the checksum of the lost one is still there."""
    log.commit(WRITE, *HEAD, txn("app", 1))
    written(log, 0)
    log.checksum(
        1,
        txnId="lost",
        setTransactions=[{"appId": "app", "version": 9}],
        protocol=HEAD[0]["protocol"],
        metadata=HEAD[1]["metaData"],
    )
    log.commit(commit_info(operation="WRITE", txnId="mine", engineInfo="bayou/0"), add("a"))
    log.commit(WRITE, add("b"))
    assert written(log, 2)["setTransactions"] == [{"appId": "app", "version": 1}]
