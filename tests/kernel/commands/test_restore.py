"""Versions brought back: files, schema, properties, and what goes on counting."""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, CommitConflictError, DataFileError, VersionNotFoundError
from bayou.kernel import Engine, Operation, Snapshot, Table
from bayou.kernel.commands import restore as restore_module
from bayou.kernel.commands.restore import restore
from bayou.kernel.commands.vacuum import lease as lease_module
from bayou.kernel.commands.vacuum import vacuum as vacuum_module
from support.waiting import wait_until


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


def test_new_rows_get_ids_above_those_of_restored_files_after_a_drop(path, written):
    written(rows(*range(10)), configuration={"delta.enableRowTracking": "true"})
    table = bayou.table(path)
    table.alter.set_table_properties({"delta.enableRowTracking": "false"})
    table.alter.drop_feature("rowTracking")
    bayou.write(path, pa.table({"id": [20, 21, 22]}), mode="overwrite")
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    table.restore(0)
    bayou.write(path, pa.table({"id": [30, 31]}))
    found = table.to_arrow(columns=["_metadata.row_id"])["_metadata.row_id"].to_pylist()
    assert sorted(found) == list(range(12))


def test_files_that_stay_get_the_row_ids_of_the_version(path, written):
    written(rows(1), rows(2), rows(3), configuration={"delta.enableRowTracking": "true"})
    table = bayou.table(path)
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = sorted(map(str, table.to_arrow(columns=columns).to_pylist()))
    table.alter.set_table_properties({"delta.enableRowTracking": "false"})
    table.alter.drop_feature("rowTracking")
    table.delete("id = 1")
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    version = table.restore(2).version
    assert sorted(map(str, table.to_arrow(columns=columns).to_pylist())) == before
    checksum = json.loads(Path(path, "_delta_log", f"{version:020d}.crc").read_text())
    live = table.snapshot().files()
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (3, sum(live["size"].to_pylist()))


@pytest.mark.parametrize("suspended", ["false", "true"])
def test_row_ids_are_unique_after_a_restore_of_a_version_with_disabled_row_tracking(
    path, written, suspended
):
    written(rows(1, 2), rows(3, 4), configuration={"delta.enableRowTracking": "true"})
    table = bayou.table(path)
    disabled = {"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": suspended}
    table.alter.set_table_properties(disabled)
    version = table.snapshot().version
    table.alter.drop_feature("rowTracking")
    table.delete("id < 3")
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    table.restore(version)
    table.alter.set_table_properties({"delta.rowTrackingSuspended": "false"})
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    bayou.write(path, pa.table({"id": [5]}))
    found = table.to_arrow(columns=["_metadata.row_id"])["_metadata.row_id"].to_pylist()
    assert sorted(found) == [0, 1, 2, 3, 4]


def test_row_ids_are_unique_if_rows_of_a_restored_version_with_suspended_row_tracking_were_moved(
    path, written
):
    written(rows(1, 2), rows(3, 4), configuration={"delta.enableRowTracking": "true"})
    table = bayou.table(path)
    table.update({"id": "id + 10"}, predicate="id = 1")
    suspended = {"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"}
    table.alter.set_table_properties(suspended)
    version = table.snapshot().version
    table.alter.drop_feature("rowTracking")
    table.delete("id IN (2, 11)")
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    table.restore(version)
    table.alter.set_table_properties({"delta.rowTrackingSuspended": "false"})
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    found = table.to_arrow(columns=["id", "_metadata.row_id"]).to_pylist()
    assert sorted(r["id"] for r in found) == [2, 3, 4, 11]
    assert len({r["_metadata.row_id"] for r in found}) == 4


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
    look = restore_module.check_files_exist

    def look_and_vacuum(*arguments: Any) -> None:
        look(*arguments)
        vacuum_now(path)

    monkeypatch.setattr(restore_module, "check_files_exist", look_and_vacuum)
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


