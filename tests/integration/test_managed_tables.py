"""Tables that a catalog manages: every operation, killed and failing writers, races."""

from __future__ import annotations

import multiprocessing as mp
import os
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    BayouError,
    ConcurrentAppendError,
    FeatureInUseError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel import Operation, Table
from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part
from bayou.testing import FileCatalog
from support.faults import Fault, FaultInjectingEngine

PROCESSES = 8
APPENDS = 6
OLD = 60 * 86_400

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "delete": lambda t: t.delete("id % 3 = 1"),
    "update": lambda t: t.update({"v": "v + 1"}, predicate="id > 4"),
    "merge": lambda t: (
        t.merge(rows(3, 5), "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    ),
    "optimize": lambda t: t.optimize(),
    "zorder": lambda t: t.optimize.z_order(["id"]),
    "purge": lambda t: t.optimize.purge(),
    "restore": lambda t: t.restore(2),
    "vacuum": lambda t: t.vacuum(0, dry_run=False, enforce_retention_duration=False),
    "lite vacuum": lambda t: t.vacuum(
        0, full=False, dry_run=False, enforce_retention_duration=False
    ),
    "checkpoint": lambda t: t.create_checkpoint(),
    "add columns": lambda t: t.alter.add_columns({"w": "string"}),
    "rename": lambda t: t.alter.rename_column("v", "x"),
    "set not null": lambda t: t.alter.set_column_not_null("id"),
    "constraint": lambda t: t.alter.add_constraint({"positive": "id >= 0"}),
    "properties": lambda t: t.alter.set_table_properties({"delta.enableChangeDataFeed": "true"}),
    "row tracking": lambda t: t.alter.set_table_properties({"delta.enableRowTracking": "true"}),
    "drop vectors": lambda t: t.alter.drop_feature("deletionVectors"),
    "cluster": lambda t: t.alter.cluster_by("id"),
}
ROWS_STAY = OPERATIONS.keys() - {"delete", "update", "merge", "restore", "rename", "add columns"}


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(ids, pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> FileCatalog:
    return FileCatalog(tmp_path / "catalog")


@pytest.fixture
def path(tmp_path: Path, catalog: FileCatalog) -> str:
    """A managed table of five versions, the last one a delete by a deletion vector."""
    path = str(tmp_path / "table")
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.columnMapping.mode": "name",
        "delta.checkpointInterval": "3",
    }
    for i in range(4):
        bayou.write(
            path, rows(3 * i, 3), configuration=properties if i == 0 else None, catalog=catalog
        )
    bayou.table(path, catalog=catalog).delete("id = 7")
    return path


def content(path: str, catalog: FileCatalog) -> list[dict[str, Any]]:
    return bayou.table(path, catalog=catalog).to_arrow().sort_by("id").to_pylist()


def published(path: str) -> list[int]:
    log = Path(path, "_delta_log")
    return sorted(int(f.name[:20]) for f in log.glob("*.json") if len(f.name) == 25)


def test_the_short_api_makes_and_writes_managed_tables(path, catalog):
    table = bayou.table(path, catalog=catalog)
    assert "catalogManaged" in table.snapshot().protocol.reader_features
    assert len(content(path, catalog)) == 11
    assert published(path) == [0, 1, 2, 3, 4]
    assert bayou.write(path, rows(50, 1), mode="overwrite", catalog=catalog) == 5
    assert content(path, catalog) == [{"id": 50, "v": 50}]
    assert len(table.history()) == 6
    with pytest.raises(UnsupportedFeatureError, match="a catalog manages the table"):
        bayou.write(path, rows(60, 1))


def test_checkpoints_and_checksums_come_by_themselves(path, catalog):
    log = Path(path, "_delta_log")
    assert [f.name[:20] for f in log.glob("*.checkpoint.parquet")] == [f"{3:020}"]
    assert sorted(int(f.name[:20]) for f in log.glob("*.crc")) == [0, 1, 2, 3, 4]
    snapshot = bayou.table(path, catalog=catalog).snapshot().kernel
    assert snapshot.log_segment.checkpoint.version == 3


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_goes_through_the_catalog(name, path, catalog, tmp_path):
    table = bayou.table(path, catalog=catalog)
    before, version = content(path, catalog), table.snapshot().version
    OPERATIONS[name](table)
    latest = table.snapshot().version
    assert latest > version or name == "checkpoint"
    assert catalog.ratified_commits(path).latest_version == latest
    assert published(path) == list(range(latest + 1))
    assert (content(path, catalog) == before) == (name in ROWS_STAY)
    staged = Path(path, "_delta_log", "_staged_commits")
    assert {int(f.name[:20]) for f in staged.iterdir()} == set(range(latest + 1))


def test_clones_of_a_managed_table_are_their_own(path, catalog, tmp_path):
    clone = str(tmp_path / "clone")
    bayou.table(path, catalog=catalog).clone(clone)
    assert bayou.table(clone).to_arrow().sort_by("id").to_pylist() == content(path, catalog)
    assert bayou.write(clone, rows(99, 1)) == 1


def test_an_optimize_goes_behind_a_change_of_metadata(path, catalog):
    table = bayou.table(path, catalog=catalog)

    class Interrupted(FileCatalog):
        """Another writer sets a property right before the rewrite is ratified."""

        def commit(self, engine, name, version, lines):
            if b'"OPTIMIZE"' in lines[0] and version == 5:
                table.alter.set_table_properties({"delta.checkpointInterval": "100"})
            return super().commit(engine, name, version, lines)

    mine = bayou.table(path, catalog=Interrupted(catalog._folder))
    assert mine.optimize().version == 6
    assert len(content(path, catalog)) == 11


def test_maintenance_is_the_catalogs_unless_it_permits_it(path, catalog):
    keeping = FileCatalog(catalog._folder, maintenance=False)
    table = bayou.table(path, catalog=keeping)
    before = sorted(Path(path).rglob("*"))
    for name in ("optimize", "zorder", "purge", "vacuum"):
        with pytest.raises(UnsupportedFeatureError, match="doesn't permit (OPTIMIZE|REORG|VACUUM)"):
            OPERATIONS[name](table)
    assert table.vacuum(0, dry_run=True, enforce_retention_duration=False).dry_run
    for file in Path(path, "_delta_log").iterdir():
        os.utime(file, (time.time() - OLD, time.time() - OLD))
    with pytest.raises(UnsupportedFeatureError, match="permit log cleanup"):
        Table.for_path(ArrowEngine(), path, keeping).clean_up_log(ArrowEngine())
    assert sorted(Path(path).rglob("*")) == before
    table.delete("id = 1")
    assert table.create_checkpoint() == 5
    assert Table.for_path(ArrowEngine(), path, keeping).compact_log(ArrowEngine(), 1, 4)


def test_a_log_is_cleaned_up_with_its_staged_commits(tmp_path, catalog):
    path = str(tmp_path / "table")
    for i in range(4):
        bayou.write(path, rows(i, 1), catalog=catalog)
    table = Table.for_path(ArrowEngine(), path, catalog)
    # In-commit timestamps tell how old the versions are, which none is here.
    table.checkpoint(ArrowEngine())
    assert table.clean_up_log(ArrowEngine()).deleted == ()
    assert len(content(path, catalog)) == 4


def test_the_parts_of_a_checkpoint_are_planned_through_the_catalog(path, catalog):
    engine = ArrowEngine()
    plan = plan_checkpoint(engine, path, max_parts=3, catalog=catalog)
    assert plan.finish(engine, [write_checkpoint_part(engine, part) for part in plan.parts]) == 4
    assert len(content(path, catalog)) == 11


def test_what_makes_a_table_managed_stays(path, catalog, tmp_path):
    alter = bayou.table(path, catalog=catalog).alter
    with pytest.raises(UnsupportedFeatureError, match="can't be dropped"):
        alter.drop_feature("catalogManaged")
    with pytest.raises(FeatureInUseError, match="catalogManaged, which requires this feature"):
        alter.drop_feature("inCommitTimestamp")
    with pytest.raises(TablePropertyError, match="the table is catalog-managed"):
        alter.set_table_properties({"delta.enableInCommitTimestamps": "false"})
    with pytest.raises(TablePropertyError, match="the table is catalog-managed"):
        alter.unset_table_properties("delta.enableInCommitTimestamps")
    other = str(tmp_path / "other")
    bayou.write(other, rows(0, 1))
    with pytest.raises(UnsupportedFeatureError):
        bayou.table(other).alter.add_feature("catalogManaged")
    assert bayou.write(path, rows(100, 1), catalog=catalog) == 5


# --------------------------------------------------------------------- writers that were killed


def killed_at(moment: str, path: str, folder: str) -> None:
    """A process that appends, and dies once its commit is staged, ratified or published."""

    class Killed(FileCatalog):
        def ratify(self, table, commit):
            if moment == "staged":
                os.kill(os.getpid(), signal.SIGKILL)
            done = super().ratify(table, commit)
            if moment == "ratified":
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        def published(self, table, version):
            os.kill(os.getpid(), signal.SIGKILL)

    bayou.write(path, rows(1000, 2), catalog=Killed(folder))


@pytest.mark.parametrize("moment", ["staged", "ratified", "published"])
def test_a_writer_killed_on_its_way_is_old_or_new(moment, path, catalog):
    before = content(path, catalog)
    process = mp.get_context("fork").Process(
        target=killed_at, args=(moment, path, str(catalog._folder))
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    new = [] if moment == "staged" else rows(1000, 2).to_pylist()
    assert content(path, catalog) == before + new
    # Whoever comes next publishes it, and what nobody ratified stays aside.
    bayou.write(path, rows(2000, 1), catalog=catalog)
    latest = 5 + (moment != "staged")
    assert published(path) == list(range(latest + 1))
    assert catalog.ratified_commits(path).commits == ()
    assert content(path, catalog) == before + new + rows(2000, 1).to_pylist()
    table = bayou.table(path, catalog=catalog)
    table.create_checkpoint()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert content(path, catalog) == before + new + rows(2000, 1).to_pylist()
    named = {str(Path(path, p)) for p in table.snapshot().files().column("path").to_pylist()}
    assert {str(p) for p in Path(path).glob("*.parquet")} == named


# ----------------------------------------------------------------------------- faults and races


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_nothing_is_lost_whichever_write_fails(after, path, catalog, tmp_path, monkeypatch):
    monkeypatch.setattr("bayou.kernel.transaction.commit._pause", lambda tries: None)
    template, folder = tmp_path / "template", catalog._folder
    shutil.copytree(path, template)
    shutil.copytree(folder, tmp_path / "ratified")
    before = content(path, catalog)

    def again() -> None:
        shutil.rmtree(path)
        shutil.rmtree(folder)
        shutil.copytree(template, path)
        shutil.copytree(tmp_path / "ratified", folder)

    for name in ("delete", "merge", "optimize"):
        again()
        engine = FaultInjectingEngine(ArrowEngine())
        OPERATIONS[name](bayou.table(path, engine=engine, catalog=catalog))
        done = content(path, catalog)
        writes = [i for i, call in enumerate(engine.calls) if call.startswith(("put", "write_j"))]
        for call in writes:
            again()
            fault = Fault(operation="*", passing=call, after=after)
            failing = bayou.table(
                path, engine=FaultInjectingEngine(ArrowEngine(), fault), catalog=catalog
            )
            failed = False
            try:
                OPERATIONS[name](failing)
            except BayouError:
                failed = True
            found = content(path, catalog)
            assert found == done or (failed and found == before), (name, fault)
            bayou.write(path, rows(500, 1), catalog=catalog)
            latest = catalog.ratified_commits(path).latest_version
            assert published(path) == list(range(latest + 1)), (name, fault)
            assert content(path, catalog) == found + rows(500, 1).to_pylist(), (name, fault)


def append_many(path: str, folder: str, writer: int) -> list[int]:
    catalog = FileCatalog(folder)
    return [
        bayou.write(path, rows(1000 * (writer + 1) + i, 1), catalog=catalog) for i in range(APPENDS)
    ]


def test_eight_processes_race_for_ratification_and_publish_each_others_commits(path, catalog):
    with ProcessPoolExecutor(PROCESSES, mp.get_context("spawn")) as pool:
        futures = [
            pool.submit(append_many, path, str(catalog._folder), w) for w in range(PROCESSES)
        ]
        versions = sorted(v for f in futures for v in f.result())
    assert versions == list(range(5, 5 + PROCESSES * APPENDS))
    ids = [row["id"] for row in content(path, catalog)]
    assert len(ids) == len(set(ids)) == 11 + PROCESSES * APPENDS
    assert published(path) == list(range(versions[-1] + 1))
    table = bayou.table(path, catalog=catalog)
    times = [commit["timestamp"] for commit in table.history()]
    assert times == sorted(set(times), reverse=True)
    checkpoints = {int(f.name[:20]) for f in Path(path, "_delta_log").glob("*.checkpoint.parquet")}
    assert checkpoints == set(range(3, versions[-1] + 1, 3))


def test_conflicts_are_those_of_the_catalogs_commits(path, catalog):
    engine = ArrowEngine()
    table = Table.for_path(engine, path, catalog)
    snapshot = table.latest_snapshot(engine)
    builder = snapshot.build_update_table_transaction("test/1", Operation.WRITE)
    transaction = builder.build(engine)
    removes = list(transaction.generate_remove_actions(engine))
    bayou.table(path, catalog=catalog).update({"v": "1"}, predicate="id = 3")
    with pytest.raises(ConcurrentAppendError, match="version 5"):
        transaction.commit(engine, removes)
