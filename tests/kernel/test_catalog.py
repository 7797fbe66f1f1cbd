"""PROTOCOL.md, Catalog-managed tables."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    CorruptTableError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from bayou.kernel import CommitBoundary, DeltaAction, RatifiedCommit, RatifiedCommits, Table
from support.log_writer import LogWriter, WireAction, add, commit_info, metadata, protocol

NAMES = ("catalogManaged", "catalogManaged-preview", "catalogOwned-preview")


def head(name: str = "catalogManaged") -> tuple[WireAction, ...]:
    both = ["inCommitTimestamp", name]
    properties = {"delta.enableInCommitTimestamps": "true"}
    return (
        protocol(3, 7, ([name], both)),
        metadata({"id": "long"}, configuration=properties),
    )


class FileCatalog:
    """A catalog that keeps what it has ratified in a JSON file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.write_text("{}")

    def ratify(self, version: int, staged: str | None, actions: str | None = None) -> None:
        known = json.loads(self._path.read_text())
        known[str(version)] = {"staged": staged, "actions": actions}
        self._path.write_text(json.dumps(known))

    def forget(self, version: int) -> None:
        """Once it is published; the number of versions stays known."""
        known = json.loads(self._path.read_text())
        known[str(version)] = None
        self._path.write_text(json.dumps(known))

    def ratified_commits(self, table: str, end_version: int | None = None) -> RatifiedCommits:
        known = {int(k): v for k, v in json.loads(self._path.read_text()).items()}
        if not known:
            raise TableNotFoundError(f"There is no table {table} in the catalog.", table=table)
        commits = [
            RatifiedCommit(
                version=version,
                path=entry["staged"],
                content=None if entry["actions"] is None else entry["actions"].encode(),
            )
            for version, entry in sorted(known.items())
            if entry is not None and (end_version is None or version <= end_version)
        ]
        return RatifiedCommits(latest_version=max(known), commits=tuple(commits))


@pytest.fixture
def engine():
    return ArrowEngine()


@pytest.fixture
def table_path(tmp_path):
    return str(tmp_path / "table")


@pytest.fixture
def catalog(tmp_path) -> FileCatalog:
    return FileCatalog(tmp_path / "catalog.json")


def text(*actions: WireAction) -> str:
    return "".join(f"{json.dumps(action)}\n" for action in actions)


def stage(log: LogWriter, version: int, *actions: WireAction) -> str:
    name = f"{version:020d}.{uuid.uuid4()}.json"
    log.engine.files.mkdirs(log.path("_staged_commits"))
    log.put(f"_staged_commits/{name}", text(*actions).encode())
    return name


def at(version: int) -> WireAction:
    return commit_info(inCommitTimestamp=1000 * version)


def write(log: LogWriter, catalog: FileCatalog) -> None:
    """The example of PROTOCOL.md, smaller: 0 and 1 published, 1 and 2 staged, 3 inline."""
    log.commit(at(0), *head())
    catalog.ratify(0, None)
    catalog.forget(0)
    log.commit(at(1), add("published"))
    catalog.ratify(1, stage(log, 1, at(1), add("b")))
    catalog.ratify(2, stage(log, 2, at(2), add("c")))
    stage(log, 2, at(2), add("rejected"))
    catalog.ratify(3, None, text(at(3), add("d")))
    stage(log, 4, at(4), add("not ratified yet"))


def paths(table: Table, log: LogWriter, version: int | None = None) -> list[str]:
    snapshot = (
        table.latest_snapshot(log.engine)
        if version is None
        else table.snapshot_as_of_version(log.engine, version)
    )
    batches = snapshot.scan_builder().build().scan_files(log.engine)
    return sorted(f.path for b in batches for f in b.rows())


def test_what_the_catalog_ratified_is_the_table(log, catalog):
    write(log, catalog)
    table = Table.for_path(log.engine, log.table, catalog)
    assert table.exists(log.engine)
    assert table.latest_snapshot(log.engine).version == 3
    assert paths(table, log) == ["b", "c", "d"]
    assert paths(table, log, 2) == ["b", "c"]


def test_versions_above_the_latest_ratified_one_are_ignored(log, catalog):
    write(log, catalog)
    log.commit(at(4), add("too early"), version=4)
    log.checkpoint(4, [*head(), add("too early")])
    table = Table.for_path(log.engine, log.table, catalog)
    assert paths(table, log) == ["b", "c", "d"]
    with pytest.raises(VersionNotFoundError, match="ratified is 3"):
        paths(table, log, 4)


