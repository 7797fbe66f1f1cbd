"""Versions brought back: files, schema, properties, and what goes on counting."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, CommitConflictError, DataFileError, VersionNotFoundError
from bayou.kernel import Engine, Operation, Snapshot, Table
from bayou.kernel.commands import restore as restore_module
from bayou.kernel.commands.restore import restore
from bayou.kernel.commands.vacuum import vacuum as vacuum_module


def ids(path: str) -> list[int]:
    return sorted(bayou.table(path).to_arrow()["id"].to_pylist())


def rows(*numbers: int) -> list[dict]:
    return [{"id": n} for n in numbers]


def test_the_files_of_a_version_come_back(engine, path, snapshot, written):
    written(rows(1), rows(2))
    bayou.write(path, pa.table({"id": [3]}), mode="overwrite")
    metrics = bayou.table(path).restore(1)
    assert ids(path) == [1, 2]
    assert (metrics.num_restored_files, metrics.num_removed_files) == (2, 1)
    assert (metrics.version, metrics.num_of_files_after_restore) == (3, 2)
    assert metrics.table_size_after_restore == metrics.restored_files_size
    (entry,) = bayou.table(path).history(1)
    assert entry["operation"] == "RESTORE"
    assert entry["operationParameters"] == {"version": 1, "timestamp": None}
    bayou.table(path).restore(2)
    assert ids(path) == [3]


def test_deletion_vectors_come_back(engine, path, snapshot, written, mark_deleted):
    written(rows(1, 2, 3), configuration={"delta.enableDeletionVectors": "true"})
    mark_deleted(lambda _: [0])
    mark_deleted(lambda _: [0, 1])
    assert ids(path) == [3]
    bayou.table(path).restore(1)
    assert ids(path) == [2, 3]
    bayou.table(path).restore(0)
    assert ids(path) == [1, 2, 3]
    bayou.table(path).restore(2)
    assert ids(path) == [3]


def test_schema_and_properties_come_back_and_features_stay(engine, path, snapshot, written):
    written(rows(1))
    bayou.write(path, pa.table({"id": [2], "new": ["x"]}), merge_schema=True)
    builder = snapshot().build_update_table_transaction("x", Operation.SET_TABLE_PROPERTIES)
    wanted = {"delta.enableDeletionVectors": "true", "mine": "1"}
    builder.with_table_properties(wanted).build(engine).commit(engine, [])
    bayou.table(path).restore(0)
    state = snapshot()
    assert list(state.schema.names) == ["id"]
    assert "mine" not in state.properties
    assert "deletionVectors" in (state.protocol.reader_features or ())
    assert ids(path) == [1]


def test_row_ids_stay_and_none_is_given_out_twice(engine, path, snapshot, written):
    written(rows(1), rows(2), configuration={"delta.enableRowTracking": "true"})
    columns = ["id", "_metadata.row_id"]
    before = bayou.table(path).to_arrow(columns=columns).to_pylist()
    bayou.write(path, pa.table({"id": [3]}), mode="overwrite")
    bayou.table(path).restore(1)
    after = bayou.table(path).to_arrow(columns=columns).to_pylist()
    assert sorted(map(str, after)) == sorted(map(str, before))
    bayou.write(path, pa.table({"id": [4]}))
    found = bayou.table(path).to_arrow(columns=columns).to_pylist()
    assert {r["id"]: r["_metadata.row_id"] for r in found}[4] == 3


def test_no_row_id_is_given_out_twice_though_the_feature_was_dropped_since(path, written):
    written(rows(1), rows(2), configuration={"delta.enableRowTracking": "true"})
    table = bayou.table(path)
    table.alter.set_table_properties({"delta.enableRowTracking": "false"})
    table.alter.drop_feature("rowTracking")
    table.restore(1)
    bayou.write(path, pa.table({"id": [3]}))
    found = table.to_arrow(columns=["id", "_metadata.row_id"]).to_pylist()
    assert {r["id"]: r["_metadata.row_id"] for r in found} == {1: 0, 2: 1, 3: 2}


def test_files_that_stay_get_the_row_ids_of_the_version(path, written):
    written(rows(1), rows(2), rows(3), configuration={"delta.enableRowTracking": "true"})
    table = bayou.table(path)
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = sorted(map(str, table.to_arrow(columns=columns).to_pylist()))
    table.alter.set_table_properties({"delta.enableRowTracking": "false"})
    table.alter.drop_feature("rowTracking")
    table.delete("id = 1")
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    table.restore(2)
    assert sorted(map(str, table.to_arrow(columns=columns).to_pylist())) == before


def test_times_name_versions_though_in_commit_timestamps_were_off_in_between(path, written):
    written(rows(1), rows(2), configuration={"delta.enableInCommitTimestamps": "true"})
    table = bayou.table(path)
    table.alter.set_table_properties({"delta.enableInCommitTimestamps": "false"})
    table.alter.set_table_properties({"delta.enableInCommitTimestamps": "true"})
    before = table.snapshot()
    table.restore(1)
    key = "delta.inCommitTimestampEnablementVersion"
    assert table.snapshot().properties[key] == before.properties[key] == "3"
    times = {v: table.snapshot(version=v).timestamp for v in (2, 3, 4)}
    when = {v: dt.datetime.fromtimestamp(ms / 1000, dt.UTC) for v, ms in times.items()}
    assert {v: table.snapshot(timestamp=time).version for v, time in when.items()} == {
        2: 2,
        3: 3,
        4: 4,
    }


def test_files_that_are_gone_are_named(engine, path, snapshot, written):
    written(rows(1), rows(2))
    gone = bayou.table(path).snapshot().files()["path"].to_pylist()
    bayou.write(path, pa.table({"id": [3]}), mode="overwrite")
    Path(path, gone[0]).unlink()
    with pytest.raises(DataFileError, match="1 of its files are missing") as caught:
        bayou.table(path).restore(1)
    assert caught.value.file.endswith(gone[0])
    assert ids(path) == [3]
    bayou.table(path).restore(1, ignore_missing_files=True)
    assert snapshot().version == 3


def test_only_an_earlier_version_can_be_restored(path, written):
    written(rows(1), rows(2))
    table = bayou.table(path)
    for target in (1, None, True, -1):
        with pytest.raises(ArgumentError):
            table.restore(target)
    with pytest.raises(VersionNotFoundError):
        table.restore(7)


def test_a_time_names_the_last_version_before_it(path, written):
    written(rows(1))
    timestamp = bayou.table(path).snapshot().timestamp
    moment = dt.datetime.fromtimestamp(timestamp / 1000, dt.UTC)
    written(rows(2), rows(3))
    bayou.table(path).restore(moment)
    assert ids(path) == [1]
    (entry,) = bayou.table(path).history(1)
    assert entry["operationParameters"] == {"version": None, "timestamp": str(moment)}


def test_what_was_committed_meanwhile_stops_it(engine, path, snapshot, written):
    written(rows(1), rows(2))
    latest = snapshot()
    wanted = Table.for_path(engine, path).snapshot_as_of_version(engine, 0)
    written(rows(3))
    with pytest.raises(CommitConflictError):
        restore(engine, latest, wanted, "test/1")
    assert ids(path) == [1, 2, 3]


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable", "SnapshotIsolation"])
@pytest.mark.parametrize("changes_files", [False, True])
def test_an_append_meanwhile_stops_it_at_every_isolation_level(
    engine, path, snapshot, written, level, changes_files
):
    """Even if the versions have the same files: the append would be in the restored version."""
    written(rows(1), configuration={"delta.isolationLevel": level})
    if changes_files:
        written(rows(2))
    else:
        bayou.table(path).alter.set_table_properties({"a.key": "a value"})
        bayou.table(path).alter.unset_table_properties("a.key")
    latest = snapshot()
    wanted = Table.for_path(engine, path).snapshot_as_of_version(engine, 0)
    before = ids(path)
    bayou.write(path, pa.table({"id": [3]}))
    with pytest.raises(CommitConflictError):
        restore(engine, latest, wanted, "test/1")
    assert ids(path) == [*before, 3]


@pytest.fixture
def old_files(path, written) -> None:
    """Version 1 has two files, which a vacuum deletes, because version 2 removed them."""
    written(rows(1), rows(2))
    bayou.table(path).delete("true")


def vacuum_now(path: str) -> None:
    bayou.table(path).vacuum(0, dry_run=False, enforce_retention_duration=False)


def restore_to_1(engine: Engine, path: str, latest: Snapshot) -> None:
    wanted = Table.for_path(engine, path).snapshot_as_of_version(engine, 1)
    restore(engine, latest, wanted, "test/1")


def test_a_vacuum_after_the_files_were_looked_for_stops_it(
    engine, path, snapshot, old_files, monkeypatch
):
    look = restore_module._check_files

    def look_and_vacuum(*arguments: Any) -> None:
        look(*arguments)
        vacuum_now(path)

    monkeypatch.setattr(restore_module, "_check_files", look_and_vacuum)
    with pytest.raises(CommitConflictError, match="VACUUM START"):
        restore_to_1(engine, path, snapshot())
    assert ids(path) == []


def test_a_vacuum_deletes_nothing_that_was_restored_since_its_plan(path, old_files, monkeypatch):
    plan = vacuum_module.plan_full

    def plan_and_restore(*arguments: Any, **options: Any) -> Any:
        planned = plan(*arguments, **options)
        bayou.table(path).restore(1)
        return planned

    monkeypatch.setattr(vacuum_module, "plan_full", plan_and_restore)
    with pytest.raises(CommitConflictError, match="RESTORE"):
        vacuum_now(path)
    assert ids(path) == [1, 2]


@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_restored_while_a_vacuum_deletes_files(path, old_files, monkeypatch, killed):
    delete = vacuum_module._delete

    def restore_and_delete(*arguments: Any) -> int:
        with pytest.raises(CommitConflictError, match="hasn't ended"):
            bayou.table(path).restore(1)
        if killed:
            raise KeyboardInterrupt
        return delete(*arguments)

    monkeypatch.setattr(vacuum_module, "_delete", restore_and_delete)
    if not killed:
        vacuum_now(path)
        with pytest.raises(DataFileError):
            bayou.table(path).restore(1)
        return
    with pytest.raises(KeyboardInterrupt):
        vacuum_now(path)
    monkeypatch.undo()
    with pytest.raises(CommitConflictError, match="hasn't ended"):
        bayou.table(path).restore(1)
    bayou.table(path).vacuum(
        10_000, dry_run=False
    )  # the end of another vacuum says nothing of the killed one
    with pytest.raises(CommitConflictError, match="ignore_missing_files"):
        bayou.table(path).restore(1)
    bayou.table(path).restore(1, ignore_missing_files=True)
    assert ids(path) == [1, 2]


@pytest.mark.parametrize("first_started_before", [False, True])
def test_each_of_several_vacuums_must_have_ended(
    engine, path, snapshot, written, first_started_before
):
    written(rows(1))
    history = vacuum_module._History(engine, snapshot(), "test/1", enabled=True)
    if first_started_before:
        history.commit(Operation.VACUUM_START, {}, {})
    written(rows(2))
    version = snapshot().version
    bayou.table(path).delete("true")
    if not first_started_before:
        history.commit(Operation.VACUUM_START, {}, {})
        with pytest.raises(CommitConflictError, match="hasn't ended"):
            bayou.table(path).restore(version)
    for operation in ("START", "END"):
        history.commit(Operation(f"VACUUM {operation}"), {}, {})
    with pytest.raises(CommitConflictError, match="hasn't ended"):
        bayou.table(path).restore(version)
    history.commit(Operation.VACUUM_END, {}, {})
    bayou.table(path).restore(version)
    assert ids(path) == [1, 2]


def test_a_vacuum_that_started_before_a_version_deletes_none_of_its_files(
    engine, path, snapshot, written
):
    written(rows(1))
    history = vacuum_module._History(engine, snapshot(), "test/1", enabled=True)
    history.commit(Operation.VACUUM_START, {}, {})
    written(rows(2))
    version = snapshot().version
    bayou.table(path).delete("true")
    bayou.table(path).restore(version)
    assert ids(path) == [1, 2]
