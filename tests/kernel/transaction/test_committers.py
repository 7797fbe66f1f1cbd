"""Commits to tables that a catalog manages: proposed, ratified, published."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.api.rows.read import PlannedRead
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    ArgumentError,
    CommitConflictError,
    CorruptTableError,
    StorageError,
    UnsupportedFeatureError,
)
from bayou.kernel import Engine, Operation, Table
from bayou.kernel.catalog import CommittingCatalog
from bayou.kernel.checkpoint.write import checkpoint
from bayou.kernel.log.segment import commit_files
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.testing import FileCatalog
from support.faults import Fault, FaultInjectingEngine
from support.transactions import ROWS, append, begin

MANAGED = {"delta.feature.catalogManaged": "supported"}


@pytest.fixture
def engine() -> Engine:
    return ArrowEngine()


@pytest.fixture
def catalog(tmp_path: Path) -> FileCatalog:
    return FileCatalog(tmp_path / "catalog")


@pytest.fixture
def table(engine: Engine, catalog: FileCatalog, tmp_path: Path) -> Table:
    """A managed table with one version."""
    table = Table.for_path(engine, str(tmp_path / "table"), catalog)
    append(engine, begin(engine, table, MANAGED))
    return table


def rows(engine: Engine, table: Table) -> int:
    snapshot = table.latest_snapshot(engine)
    return PlannedRead.plan(engine, snapshot, None, None, None).to_arrow().num_rows


class Unpublished(FileCatalog):
    """A catalog whose commits are published by somebody else, later."""

    def ratified_commits(self, table, end_version=None):
        found = super().ratified_commits(table, end_version)
        return found if end_version is None else type(found)(latest_version=found.latest_version)

    def published(self, table: str, version: int) -> None:
        """Nothing was."""


def log_files(table: Table) -> list[str]:
    return sorted(p.name for p in Path(table.path, "_delta_log").glob("*.json"))


def test_a_table_is_made_and_appended_to_through_its_catalog(engine, catalog, table):
    assert isinstance(catalog, CommittingCatalog)
    assert append(engine, begin(engine, table)) == 1
    assert rows(engine, table) == 6
    snapshot = table.latest_snapshot(engine)
    assert snapshot.properties == {"delta.enableInCommitTimestamps": "true"}
    assert {"catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"} <= set(
        snapshot.protocol.writer_features
    )
    assert catalog.ratified_commits(table.path).commits == ()
    assert log_files(table) == [f"{v:020}.json" for v in range(2)]


@pytest.mark.parametrize("name", ["catalogManaged-preview", "catalogOwned-preview"])
def test_tables_with_an_early_name_of_the_feature_are_written(engine, catalog, tmp_path, name):
    table = Table.for_path(engine, str(tmp_path / "early"), catalog)
    append(engine, begin(engine, table, {f"delta.feature.{name}": "supported"}))
    assert append(engine, begin(engine, table)) == 1
    assert rows(engine, table) == 6
    snapshot = table.latest_snapshot(engine)
    assert snapshot.properties == {"delta.enableInCommitTimestamps": "true"}
    assert {name, "inCommitTimestamp", "vacuumProtocolCheck"} <= set(
        snapshot.protocol.writer_features
    )
    assert "catalogManaged" not in snapshot.protocol.writer_features
    without_catalog = Table.for_path(engine, table.path)
    with pytest.raises(UnsupportedFeatureError, match="a catalog manages the table"):
        begin(engine, without_catalog)


def test_what_is_ratified_counts_before_it_is_published(engine, tmp_path):
    catalog = Unpublished(tmp_path / "catalog")
    table = Table.for_path(engine, str(tmp_path / "table"), catalog)
    append(engine, begin(engine, table, MANAGED))
    append(engine, begin(engine, table))
    assert log_files(table) == []
    assert rows(engine, table) == 6
    published = Table.for_path(engine, table.path, FileCatalog(tmp_path / "catalog"))
    assert append(engine, begin(engine, published)) == 2
    assert len(log_files(table)) == 3
    assert rows(engine, published) == 9


def test_a_commit_that_lost_in_the_catalog_goes_behind(engine, table):
    first, second = begin(engine, table), begin(engine, table)
    assert append(engine, first) == 1
    assert append(engine, second) == 2
    assert rows(engine, table) == 9


def test_a_commit_that_conflicts_with_one_in_the_catalog_is_refused(engine, table):
    overwrite = table.create_transaction_builder(engine, "test/1", Operation.WRITE).build(engine)
    removes = list(overwrite.generate_remove_actions(engine))
    append(engine, begin(engine, table))
    with pytest.raises(CommitConflictError):
        overwrite.commit(engine, removes)
    assert rows(engine, table) == 6


def test_an_outcome_that_is_unknown_is_looked_up_in_the_catalog(engine, catalog, tmp_path):
    class Forgetful(FileCatalog):
        def commit(self, engine, table, version, lines):
            super().commit(engine, table, version, lines)
            raise StorageError("the connection broke", path=table)

    table = Table.for_path(engine, str(tmp_path / "table"), Forgetful(tmp_path / "catalog"))
    assert append(engine, begin(engine, table, MANAGED)) == 0
    assert append(engine, begin(engine, table)) == 1
    assert rows(engine, table) == 6


def test_a_failed_publication_is_made_good_by_the_next_commit(catalog, table):
    engine = FaultInjectingEngine(ArrowEngine())
    transaction = begin(engine, table)
    name = f"_delta_log/{1:020}.json"
    engine.inject(Fault(operation="write_json_file_atomically", path=name, times=1))
    assert append(engine, transaction) == 1
    assert [c.version for c in catalog.ratified_commits(table.path).commits] == [1]
    assert append(ArrowEngine(), begin(ArrowEngine(), table)) == 2
    assert catalog.ratified_commits(table.path).commits == ()
    assert len(log_files(table)) == 3


class FailingAfterwards(FileCatalog):
    """A catalog that ratifies, and then fails in its own way."""

    def published(self, table: str, version: int) -> None:
        raise RuntimeError("the catalog's connection was closed")

    def permits_maintenance(self, table: str, operation: str) -> bool:
        raise RuntimeError("the catalog's connection was closed")


def test_a_catalog_that_fails_once_it_has_ratified_does_not_look_like_a_failed_commit(
    engine, tmp_path
):
    table = Table.for_path(engine, str(tmp_path / "table"), FailingAfterwards(tmp_path / "catalog"))
    append(engine, begin(engine, table, {**MANAGED, "delta.checkpointInterval": "1"}))
    assert append(engine, begin(engine, table)) == 1
    assert rows(engine, table) == 2 * ROWS.num_rows


def test_without_its_catalog_a_table_is_not_written(engine, catalog, table):
    class ReadOnly:
        def __init__(self, catalog):
            self.ratified_commits = catalog.ratified_commits

    reader = Table.for_path(
        engine, table.path, ReadOnly(FileCatalog(Path(table.path).parent / "catalog"))
    )
    with pytest.raises(UnsupportedFeatureError, match="commit"):
        begin(engine, reader)
    with pytest.raises(UnsupportedFeatureError, match="catalog"):
        begin(engine, Table.for_path(engine, table.path))
    other = Table.for_path(engine, f"{table.path}2")
    with pytest.raises(UnsupportedFeatureError, match="Open the table with this catalog"):
        begin(engine, other, MANAGED)
    append(engine, begin(engine, other))
    with pytest.raises(UnsupportedFeatureError):
        begin(engine, other, MANAGED)


def test_a_published_version_gets_its_checkpoint(engine, table):
    append(engine, begin(engine, table))
    assert table.checkpoint(engine) == 1
    assert rows(engine, table) == 6
    assert Path(table.path, "_delta_log", f"{1:020}.checkpoint.parquet").exists()


def test_a_version_that_is_only_ratified_gets_no_checkpoint(engine, tmp_path):
    table = Table.for_path(engine, str(tmp_path / "table"), Unpublished(tmp_path / "catalog"))
    append(engine, begin(engine, table, MANAGED))
    append(engine, begin(engine, table))
    with pytest.raises(ArgumentError, match="ratified but not published"):
        checkpoint(engine, table.path, None, table.catalog)
    assert table.checkpoint(engine) == 1  # publishes first
    assert rows(engine, table) == 6


def test_a_log_with_another_commit_of_a_version_does_not_take_the_ratified_ones_place(
    engine, catalog, table
):
    append(engine, begin(engine, table))
    log = Path(table.path, "_delta_log")
    (log / f"{2:020}.json").write_bytes((log / f"{1:020}.json").read_bytes())
    assert append(engine, begin(engine, table)) == 2
    assert rows(engine, table) == 9
    assert [c.version for c in catalog.ratified_commits(table.path).commits] == [2]
    with pytest.raises(CorruptTableError, match="isn't the commit that the catalog ratified"):
        table.publish_commits(engine)
    (log / f"{2:020}.json").unlink()
    assert table.publish_commits(engine) == 2
    assert rows(engine, table) == 9


def test_staged_commits_that_the_catalog_still_names_survive_a_cleanup_of_the_log(engine, tmp_path):
    class Forgetful(FileCatalog):
        def published(self, table: str, version: int) -> None:
            """It wasn't told."""

    table = Table.for_path(engine, str(tmp_path / "table"), Forgetful(tmp_path / "catalog"))
    append(engine, begin(engine, table, MANAGED))
    append(engine, begin(engine, table))
    append(engine, begin(engine, table))
    table.checkpoint(engine, 2)
    far = 1 << 42
    cleanup = clean_up_log(engine, table.path, retention_ms=0, now=far, catalog=table.catalog)
    assert cleanup.earliest_version == 2
    assert rows(engine, table) == 9
    with commit_files(engine, table.path, catalog=table.catalog) as files:
        assert [version for version, _ in files] == [0, 1, 2]