@pytest.fixture
def quick_leases(monkeypatch) -> None:
    monkeypatch.setattr(lease_module, "_HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(lease_module, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(lease_module, "_WATCH_SECONDS", 0.5)
    monkeypatch.setattr(lease_module, "_GRACE_SECONDS", 0.0)


def lease_files(path: str) -> list[str]:
    return sorted(file.name for file in Path(path, "_delta_log").glob("_vacuum.*"))


def test_nothing_is_restored_while_a_vacuum_deletes_files(
    path, old_files, monkeypatch, quick_leases
):
    delete = vacuum_module._delete

    def restore_and_delete(*arguments: Any) -> int:
        with pytest.raises(CommitConflictError, match="a vacuum is running"):
            bayou.table(path).restore(1)
        assert len(lease_files(path)) == 2
        return delete(*arguments)

    monkeypatch.setattr(vacuum_module, "_delete", restore_and_delete)
    vacuum_now(path)
    assert lease_files(path) == []
    with pytest.raises(DataFileError):
        bayou.table(path).restore(1)


def killed(*_: Any) -> int:
    raise KeyboardInterrupt


def test_a_killed_vacuum_delays_a_restore_until_its_heartbeat_has_stopped(
    path, old_files, monkeypatch, quick_leases
):
    with monkeypatch.context() as patch:
        patch.setattr(vacuum_module, "_delete", killed)
        with pytest.raises(KeyboardInterrupt):
            vacuum_now(path)
    assert len(lease_files(path)) == 2
    bayou.table(path).restore(1, dry_run=True)
    assert len(lease_files(path)) == 2
    bayou.table(path).restore(1)
    assert ids(path) == [1, 2]
    assert lease_files(path) == []


def test_a_vacuum_that_a_restore_ended_deletes_nothing_more(
    path, old_files, monkeypatch, quick_leases
):
    """As if the process, or a task on an executor, had been suspended for longer than a minute."""
    delete = vacuum_module._delete
    monkeypatch.setattr(lease_module, "_HEARTBEAT_SECONDS", 60)

    def restore_and_delete(*arguments: Any) -> int:
        bayou.table(path).restore(1)
        return delete(*arguments)

    monkeypatch.setattr(vacuum_module, "_delete", restore_and_delete)
    with pytest.raises(CommitConflictError, match="a RESTORE ended this vacuum"):
        vacuum_now(path)
    assert ids(path) == [1, 2]
    assert lease_files(path) == []
    assert bayou.table(path).history(1)[0]["operationParameters"] == {"status": "FAILED"}


def test_a_vacuum_that_ends_during_a_restore_does_not_stop_it(
    path, old_files, monkeypatch, quick_leases
):
    """It deleted no file, because the files aren't old enough."""
    delete, is_watched = vacuum_module._delete, threading.Event()
    is_active = lease_module.VacuumLease.is_active
    monkeypatch.setattr(lease_module, "_HEARTBEAT_SECONDS", 60)
    monkeypatch.setattr(lease_module, "_WATCH_SECONDS", 60)

    def wait_and_delete(*arguments: Any) -> int:
        assert is_watched.wait(60)
        return delete(*arguments)

    def watched(*arguments: Any) -> bool:
        is_watched.set()
        return is_active(*arguments)

    monkeypatch.setattr(vacuum_module, "_delete", wait_and_delete)
    with ThreadPoolExecutor(1) as pool:
        vacuum = pool.submit(bayou.table(path).vacuum, 10_000, dry_run=False)
        wait_until(lambda: bayou.table(path).history(1)[0]["operation"] == "VACUUM START")
        monkeypatch.setattr(lease_module.VacuumLease, "is_active", watched)
        bayou.table(path).restore(1)
        vacuum.result()
    assert ids(path) == [1, 2]


def test_a_vacuum_based_on_an_older_version_does_not_delay_a_restore(
    path, written, monkeypatch, quick_leases
):
    written(rows(1))
    with monkeypatch.context() as patch:
        patch.setattr(vacuum_module, "_delete", killed)
        with pytest.raises(KeyboardInterrupt):
            vacuum_now(path)
    written(rows(2))
    bayou.table(path).delete("true")
    monkeypatch.setattr(lease_module.VacuumLease, "is_active", lambda *_: pytest.fail("it waits"))
    bayou.table(path).restore(2)
    assert ids(path) == [1, 2]


def test_the_lease_of_a_vacuum_that_was_killed_long_ago_is_deleted(
    path, old_files, monkeypatch, quick_leases
):
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(vacuum_module, "_delete", killed)
            with pytest.raises(KeyboardInterrupt):
                vacuum_now(path)
    old, recent = (lease_files(path)[0].split(".")[1], lease_files(path)[2].split(".")[1])
    for file in Path(path, "_delta_log").glob(f"_vacuum.{old}.*"):
        os.utime(file, (time.time() - 2 * 86_400,) * 2)
    vacuum_now(path)
    assert {name.split(".")[1] for name in lease_files(path)} == {recent}


class ForeignHistory(vacuum_module._History):
    """The commits of another engine's vacuum, which has no lease."""

    def __init__(self, engine: Engine, snapshot: Snapshot) -> None:
        super().__init__(engine, snapshot, "test/1", "", enabled=True)
        self._tags = {}


@pytest.mark.parametrize("first_started_before", [False, True])
def test_each_of_several_vacuums_must_have_ended(
    engine, path, snapshot, written, first_started_before
):
    written(rows(1))
    history = ForeignHistory(engine, snapshot())
    if first_started_before:
        history.commit(Operation.VACUUM_START, {}, {})
    written(rows(2))
    version = snapshot().version
    bayou.table(path).delete("true")
    if not first_started_before:
        history.commit(Operation.VACUUM_START, {}, {})
        with pytest.raises(CommitConflictError, match="may still be deleting"):
            bayou.table(path).restore(version)
    for operation in ("START", "END"):
        history.commit(Operation(f"VACUUM {operation}"), {}, {})
    with pytest.raises(CommitConflictError, match="may still be deleting"):
        bayou.table(path).restore(version)
    history.commit(Operation.VACUUM_END, {}, {})
    bayou.table(path).restore(version)
    assert ids(path) == [1, 2]


def test_a_vacuum_that_started_before_a_version_deletes_none_of_its_files(
    engine, path, snapshot, written
):
    written(rows(1))
    history = ForeignHistory(engine, snapshot())
    history.commit(Operation.VACUUM_START, {}, {})
    written(rows(2))
    version = snapshot().version
    bayou.table(path).delete("true")
    bayou.table(path).restore(version)
    assert ids(path) == [1, 2]
