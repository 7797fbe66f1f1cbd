"""PROTOCOL.md, Checkpoints, V1 Spec; Last Checkpoint File."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pyarrow.parquet as pq
import pytest

from bayou.errors import (
    CorruptTableError,
    StorageError,
    TablePropertyError,
    VersionNotFoundError,
)
from bayou.kernel import ByteRange, Snapshot
from bayou.kernel.checkpoint.write import checkpoint
from bayou.protocol import last_checkpoint
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
NOW = time.time_ns() // 1_000_000


def read(log: LogWriter, version: int) -> dict[str, list[Any]]:
    """The actions of a checkpoint by kind, read by pyarrow alone."""
    (data,) = log.engine.files.read_files(
        [ByteRange(path=log.path(f"{version:020d}.checkpoint.parquet"))]
    )
    table = pq.read_table(io.BytesIO(data))
    rows = table.to_pylist(maps_as_pydicts="strict")
    assert all(sum(v is not None for v in row.values()) == 1 for row in rows)
    return {
        name: [row[name] for row in rows if row[name] is not None] for name in table.schema.names
    }


def pointer(log: LogWriter) -> dict[str, Any]:
    (data,) = log.engine.files.read_files([ByteRange(path=log.path("_last_checkpoint"))])
    return json.loads(data)


def test_a_checkpoint_holds_the_reconciled_state_and_nothing_else(log):
    log.commit(commit_info(operation="x"), *HEAD, add("a"), add("b", stats={"numRecords": 3}))
    log.commit(remove("a", deletionTimestamp=NOW, size=5), txn("app", 1))
    log.commit(add("c%20d", tags={"k": "v"}), txn("app", 2, last_updated=9), {"rune": {}})
    checkpoint(log.engine, log.table, 2)
    found = read(log, 2)
    assert found["protocol"][0]["minWriterVersion"] == 2
    assert found["metaData"][0]["id"] == HEAD[1]["metaData"]["id"]
    assert found["metaData"][0]["schemaString"] == HEAD[1]["metaData"]["schemaString"]
    assert found["txn"] == [{"appId": "app", "version": 2, "lastUpdated": 9}]
    assert {a["path"]: a["stats"] for a in found["add"]} == {
        "b": '{"numRecords": 3}',
        "c%20d": None,
    }
    assert found["add"][1]["tags"] == {"k": "v"}
    assert [r["path"] for r in found["remove"]] == ["a"]
    assert "commitInfo" not in found


def test_adds_of_a_checkpoint_change_no_data(log):
    log.commit(*HEAD, add("a"))
    checkpoint(log.engine, log.table)
    assert [a["dataChange"] for a in read(log, 0)["add"]] == [False]


def test_the_pointer_counts_actions_and_carries_its_checksum(log):
    log.commit(*HEAD, add("a"), add("b"), txn("x", 1))
    checkpoint(log.engine, log.table)
    found = pointer(log)
    assert (found["version"], found["size"], found["numOfAddFiles"]) == (0, 5, 2)
    size = log.engine.files.status(log.path(f"{0:020d}.checkpoint.parquet")).size
    assert found["sizeInBytes"] == size
    assert found["checksum"] == last_checkpoint.checksum(json.dumps(found))


def test_a_checkpoint_builds_on_the_one_before(log):
    vector = deletion_vector("v", 1)
    head = (protocol(3, 7, (["deletionVectors"], ["deletionVectors"])), HEAD[1])
    log.commit(*head, add("a"), add("b", vector=vector, baseRowId=4))
    checkpoint(log.engine, log.table)
    log.delete(f"{0:020d}.json")
    log.commit(remove("a", deletionTimestamp=NOW), add("c"))
    checkpoint(log.engine, log.table)
    log.delete(f"{0:020d}.checkpoint.parquet")
    found = read(log, 1)
    assert [a["path"] for a in found["add"]] == ["b", "c"]
    assert found["add"][0]["deletionVector"] == {**vector}
    assert found["add"][0]["baseRowId"] == 4
    assert [r["path"] for r in found["remove"]] == ["a"]


def test_tombstones_are_kept_until_their_retention_ends(log):
    day = 86_400_000
    configuration = {"delta.deletedFileRetentionDuration": "interval 2 days"}
    log.commit(protocol(), metadata({"id": "long"}, (), configuration))
    log.commit(
        remove("fresh", deletionTimestamp=NOW - day),
        remove("old", deletionTimestamp=NOW - 3 * day),
        remove("timeless"),
    )
    checkpoint(log.engine, log.table)
    assert [r["path"] for r in read(log, 1)["remove"]] == ["fresh"]


def test_a_tombstone_ends_when_its_file_is_added_again(log):
    log.commit(*HEAD, add("a"))
    log.commit(remove("a", deletionTimestamp=NOW))
    checkpoint(log.engine, log.table)
    log.commit(add("a"))
    checkpoint(log.engine, log.table)
    found = read(log, 2)
    assert [a["path"] for a in found["add"]] == ["a"]
    assert found["remove"] == []


def test_transaction_identifiers_expire_where_the_table_says_so(log):
    configuration = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    log.commit(
        protocol(),
        metadata({"id": "long"}, (), configuration),
        txn("old", 1, last_updated=NOW - 2 * 86_400_000),
        txn("new", 2, last_updated=NOW),
        txn("timeless", 3),
    )
    checkpoint(log.engine, log.table)
    assert [t["appId"] for t in read(log, 0)["txn"]] == ["new", "timeless"]


def test_domains_are_kept_and_removed_ones_are_not(log):
    def domain(name, removed):
        return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": removed}}

    log.commit(*HEAD, domain("a", False), domain("b", True))
    checkpoint(log.engine, log.table)
    assert [d["domain"] for d in read(log, 0)["domainMetadata"]] == ["a"]


def test_an_older_checkpoint_does_not_move_the_pointer_back(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    checkpoint(log.engine, log.table)
    checkpoint(log.engine, log.table, 0)
    assert pointer(log)["version"] == 1


def test_a_pointer_to_a_newer_checkpoint_that_is_not_there_is_replaced(log):
    log.commit(*HEAD)
    log.put("_last_checkpoint", b'{"version":7,"size":2}')
    checkpoint(log.engine, log.table)
    assert pointer(log)["version"] == 0


def test_a_corrupt_pointer_is_replaced(log):
    log.commit(*HEAD)
    log.put("_last_checkpoint", b"{")
    checkpoint(log.engine, log.table)
    assert pointer(log)["version"] == 0


def test_a_checkpoint_can_be_repeated(log):
    log.commit(*HEAD, add("a"))
    assert checkpoint(log.engine, log.table) == checkpoint(log.engine, log.table) == 0
    assert len(read(log, 0)["add"]) == 1


def test_a_checkpoint_without_its_pointer_is_found_all_the_same(log):
    log.commit(*HEAD, add("a"))
    checkpoint(log.engine, log.table)
    log.commit(add("b"))
    engine = FaultInjectingEngine(log.engine, Fault(operation="put", path="_last_checkpoint"))
    with pytest.raises(StorageError):
        checkpoint(engine, log.table)
    assert pointer(log)["version"] == 0
    segment = Snapshot.load(log.engine, log.table).log_segment
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 1


def test_a_checkpoint_that_fails_leaves_the_pointer_alone(log):
    log.commit(*HEAD, add("a"))
    engine = FaultInjectingEngine(log.engine, Fault(operation="write_parquet_file_atomically"))
    with pytest.raises(StorageError):
        checkpoint(engine, log.table)
    assert Snapshot.load(log.engine, log.table).log_segment.checkpoint is None


def test_a_checkpoint_to_build_on_that_cannot_be_read_is_named(log):
    log.commit(*HEAD, add("a"))
    checkpoint(log.engine, log.table)
    log.commit(add("b"))
    log.delete(f"{0:020d}.json")
    path = log.put(f"{0:020d}.checkpoint.parquet", b"nonsense")
    with pytest.raises(CorruptTableError) as caught:
        checkpoint(log.engine, log.table)
    assert caught.value.file == path


def test_a_version_that_is_not_there_has_no_checkpoint(log):
    log.commit(*HEAD)
    with pytest.raises(VersionNotFoundError):
        checkpoint(log.engine, log.table, 3)


def test_a_retention_that_cannot_be_read_is_named(log):
    configuration = {"delta.deletedFileRetentionDuration": "a while"}
    log.commit(protocol(), metadata({"id": "long"}, (), configuration))
    with pytest.raises(TablePropertyError, match="deletedFileRetentionDuration") as caught:
        checkpoint(log.engine, log.table)
    assert caught.value.key == "delta.deletedFileRetentionDuration"


@pytest.mark.parametrize(
    ("files", "size", "warned"), [(2, 12, False), (3, 12, True), (2, 13, True)]
)
def test_a_checksum_that_counts_the_files_otherwise_is_a_warning(log, caplog, files, size, warned):
    log.commit(*HEAD, add("a", size=5), add("b", size=6))
    log.commit(remove("a"), add("c", size=6))
    name = log.checksum(1, numFiles=files, tableSizeBytes=size)
    assert checkpoint(log.engine, log.table) == 1
    assert pointer(log)["numOfAddFiles"] == 2
    assert [log.path(name) in r.getMessage() for r in caplog.records] == [True] * warned


def test_a_checksum_of_an_older_version_is_not_compared(log, caplog):
    log.commit(*HEAD, add("a"))
    log.checksum(0, numFiles=9)
    log.commit(add("b"))
    checkpoint(log.engine, log.table)
    assert not caplog.records