@pytest.mark.parametrize("missing", [{3}, {2, 3}, {2}])
def test_the_catalog_keeps_commits_that_it_did_not_list_when_others_were_published(
    engine, tmp_path, missing
):
    """A replica of the catalog's database lags behind, or an entry is missing in its answer."""

    class Lagging(Unpublished):
        lags = False

        def ratified_commits(self, table, end_version=None):
            found = FileCatalog.ratified_commits(self, table, end_version)
            if not self.lags:
                return Unpublished.ratified_commits(self, table, end_version)
            listed = [c for c in found.commits if c.version not in missing]
            return type(found)(latest_version=found.latest_version, commits=tuple(listed))

        def published(self, table: str, version: int) -> None:
            FileCatalog.published(self, table, version)

    catalog = Lagging(tmp_path / "catalog")
    table = Table.for_path(engine, str(tmp_path / "table"), catalog)
    append(engine, begin(engine, table, MANAGED))
    for _ in range(3):
        append(engine, begin(engine, table))
    catalog.lags = True
    assert table.publish_commits(engine) == min(missing) - 1
    catalog.lags = False
    assert rows(engine, table) == 4 * ROWS.num_rows
    assert table.publish_commits(engine) == 3
    assert rows(engine, table) == 4 * ROWS.num_rows
