"""A snapshot brought up to date is the one that is read anew."""

from __future__ import annotations

import pytest

from bayou.errors import TableNotFoundError
from bayou.kernel import Snapshot
from support.log_writer import (
    LogWriter,
    add,
    deletion_vector,
    metadata,
    protocol,
    remove,
    txn,
)


@pytest.fixture
def table(log: LogWriter) -> LogWriter:
    log.commit(protocol(), metadata({"id": "long"}))
    log.commit(add("a"), add("b"), txn("app", 1))
    return log


def files(log: LogWriter, snapshot: Snapshot) -> set[str]:
    batches = snapshot.scan_builder().build().scan_files(log.engine)
    return {file.path for batch in batches for file in batch.rows()}


def tombstones(snapshot: Snapshot) -> list[str]:
    return sorted(str(r) for part in snapshot.replay_state.removes for r in part.to_pylist())


def same(log: LogWriter, found: Snapshot) -> bool:
    fresh = Snapshot.load(log.engine, log.table)
    assert found.version == fresh.version
    assert found.log_segment.commits[-1] == fresh.log_segment.commits[-1]
    assert found.transactions == fresh.transactions
    assert found.timestamp == fresh.timestamp
    assert tombstones(found) == tombstones(fresh)
    assert files(log, found) == files(log, fresh)
    return True


def test_a_snapshot_that_is_the_latest_stays_the_same_object(table):
    found = Snapshot.load(table.engine, table.table)
    assert found.refreshed(table.engine) is found


def test_newer_commits_are_put_behind_the_known_ones(table):
    found = Snapshot.load(table.engine, table.table)
    table.commit(remove("a"), add("c"), txn("app", 2))
    table.commit(add("a"), txn("other", 7))
    found = found.refreshed(table.engine)
    assert same(table, found)
    assert files(table, found) == {"a", "b", "c"}
    table.commit(remove("b"))
    assert same(table, found.refreshed(table.engine))


def test_files_of_a_checkpoint_are_touched_by_commits_old_and_new(table):
    table.checkpoint(1, [protocol(), metadata({"id": "long"}), add("a"), add("b"), add("d")])
    table.commit(remove("a"))
    found = Snapshot.load(table.engine, table.table)
    table.commit(remove("b"), add("b", vector=deletion_vector("v1")))
    table.commit(add("e"))
    found = found.refreshed(table.engine)
    assert found.log_segment.checkpoint is not None
    assert same(table, found)
    assert files(table, found) == {"b", "d", "e"}


def test_a_path_spelled_otherwise_is_the_same_file(table):
    table.commit(add("x%20y"))
    found = Snapshot.load(table.engine, table.table)
    table.commit(remove("x y"))
    assert files(table, found.refreshed(table.engine)) == {"a", "b"}


def test_a_newer_checkpoint_shortens_the_tail(table):
    found = Snapshot.load(table.engine, table.table)
    table.commit(add("c"))
    table.checkpoint(2, [protocol(), metadata({"id": "long"}), add("a"), add("b"), add("c")])
    table.commit(add("d"))
    found = found.refreshed(table.engine)
    assert len(found.log_segment.commits) == 1
    assert same(table, found)
    assert found.refreshed(table.engine) is found


def test_changed_metadata_is_seen(table):
    found = Snapshot.load(table.engine, table.table)
    table.commit(metadata({"id": "long", "name": "string"}))
    found = found.refreshed(table.engine)
    assert found.schema.names == ("id", "name")
    assert same(table, found)


def test_a_table_in_the_place_of_another_is_read_anew(table):
    found = Snapshot.load(table.engine, table.table)
    for version in range(2):
        table.delete(f"{version:020d}.json")
    other = LogWriter(table.engine, table.table)
    other.commit(protocol(), metadata({"key": "long"}, table_id="another"))
    other.commit(add("z"), add("zz"))
    other.commit(add("zzz"))
    found = found.refreshed(table.engine)
    assert found.table_id == "another"
    assert files(other, found) == {"z", "zz", "zzz"}


def test_a_table_that_is_gone_is_an_error(table):
    found = Snapshot.load(table.engine, table.table)
    for version in range(2):
        table.delete(f"{version:020d}.json")
    with pytest.raises(TableNotFoundError):
        found.refreshed(table.engine)
