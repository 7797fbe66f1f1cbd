"""PROTOCOL.md, V2 Spec: a checkpoint whose files stand in sidecars."""

from __future__ import annotations

import pytest

from bayou.errors import StorageError
from bayou.kernel import Snapshot
from bayou.kernel.checkpoint import write_v2
from bayou.kernel.checkpoint.write import checkpoint
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import LogWriter, add, metadata, protocol, remove, txn

HEAD = (
    protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])),
    metadata({"id": "long"}, (), {"delta.checkpointPolicy": "v2"}),
)


def paths(log: LogWriter, snapshot: Snapshot) -> list[str]:
    batches = snapshot.scan_builder().build().scan_files(log.engine)
    return sorted(f.path for batch in batches for f in batch.rows())


def sidecars(log: LogWriter) -> list[str]:
    return [s.path for s in log.engine.files.list_from(log.path("_sidecars/0"))]


def test_a_table_that_asks_for_it_gets_sidecars(log):
    log.commit(*HEAD, add("a"), add("b"), txn("app", 3))
    log.commit(remove("a", deletionTimestamp=9_999_999_999_999), add("c"))
    assert checkpoint(log.engine, log.table) == 1
    snapshot = Snapshot.load(log.engine, log.table)
    behind = snapshot.log_segment.checkpoint
    assert behind is not None
    assert behind.uuid_named
    assert len(sidecars(log)) == 1
    assert paths(log, snapshot) == ["b", "c"]
    assert snapshot.transactions == {"app": 3}
    log.commit(remove("b"), add("d"))
    checkpoint(log.engine, log.table)
    assert paths(log, Snapshot.load(log.engine, log.table)) == ["c", "d"]


def test_many_files_make_several_sidecars(log, monkeypatch):
    monkeypatch.setattr(write_v2, "_MAX_SIDECAR_ROWS", 1)
    log.commit(*HEAD, add("a"))
    checkpoint(log.engine, log.table)
    log.commit(add("b"))
    checkpoint(log.engine, log.table)
    assert len(sidecars(log)) == 3
    assert paths(log, Snapshot.load(log.engine, log.table)) == ["a", "b"]


def test_a_table_without_files_has_no_sidecar(log):
    log.commit(*HEAD)
    checkpoint(log.engine, log.table)
    assert paths(log, Snapshot.load(log.engine, log.table)) == []


def test_a_writer_that_dies_leaves_the_table_as_it_was(log):
    log.commit(*HEAD, add("a"))
    faulty = FaultInjectingEngine(
        log.engine, Fault(operation="write_parquet_file_atomically", passing=1)
    )
    with pytest.raises(StorageError):
        checkpoint(faulty, log.table)
    snapshot = Snapshot.load(log.engine, log.table)
    assert snapshot.log_segment.checkpoint is None
    assert paths(log, snapshot) == ["a"]
    checkpoint(log.engine, log.table)
    assert paths(log, Snapshot.load(log.engine, log.table)) == ["a"]
