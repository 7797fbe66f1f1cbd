"""Tables of Unity Catalog: managed and external, races, killed writers, faults, credentials.

The server is the double in `tests/support`. Set BAYOU_UNITY_SERVER to the URL of a real server
without authentication to run the tests without faults against it.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.errors import (
    ArgumentError,
    CatalogError,
    CommitFailedError,
    ConcurrentAppendError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from bayou.kernel import Operation, Table
from bayou.unity import UnityCatalog, register_table
from bayou.unity import tables as unity_tables
from bayou.unity.client import UnityClient
from bayou.unity.settings import UnitySettings
from support.unity_server import TOKEN, ids, rows

PROCESSES, APPENDS = 4, 5


def published(name: str) -> list[int]:
    log = Path(bayou.table(name).table_uri, "_delta_log")
    return sorted(int(f.name[:20]) for f in log.glob("*.json") if len(f.name) == 25)


# ------------------------------------------------------------------------------- managed tables


def test_a_managed_table_is_created_and_written_by_its_name(managed, server):
    assert bayou.write(managed, rows(10, 1)) == 1
    table = bayou.table(managed)
    table.delete("id = 1")
    table.alter.add_columns({"w": "string"})
    table.alter.set_table_properties({"delta.checkpointInterval": "3"})
    table.alter.cluster_by("id")
    assert ids(managed) == [0, 2, 10]
    assert [c["version"] for c in table.history()] == [5, 4, 3, 2, 1, 0]
    assert published(managed) == [0, 1, 2, 3, 4, 5]
    features = table.snapshot().protocol.writer_features
    assert {"catalogManaged", "inCommitTimestamp", "v2Checkpoint"} <= set(features)
    entry = server.entry()
    assert (entry.latest_table_version, entry.commits) == (5, [])
    assert [f["name"] for f in entry.metadata.columns["fields"]] == ["id", "v", "w"]
    properties = entry.metadata.properties
    assert properties["delta.checkpointInterval"] == "3"
    assert properties["delta.feature.clustering"] == "supported"
    assert '[["id"]]' in properties.values()
    assert properties["io.unitycatalog.tableId"] == entry.metadata.table_uuid
    table.alter.unset_table_properties("delta.checkpointInterval")
    assert "delta.checkpointInterval" not in server.entry().metadata.properties


def test_an_empty_table_is_created_by_its_name(server, tmp_path):
    managed, external = server.name("numbers"), server.name("empty")
    table = bayou.create(managed, {"id": "bigint", "v": "bigint"}, description="numbers")
    assert (table.version(), table.count()) == (0, 0)
    assert table.metadata().description == "numbers"
    assert "catalogManaged" in (table.protocol().writer_features or [])
    bayou.write(managed, rows(0, 3))
    assert ids(managed) == [0, 1, 2]
    location = str(tmp_path / "empty")
    bayou.create(external, {"id": "bigint"}, location=location)
    assert bayou.table(external).table_uri.endswith("empty")
    assert bayou.exists(location)
    with pytest.raises(TableAlreadyExistsError):
        bayou.create(external, {"id": "bigint"})


def test_many_commits_are_published_and_checkpointed(managed, server):
    bayou.table(managed).alter.set_table_properties({"delta.checkpointInterval": "5"})
    for i in range(14):
        bayou.write(managed, rows(100 + i, 1))
    assert published(managed) == list(range(16))
    log = Path(bayou.table(managed).table_uri, "_delta_log")
    assert len([f for f in log.iterdir() if ".checkpoint" in f.name]) == 3
    assert server.entry().latest_table_version == 15
    assert len(ids(managed)) == 17


def test_the_modes_and_properties_of_a_new_table(server):
    name = server.name()
    with pytest.raises(TableNotFoundError, match="no such table"):
        bayou.table(name)
    with pytest.raises(ArgumentError, match=r"requires delta.checkpointPolicy = v2"):
        bayou.write(name, rows(0, 1), configuration={"delta.checkpointPolicy": "classic"})
    bayou.write(name, rows(0, 1), configuration={"delta.appendOnly": "true"}, partition_by=["v"])
    assert server.entry().metadata.properties["delta.appendOnly"] == "true"
    assert server.entry().metadata.partition_columns == ["v"]
    assert bayou.write(name, rows(1, 1), mode="ignore") == 0
    with pytest.raises(TableAlreadyExistsError):
        bayou.write(name, rows(1, 1), mode="error")
    with pytest.raises(TableNotFoundError, match="Schema not found"):
        bayou.write(f"uc://{server.schema.split('.')[0]}.none.t", rows(0, 1))
    with pytest.raises(ArgumentError, match="a managed table with this name"):
        bayou.write(name, rows(0, 1), location="/tmp/elsewhere")


def test_the_arguments_are_checked(server, tmp_path):
    for wrong in ("uc://t", "uc://a.b", "uc://a.b.c.d", "uc://a..c", "uc://a.b.c/d"):
        with pytest.raises(ArgumentError, match=r"Write uc://catalog\.schema\.table"):
            bayou.table(wrong)
    with pytest.raises(ArgumentError, match="can't be used with a table of Unity Catalog"):
        bayou.write(server.name(), rows(0, 1), catalog=object())
    with pytest.raises(ArgumentError, match="pass the table's path as path"):
        bayou.write(str(tmp_path / "t"), rows(0, 1), location=str(tmp_path))


def test_a_conflict_is_one_of_the_catalogs_commits(managed):
    from bayou.unity.tables import open_table

    found = open_table(managed, {})
    snapshot = found.table.latest_snapshot(found.engine)
    builder = snapshot.build_update_table_transaction("test/1", Operation.WRITE)
    transaction = builder.build(found.engine)
    removes = list(transaction.generate_remove_actions(found.engine))
    bayou.table(managed).update({"v": "1"}, predicate="id = 1")
    with pytest.raises(ConcurrentAppendError, match="version 1"):
        transaction.commit(found.engine, removes)


def append_many(name: str, options: dict[str, str], writer: int) -> list[int]:
    return [
        bayou.write(name, rows(1000 * (writer + 1) + i, 1), storage_options=options)
        for i in range(APPENDS)
    ]


@pytest.mark.process
def test_writers_in_several_processes_race_for_versions(managed, server):
    with ProcessPoolExecutor(PROCESSES, mp.get_context("spawn")) as pool:
        futures = [pool.submit(append_many, managed, server.options, w) for w in range(PROCESSES)]
        versions = sorted(v for f in futures for v in f.result())
    assert versions == list(range(1, 1 + PROCESSES * APPENDS))
    assert len(set(ids(managed))) == 3 + PROCESSES * APPENDS
    bayou.write(managed, rows(9, 1))
    assert published(managed) == list(range(versions[-1] + 2))
    times = [commit["timestamp"] for commit in bayou.table(managed).history()]
    assert times == sorted(set(times), reverse=True)


def killed_at(moment: str, name: str, options: dict[str, str]) -> None:
    """Append in a process that dies once its commit is staged, ratified or published."""
    send = UnityClient.update_table

    def update(self: UnityClient, *arguments: Any) -> Any:
        is_commit = "add-commit" in str(arguments)
        if is_commit and moment == "staged":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = send(self, *arguments)
        if is_commit and moment == "ratified":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    UnityClient.update_table = update
    UnityCatalog.published = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    bayou.write(name, rows(1000, 2), storage_options=options)


@pytest.mark.process
@pytest.mark.parametrize("moment", ["staged", "ratified", "published"])
def test_a_killed_writer_leaves_the_old_or_the_new_version(moment, managed, server):
    process = mp.get_context("spawn").Process(
        target=killed_at, args=(moment, managed, server.options)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    new = [] if moment == "staged" else [1000, 1001]
    assert ids(managed) == [0, 1, 2, *new]
    version = bayou.write(managed, rows(2000, 1))
    assert version == 1 + bool(new)
    assert ids(managed) == [0, 1, 2, *new, 2000]
    assert published(managed) == list(range(version + 1))
    assert server.entry().commits == []


def test_a_renamed_a_dropped_and_a_recreated_table(managed, server):
    table = bayou.table(managed)
    server.send("POST", f"{server.table_path()}/rename", {"new-name": "renamed"})
    with pytest.raises(TableNotFoundError, match="may have been renamed or dropped"):
        table.to_arrow()
    assert ids(server.name("renamed")) == [0, 1, 2]
    server.send("POST", f"{server.table_path('renamed')}/rename", {"new-name": "events"})
    assert table.to_arrow().num_rows == 3
    server.send("DELETE", server.table_path())
    with pytest.raises(TableNotFoundError, match="may have been renamed or dropped"):
        table.delete("id = 1")
    bayou.write(managed, rows(50, 1))
    with pytest.raises(TableNotFoundError, match="another table was created with this name"):
        table.delete("id = 1")
    assert ids(managed) == [50]


def test_a_table_that_is_recreated_during_a_commit_gets_no_commit(managed, server, monkeypatch):
    send = UnityClient.update_table

    def update(self: UnityClient, *arguments: Any) -> Any:
        if "add-commit" in str(arguments) and server.entry().metadata.table_uuid == old:
            monkeypatch.undo()
            server.send("DELETE", server.table_path())
            bayou.write(managed, rows(50, 1), storage_options=server.options)
        return send(self, *arguments)

    old = server.entry().metadata.table_uuid
    table = bayou.table(managed)
    monkeypatch.setattr(UnityClient, "update_table", update)
    with pytest.raises(TableNotFoundError, match="another table was created with this name"):
        table.delete("id = 1")
    assert server.entry().latest_table_version == 0


# ------------------------------------------------------------------------------ faults of servers


@pytest.mark.parametrize("processed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [None, "InternalServerErrorException"])
def test_a_commit_without_an_answer_is_repeated_and_made_once(error, processed, managed, double):
    double.fail("add-commit", error, processed=processed, times=2)
    assert bayou.write(managed, rows(10, 1)) == 1
    assert ids(managed) == [0, 1, 2, 10]
    assert double.sent("add-commit") == 3
    assert published(managed) == [0, 1]


def test_a_commit_whose_answers_are_all_lost_is_found_in_the_catalog(managed, double):
    double.fail("add-commit", "CommitStateUnknownException", processed=True, times=5)
    assert bayou.write(managed, rows(10, 1)) == 1
    assert ids(managed) == [0, 1, 2, 10]
    assert double.sent("add-commit") == 5


def test_a_server_that_fails_for_long_ends_the_write(managed, double):
    double.fail("add-commit", "InternalServerErrorException", times=1000)
    with pytest.raises(CommitFailedError, match="The commit isn't in the log") as caught:
        bayou.write(managed, rows(10, 1))
    assert "status 500" in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert ids(managed) == [0, 1, 2]


def test_a_catalog_with_too_many_unpublished_commits_is_relieved(managed, server, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(UnityCatalog, "published", lambda *_: None)
        for i in range(10):
            bayou.write(managed, rows(100 + i, 1))
    assert len(server.entry().commits) == 10
    assert bayou.write(managed, rows(200, 1)) == 11
    assert server.entry().commits == []
    assert published(managed) == list(range(12))
    assert len(ids(managed)) == 14


def test_a_commit_whose_answer_the_client_loses_is_sent_again(managed, server, monkeypatch):
    request, lost = UnityClient._request, []

    def losing(self: UnityClient, method: str, path: str, *arguments: Any) -> bytes:
        answer = request(self, method, path, *arguments)
        if "add-commit" in str(arguments) and len(lost) < 2:
            lost.append(path)
            raise CatalogError("no answer", path=path)
        return answer

    monkeypatch.setattr(UnityClient, "_request", losing)
    assert bayou.write(managed, rows(10, 1)) == 1
    assert len(lost) == 2
    assert ids(managed) == [0, 1, 2, 10]
    assert server.entry().latest_table_version == 1


def test_a_commit_that_is_not_published_is_published_by_the_next_one(managed, double, caplog):
    double.fail("set-latest-backfilled-version", "PermissionDeniedException")
    assert bayou.write(managed, rows(10, 1)) == 1
    assert "the commit of version 1 is valid, but couldn't be published" in caplog.text
    assert TOKEN not in caplog.text
    assert len(double.tables["lake.shop.events"].unpublished) == 1
    assert ids(managed) == [0, 1, 2, 10]
    bayou.write(managed, rows(11, 1))
    assert double.tables["lake.shop.events"].unpublished == []


def test_busy_servers_are_asked_again(managed, double):
    double.fail("tables/events", "TooManyRequestsException", times=3)
    assert ids(managed) == [0, 1, 2]
    double.fail("tables/events", "TooManyRequestsException", times=1000)
    with pytest.raises(CatalogError, match="status 429: TooManyRequestsException") as caught:
        bayou.table(managed)
    assert (caught.value.status, caught.value.code) == (429, "TooManyRequestsException")


@pytest.mark.parametrize("answer", ["lost", "conflict"])
def test_a_creation_without_an_answer_is_resolved(answer, server, double):
    name = server.name()
    if answer == "lost":
        double.fail('"table-type": "MANAGED"', processed=True)
        assert bayou.write(name, rows(0, 3)) == 0
        assert ids(name) == [0, 1, 2]
        return
    double.fail('"table-type": "MANAGED"', "AlreadyExistsException")
    with pytest.raises(TableAlreadyExistsError, match="created the table concurrently"):
        bayou.write(name, rows(0, 3))
    double.fail('"table-type": "MANAGED"', "InternalServerErrorException")
    with pytest.raises(CommitFailedError, match="The table wasn't created"):
        bayou.write(name, rows(0, 3))


def test_refusals_name_the_table_and_what_to_do_but_not_the_token(managed, server, double):
    other = f"wrong-{TOKEN}"
    with pytest.raises(CatalogError, match=r"status 401.*Check UC_TOKEN") as caught:
        bayou.table(managed, {"UC_URI": server.url, "UC_TOKEN": other})
    assert other not in str(caught.value)
    double.denied.add("lake.shop.events")
    with pytest.raises(CatalogError, match=r"uc://lake.shop.events: .*status 403.*privilege"):
        bayou.table(managed)
    double.denied.clear()
    table = bayou.table(managed)
    double.fail("add-commit", "PermissionDeniedException", times=1000)
    with pytest.raises(CommitFailedError, match="status 403.*Nothing was committed"):
        table.delete("id = 1")
    assert double.sent("add-commit") == 1
    assert ids(managed) == [0, 1, 2]


def test_a_server_that_echoes_the_token_does_not_leak_it(managed, double):
    double.fail("tables/events", "InvalidParameterValueException")
    with pytest.raises(CatalogError, match=r"fault at Bearer \*\*\*") as caught:
        bayou.table(managed)
    assert TOKEN not in repr(caught.value)
    assert TOKEN not in repr(UnityClient(UnitySettings.of("http://h", TOKEN)).settings)


def test_an_unreachable_server_and_a_server_of_another_kind(double, monkeypatch):
    with pytest.raises(CatalogError, match="didn't answer") as caught:
        bayou.table("uc://lake.shop.t", {"UC_URI": "http://127.0.0.1:9"})
    assert caught.value.status is None
    with pytest.raises(CatalogError, match="Check UC_URI, and whether"):
        bayou.table("uc://lake.shop.t", {"UC_URI": f"{double.url}/else", "UC_TOKEN": TOKEN})
    monkeypatch.delenv("UC_URI")
    with pytest.raises(ArgumentError, match="UC_URI: the address .* is missing"):
        bayou.table("uc://lake.shop.t")


def test_maintenance_needs_the_catalogs_permission(managed, double):
    bayou.write(managed, rows(10, 1))
    table = bayou.table(managed)
    for operation in (
        table.optimize,
        table.optimize.purge,
        lambda: table.vacuum(dry_run=False),
    ):
        with pytest.raises(UnsupportedFeatureError, match="doesn't permit"):
            operation()
    double.maintenance = ["DATA_REORGANIZATION", "A_LATER_ONE"]
    assert table.optimize().version == 2
    with pytest.raises(UnsupportedFeatureError, match="doesn't permit VACUUM"):
        table.vacuum(dry_run=False)
    double.maintenance = ["DATA_CLEANUP", "METADATA_CLEANUP"]
    table.vacuum(dry_run=False)
    assert ids(managed) == [0, 1, 2, 10]


# ------------------------------------------------------------------------------- external tables


def test_an_external_table_is_created_at_a_location_and_kept_current(server, tmp_path):
    name, location = server.name(), str(tmp_path / "events")
    properties = {"delta.enableChangeDataFeed": "true"}
    assert bayou.write(name, rows(0, 3), location=location, configuration=properties) == 0
    entry = server.entry().metadata
    assert (entry.table_type, entry.location) == ("EXTERNAL", f"file://{location}")
    assert entry.properties["delta.enableChangeDataFeed"] == "true"
    wider = rows(10, 1).append_column("w", pa.array(["x"]))
    assert bayou.write(name, wider, merge_schema=True, location=location) == 1
    assert [f["name"] for f in server.entry().metadata.columns["fields"]] == ["id", "v", "w"]
    assert ids(name) == [0, 1, 2, 10]
    assert ids(location) == [0, 1, 2, 10]
    with pytest.raises(ArgumentError, match="not at"):
        bayou.write(name, rows(20, 1), location=str(tmp_path / "other"))
    bayou.table(name).delete("id = 10")
    assert ids(location) == [0, 1, 2]


def test_existing_tables_are_registered(server, tmp_path):
    path = str(tmp_path / "events")
    bayou.write(path, rows(0, 3), configuration={"a": "1"})
    register_table(server.name(), path)
    assert ids(server.name()) == [0, 1, 2]
    bayou.table(path).alter.set_table_properties({"a": "2"})
    register_table(server.name(), path)
    assert server.entry().metadata.properties["a"] == "2"
    with pytest.raises(TableNotFoundError):
        register_table(server.name(), str(tmp_path / "none"))
    bayou.write(str(tmp_path / "other"), rows(0, 1))
    with pytest.raises(ArgumentError, match="not at"):
        register_table(server.name(), str(tmp_path / "other"))


def test_a_refused_entry_says_that_the_rows_are_written(server, double, tmp_path):
    double.fail('"table-type": "EXTERNAL"', "PermissionDeniedException")
    with pytest.raises(CatalogError, match="committed as version 0 of .*register_table"):
        bayou.write(server.name(), rows(0, 3), location=str(tmp_path / "events"))
    register_table(server.name(), str(tmp_path / "events"))
    assert ids(server.name()) == [0, 1, 2]


def test_every_error_of_the_entry_says_that_the_rows_are_written(server, tmp_path, monkeypatch):
    location = str(tmp_path / "events")
    bayou.write(server.name(), rows(0, 3), location=location)

    def recreated(*_):
        raise ArgumentError(f"{server.name()}: another table. Use it.", argument="location")

    monkeypatch.setattr(unity_tables, "update_entry", recreated)
    with pytest.raises(CatalogError, match="committed as version 1 of .*register_table"):
        bayou.write(server.name(), rows(10, 1), location=location)
    assert ids(location) == [0, 1, 2, 10]


def test_the_entry_of_a_managed_table_without_ratified_commits_is_not_updated(
    server, double, tmp_path
):
    bayou.write(server.name(), rows(0, 3), location=str(tmp_path / "events"))
    entry = next(iter(double.tables.values()))
    loaded = double._loaded
    entry.kind = "MANAGED"
    double._loaded = lambda table: {**loaded(table), "latest-table-version": None}
    sent = len(double.requests)
    assert bayou.write(server.name(), rows(10, 1)) == 1
    assert not [method for method, _, _ in double.requests[sent:] if method == "POST"]
    assert ids(server.name()) == [0, 1, 2, 10]


def test_the_error_of_a_table_that_cannot_be_read_says_that_the_rows_are_written(
    server, tmp_path, monkeypatch
):
    location = tmp_path / "events"
    latest_snapshot = Table.latest_snapshot

    def unreadable(table, engine):
        if (location / "_delta_log" / f"{0:020}.json").exists():
            raise StorageError("the disk doesn't answer. Try again.", path=table.path)
        return latest_snapshot(table, engine)

    monkeypatch.setattr(Table, "latest_snapshot", unreadable)
    with pytest.raises(CatalogError) as raised:
        bayou.write(server.name(), rows(0, 3), location=str(location))
    monkeypatch.undo()
    assert str(raised.value) == (
        f"{server.name()}: the rows are committed, but the catalog's entry isn't current, because "
        "the table can't be read: the disk doesn't answer. Try again. Register the table with "
        "bayou.unity.register_table instead of repeating the write."
    )
    assert ids(str(location)) == [0, 1, 2]
