"""Every call to the store may fail, before its work, after it, or from there on: nothing is lost.

Each operation is run once to see which calls it makes, and then once for each of them and each way
to fail (some of these ways, unless BAYOU_TEST_FAULTS asks for more). Afterwards the table is at its
old or its new version, every file that it names is there, it can be written, and what else lies
about is what VACUUM deletes.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import BayouError, CommitFailedError
from bayou.kernel import Engine, Operation, Table, delete_data_files, write_data
from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part
from bayou.kernel.commands.alter.columns import NewColumn, add_columns
from bayou.kernel.commands.alter.properties import set_properties
from bayou.kernel.commands.clone import clone
from bayou.kernel.commands.convert import convert
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.restore import restore
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.commands.row_changes.update import update
from bayou.kernel.commands.vacuum.referenced_files import referenced_files
from bayou.kernel.commands.vacuum.vacuum import vacuum
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.maintenance.log_compaction import compact_log
from bayou.protocol.schema import LONG, StructField, StructType
from support.examples import examples
from support.faults import Fault, FaultInjectingEngine

INFO = "faults/1"
IN_DAYS = time.time_ns() // 1_000_000 + 3 * 24 * 3_600_000
WRITES = {
    "delete_files",
    "put",
    "put_if_absent",
    "write_json_file_atomically",
    "write_parquet_file_atomically",
}
FOREVER = 1 << 30
FAULTS = int(os.environ.get("BAYOU_TEST_FAULTS", "0")) or examples(12)


def snapshot(engine: Engine, path: str) -> Any:
    return Table.for_path(engine, path).latest_snapshot(engine)


def append(engine: Engine, path: str) -> None:
    builder = snapshot(engine, path).build_update_table_transaction(INFO, Operation.WRITE)
    transaction = builder.build(engine)
    rows = pa.record_batch({"id": [100, 101], "p": [0, 7], "v": [None, 1]})
    adds = write_data(engine, transaction.transaction_state(engine), [rows])
    try:
        result = transaction.commit(engine, adds)
    except CommitFailedError:
        raise
    except BayouError:
        delete_data_files(engine, path, adds)
        raise
    result.run_post_commit_hooks(engine)


def overwrite(engine: Engine, path: str) -> None:
    builder = snapshot(engine, path).build_update_table_transaction(INFO, Operation.WRITE)
    transaction = builder.build(engine)
    transaction.commit(engine, transaction.generate_remove_actions(engine))


def merge_some(engine: Engine, path: str) -> None:
    rows = pa.record_batch({"id": [1, 200], "p": [3, 3], "v": [9, 9]})
    clauses = (
        MergeClause(kind="MATCHED", action="update"),
        MergeClause(kind="NOT MATCHED", action="insert"),
    )
    definition = MergeDefinition(on="target.id = source.id", clauses=clauses)
    source = MergeSource.read(rows.schema, [rows])
    merge(engine, snapshot(engine, path), source, definition, engine_info=INFO)


def optimize(engine: Engine, path: str) -> None:
    run_plan(engine, plan_optimize(engine, snapshot(engine, path), INFO), INFO)


def restore_earlier(engine: Engine, path: str) -> None:
    latest = snapshot(engine, path)
    restore(engine, latest, Table(path).snapshot_as_of_version(engine, 5), INFO)


def checkpoint_in_parts(engine: Engine, path: str) -> None:
    plan = plan_checkpoint(engine, path, max_parts=2)
    plan.finish(engine, [write_checkpoint_part(engine, part) for part in plan.parts])


NEW_COLUMN = [NewColumn(path=("w",), field=StructField(name="w", data_type=LONG))]

OPERATIONS: dict[str, Callable[[Engine, str], Any]] = {
    "append": append,
    "overwrite": overwrite,
    "delete": lambda e, p: delete(e, snapshot(e, p), "id % 3 = 1", engine_info=INFO),
    "update": lambda e, p: update(e, snapshot(e, p), {"v": "7"}, "id < 4", engine_info=INFO),
    "merge": merge_some,
    "optimize": optimize,
    "zorder": lambda e, p: run_plan(e, plan_zorder(e, snapshot(e, p), INFO, ("id", "v")), INFO),
    "purge": lambda e, p: run_plan(e, plan_purge(e, snapshot(e, p), INFO), INFO),
    "restore": restore_earlier,
    "add a column": lambda e, p: add_columns(e, snapshot(e, p), NEW_COLUMN, engine_info=INFO),
    "set a property": lambda e, p: set_properties(
        e, snapshot(e, p), {"delta.dataSkippingNumIndexedCols": "1"}, engine_info=INFO
    ),
    "track rows": lambda e, p: set_properties(
        e, snapshot(e, p), {"delta.enableRowTracking": "true"}, engine_info=INFO
    ),
    "checkpoint": lambda e, p: Table(p).checkpoint(e),
    "checkpoint in parts": checkpoint_in_parts,
    "compaction": lambda e, p: compact_log(e, p, 0, 5),
    "cleanup": lambda e, p: clean_up_log(e, p, retention_ms=0, now=IN_DAYS),
    "vacuum": lambda e, p: vacuum(e, p, 0, enforce_retention_duration=False, engine_info=INFO),
}

TABLES = {
    "plain": {},
    "vectors": {
        "delta.enableDeletionVectors": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.checkpointPolicy": "v2",
    },
}


@pytest.fixture(params=list(TABLES), scope="module")
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of some files in two partitions, a checkpoint, and some commits behind it."""
    path = tmp_path_factory.mktemp("template") / "table"
    properties = {"delta.checkpointInterval": "4", **TABLES[request.param]}
    for i in range(6):
        ids = range(2 * i, 2 * i + 2)
        rows = pa.table({"id": ids, "p": [i % 2] * 2, "v": pa.array([i, None], pa.int64())})
        bayou.write(path, rows, partition_by=["p"], configuration=properties)
    bayou.table(path).delete("id = 11")
    bayou.table(path).delete("id = 4")
    return path


