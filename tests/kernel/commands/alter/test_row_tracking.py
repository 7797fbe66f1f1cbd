"""Row tracking given to a table that has files, beside other writers."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.engines.memory import MemoryEngine
from bayou.errors import MetadataChangedError, ProtocolChangedError, TablePropertyError
from bayou.kernel import Operation, Table, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.alter import row_tracking
from bayou.kernel.commands.alter.properties import set_properties

ENABLE = {"delta.enableRowTracking": "true"}


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture
def table(engine: MemoryEngine, table_path: str) -> Table:
    for rows in ([1, 2, 3], [4, 5]):
        append(engine, Table.for_path(engine, table_path), rows)
    return Table.for_path(engine, table_path)


def append(engine, table, rows) -> None:
    data = pa.table({"n": rows})
    builder = table.create_transaction_builder(engine, "test/1", Operation.WRITE)
    transaction = builder.with_schema(from_arrow_schema(data.schema)).build(engine)
    transaction.commit(
        engine, write_data(engine, transaction.transaction_state(engine), data.to_batches())
    )


def row_ids(engine, table) -> dict[int, int]:
    found = bayou.table(table.path, engine=engine).to_arrow(["n", "_metadata.row_id"])
    return dict(zip(*(found.column(i).to_pylist() for i in range(2)), strict=True))


def test_all_rows_have_ids_once_it_is_on(engine, table):
    metrics = set_properties(engine, table.latest_snapshot(engine), ENABLE, engine_info="test/1")
    assert (metrics.version, metrics.num_commits) == (4, 3)
    append(engine, table, [6])
    ids = row_ids(engine, table)
    assert sorted(ids) == [1, 2, 3, 4, 5, 6]
    assert sorted(ids.values()) == [0, 1, 2, 3, 4, 5]
    operations = [entry["operation"] for entry in table.history(engine)]
    assert operations[1:4] == ["SET TBLPROPERTIES", "ROW TRACKING BACKFILL", "UPGRADE PROTOCOL"]


def test_a_table_of_many_files_takes_several_commits(engine, table, monkeypatch):
    monkeypatch.setattr(row_tracking, "_FILES_PER_COMMIT", 1)
    metrics = set_properties(engine, table.latest_snapshot(engine), ENABLE, engine_info="test/1")
    assert metrics.num_commits == 4
    history = table.history(engine)
    assert [entry["operationParameters"] for entry in history[1:3]] == [
        {"batchId": "1"},
        {"batchId": "0"},
    ]
    assert len(set(row_ids(engine, table).values())) == 5


def test_files_that_are_removed_meanwhile_do_not_come_back(engine, table):
    before = table.latest_snapshot(engine)
    state, _ = row_tracking.enable_row_tracking(engine, before, engine_info="test/1")
    stale = table.snapshot_as_of_version(engine, before.version + 1)
    transaction = table.create_transaction_builder(engine, "test/1", Operation.DELETE).build(engine)
    transaction.commit(engine, list(transaction.generate_remove_actions(engine)))
    again, commits = row_tracking.enable_row_tracking(engine, stale, engine_info="test/1")
    assert commits == 0
    assert again.version > state.version
    assert bayou.table(table.path, engine=engine).to_arrow().num_rows == 0


def test_files_that_go_between_listing_and_commit_are_listed_again(engine, table, monkeypatch):
    listed = row_tracking._changed_files
    removed: list[int] = []

    def changed_files(engine, state, change):
        yield from listed(engine, state, change)
        if removed or state.version == before.version:
            return
        builder = table.create_transaction_builder(engine, "test/1", Operation.DELETE)
        transaction = builder.build(engine)
        removes = list(transaction.generate_remove_actions(engine))
        removed.append(transaction.commit(engine, removes[:1]).version)

    before = table.latest_snapshot(engine)
    files = bayou.table(table.path, engine=engine).to_arrow().num_rows
    monkeypatch.setattr(row_tracking, "_changed_files", changed_files)
    state, _ = row_tracking.enable_row_tracking(engine, before, engine_info="test/1")
    assert removed
    assert state.version > removed[0]
    assert bayou.table(table.path, engine=engine).to_arrow().num_rows < files
    scan = table.latest_snapshot(engine).scan_builder().with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as found:
        assert all(file.add.base_row_id is not None for file in found)


def test_an_append_that_knew_nothing_of_it_is_refused(engine, table):
    data = pa.table({"n": [9]})
    builder = table.create_transaction_builder(engine, "test/1", Operation.WRITE)
    transaction = builder.with_schema(from_arrow_schema(data.schema)).build(engine)
    adds = write_data(engine, transaction.transaction_state(engine), data.to_batches())
    row_tracking.enable_row_tracking(engine, table.latest_snapshot(engine), engine_info="test/1")
    with pytest.raises(ProtocolChangedError, match="rowTracking"):
        transaction.commit(engine, adds)


def test_two_who_turn_it_on_meet(engine, table):
    stale = table.latest_snapshot(engine)
    set_properties(engine, stale, ENABLE, engine_info="test/1")
    with pytest.raises((ProtocolChangedError, MetadataChangedError)):
        set_properties(engine, stale, ENABLE, engine_info="test/1")
    assert len(set(row_ids(engine, table).values())) == 5


def test_a_deletion_vector_survives_the_backfill(engine, table):
    handle = bayou.table(table.path, engine=engine)
    handle.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    handle.delete("n = 2")
    handle.alter.set_table_properties(ENABLE)
    assert sorted(row_ids(engine, table)) == [1, 3, 4, 5]


SUSPENDED = {"delta.rowTrackingSuspended": "true"}


@pytest.mark.parametrize("name", ["create", "write", "set", "suspend", "enable", "clone"])
def test_row_tracking_is_not_both_enabled_and_suspended(path, tmp_path, name):
    before = SUSPENDED if name in ("enable", "clone") else ENABLE if name == "suspend" else {}
    if name not in ("create", "write"):
        bayou.write(path, pa.table({"id": [1]}), configuration=before)
    changes = {
        "create": lambda: bayou.create(path, {"id": "long"}, configuration=ENABLE | SUSPENDED),
        "write": lambda: bayou.write(path, pa.table({"id": [1]}), configuration=ENABLE | SUSPENDED),
        "set": lambda: bayou.table(path).alter.set_table_properties(ENABLE | SUSPENDED),
        "suspend": lambda: bayou.table(path).alter.set_table_properties(SUSPENDED),
        "enable": lambda: bayou.table(path).alter.set_table_properties(ENABLE),
        "clone": lambda: bayou.table(path).clone(
            str(tmp_path / "clone"), shallow=False, configuration=ENABLE
        ),
    }
    with pytest.raises(TablePropertyError, match="both enabled .* and suspended"):
        changes[name]()
    if name not in ("create", "write"):
        assert bayou.table(path).version() == 0