def test_published_commits_and_checkpoints_are_found_by_listing(log, catalog):
    write(log, catalog)
    log.commit(at(2), add("c"), version=2)
    log.checkpoint(2, [*head(), add("b"), add("c")])
    for version in (1, 2):
        catalog.forget(version)
    table = Table.for_path(log.engine, log.table, catalog)
    snapshot = table.latest_snapshot(log.engine)
    assert snapshot.log_segment.checkpoint.version == 2
    assert paths(table, log) == ["b", "c", "d"]


def test_a_checkpoint_that_cannot_be_read_is_survived_in_a_managed_table_too(log, catalog):
    write(log, catalog)
    log.commit(at(2), add("c"), version=2)
    names = log.v2_checkpoint(2, [*head(), add("b"), add("c")], sidecars=1)
    for version in (1, 2):
        catalog.forget(version)
    table = Table.for_path(log.engine, log.table, catalog)
    assert paths(table, log) == ["b", "c", "d"]
    log.delete(names[1])
    assert paths(table, log) == ["c", "d", "published"]  # by the commits in the log


def test_time_travel_and_history_know_commits_that_are_not_published(log, catalog):
    write(log, catalog)
    table = Table.for_path(log.engine, log.table, catalog)
    assert table.latest_snapshot(log.engine).timestamp == 3000
    assert table.snapshot_as_of_timestamp(log.engine, 2500).version == 2
    assert [e["version"] for e in table.history(log.engine)] == [3, 2, 1, 0]


def test_a_table_with_no_published_commit_is_read(log, catalog):
    catalog.ratify(0, stage(log, 0, at(0), *head(), add("a")))
    assert paths(Table.for_path(log.engine, log.table, catalog), log) == ["a"]


@pytest.mark.parametrize("name", NAMES)
def test_without_its_catalog_the_table_is_refused_by_name(log, name):
    log.commit(at(0), *head(name), add("a"))
    with pytest.raises(UnsupportedFeatureError, match="a catalog manages the table") as caught:
        paths(Table.for_path(log.engine, log.table), log)
    assert caught.value.features == ("catalogManaged",)


@pytest.mark.parametrize("name", NAMES)
def test_preview_names_mean_the_same(log, catalog, name):
    log.commit(at(0), *head(name), add("a"))
    catalog.ratify(0, None)
    assert paths(Table.for_path(log.engine, log.table, catalog), log) == ["a"]


def test_a_table_that_the_catalog_does_not_know_is_not_there(log, catalog):
    log.commit(at(0), *head(), add("a"))
    table = Table.for_path(log.engine, log.table, catalog)
    assert not table.exists(log.engine)
    with pytest.raises(TableNotFoundError, match="in the catalog"):
        paths(table, log)


def test_ranges_of_commits_are_those_that_the_catalog_ratified(log, catalog):
    write(log, catalog)
    table = Table.for_path(log.engine, log.table, catalog)
    commits = table.commit_range_builder(CommitBoundary.at_timestamp(1)).build(log.engine)
    assert (commits.start_version, commits.end_version) == (1, 3)
    found = [
        (c.version, c.timestamp, [a["path"] for b in c.actions() for a in b["add"].to_pylist()])
        for c in commits.commit_actions(log.engine, {DeltaAction.ADD})
    ]
    assert found == [(1, 1000, ["b"]), (2, 2000, ["c"]), (3, 3000, ["d"])]


def test_changes_are_those_that_the_catalog_ratified(log, catalog):
    feed = {"delta.enableChangeDataFeed": "true", "delta.enableInCommitTimestamps": "true"}
    log.commit(at(0), head()[0], metadata({"id": "long"}, configuration=feed))
    catalog.ratify(0, None)
    catalog.forget(0)
    catalog.ratify(1, stage(log, 1, at(1), add("b")))
    catalog.ratify(2, None, text(at(2), add("c")))
    table = Table.for_path(log.engine, log.table, catalog)
    changes = table.changes(log.engine, CommitBoundary.at_version(1))
    files = changes.scan_builder().build().change_files(log.engine)
    assert [(f.version, f.timestamp, f.file.path) for f in files] == [
        (1, 1000, "b"),
        (2, 2000, "c"),
    ]


def test_a_commit_staged_as_another_version_is_refused(log, catalog):
    write(log, catalog)
    catalog.ratify(4, stage(log, 3, at(3), add("e")))
    table = Table.for_path(log.engine, log.table, catalog)
    with pytest.raises(CorruptTableError, match="as version 4, but its file name has version 3"):
        table.latest_snapshot(log.engine)