def rows_of(path: str) -> list[dict[str, Any]]:
    return bayou.table(path).to_arrow().sort_by("id").to_pylist()


def ways_to_fail(calls: list[str]) -> list[Fault]:
    """All of them, or as many as BAYOU_TEST_FAULTS says, spread over the calls."""
    faults = every_way_to_fail(calls)
    count = min(FAULTS, len(faults))
    return [faults[i * len(faults) // count] for i in range(count)]


def every_way_to_fail(calls: list[str]) -> list[Fault]:
    faults = []
    for i, operation in enumerate(calls):
        faults.append(Fault(operation="*", passing=i))
        if operation in WRITES:
            faults.append(Fault(operation="*", passing=i, times=FOREVER))
            faults.append(Fault(operation="*", passing=i, after=True))
            faults.append(Fault(operation="*", passing=i, times=FOREVER, after=True))
    return faults


def data_files(path: Path) -> set[str]:
    below = (p.relative_to(path) for p in path.rglob("*") if p.is_file())
    return {str(p) for p in below if p.parts[0] != "_delta_log"}


def unnamed(path: Path) -> list[str]:
    """Files that are neither data files nor deletion vectors of the latest version."""
    there = sorted(data_files(path))
    engine = ArrowEngine()
    named = referenced_files(
        engine, Table(str(path)).latest_snapshot(engine), deleted_before=IN_DAYS
    )
    return [name for name, kept in zip(there, named.contains(there), strict=True) if not kept]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_lost_whichever_call_fails(
    template: Path, operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayou.kernel.transaction.commit._pause", lambda tries: None)
    path = tmp_path / "table"
    run = OPERATIONS[operation]

    shutil.copytree(template, path)
    before = rows_of(str(path))
    engine = FaultInjectingEngine(ArrowEngine())
    run(engine, str(path))
    after = rows_of(str(path))

    more = {"w": None} if operation == "add a column" else {}
    for fault in ways_to_fail(engine.calls):
        told, once = f"{fault}", fault.times == 1
        shutil.rmtree(path)
        shutil.copytree(template, path)
        failed = False
        try:
            run(FaultInjectingEngine(ArrowEngine(), fault), str(path))
        except BayouError:
            failed = True
        rows = rows_of(str(path))
        assert rows == after or (failed and rows == before), told
        bayou.write(path, pa.table({"id": [999], "p": [9], "v": [9]}))
        extra = {**(more if "w" in bayou.table(path).snapshot().schema.names else {})}
        written = [*rows, {"id": 999, "p": 9, "v": 9, **extra}]
        assert rows_of(str(path)) == written, told
        if failed and once:  # what lies about is what VACUUM deletes
            vacuum(ArrowEngine(), str(path), 0, enforce_retention_duration=False, engine_info=INFO)
            assert rows_of(str(path)) == written, told
            assert unnamed(path) == [], told


def files_without_a_log(template: Path, path: Path) -> None:
    """What a conversion starts from: the live files of a table without vectors."""
    shutil.copytree(template, path)
    table = bayou.table(path)
    table.optimize()
    table.optimize.purge()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    shutil.rmtree(path / "_delta_log")


@pytest.mark.parametrize("operation", ["clone", "convert"])
def test_a_table_is_made_whole_or_not_at_all(
    template: Path, operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayou.kernel.transaction.commit._pause", lambda tries: None)
    source, path, files = tmp_path / "source", tmp_path / "table", tmp_path / "files"
    shutil.copytree(template, source)
    files_without_a_log(template, files)
    expected = rows_of(str(source))
    partitions = StructType((StructField(name="p", data_type=LONG),))

    def run(engine: Engine) -> None:
        if operation == "clone":
            clone(engine, snapshot(engine, str(source)), str(path), INFO)
        else:
            convert(engine, str(path), INFO, partition_schema=partitions)

    def made() -> list[dict[str, Any]]:
        return bayou.table(path).to_arrow(["id", "p", "v"]).sort_by("id").to_pylist()

    def again() -> None:
        shutil.rmtree(path, ignore_errors=True)
        if operation == "convert":
            shutil.copytree(files, path)

    again()
    engine = FaultInjectingEngine(ArrowEngine())
    run(engine)
    assert made() == expected
    for fault in ways_to_fail(engine.calls):
        again()
        told, failed = f"{fault}", False
        try:
            run(FaultInjectingEngine(ArrowEngine(), fault))
        except BayouError:
            failed = True
        if not bayou.table(path).exists():
            assert failed, told
            run(ArrowEngine())
        assert made() == expected, told
        bayou.write(path, pa.table({"id": [999], "p": [9], "v": [9]}))
        assert len(made()) == len(expected) + 1, told
    assert rows_of(str(source)) == expected
