"""Rewrites committed: batches, other writers meanwhile, failures."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import BayouError, CommitConflictError, DataFileError, StorageError
from bayou.kernel import Operation, Table
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.rewrite import rewrite
from bayou.kernel.commands.optimize.rewrite_execution import (
    RewriteLimits,
    RewriteResult,
    commit_rewrites,
    run_plan,
)
from support.faults import Fault, FaultInjectingEngine

ROWS = [[{"id": i, "p": i % 3}] for i in range(9)]


def data_files(path: str) -> set[str]:
    return {f.name for f in Path(path).rglob("part-*.parquet")}


def ids(path: str) -> list[int]:
    return sorted(bayou.table(path).to_arrow()["id"].to_pylist())


def results(engine, plan) -> list[RewriteResult]:
    return [RewriteResult(item=i, added=tuple(rewrite(engine, i))) for i in plan.items]


def test_each_batch_is_a_commit(engine, path, snapshot, written):
    written(*ROWS, partition_by=["p"])
    plan = plan_optimize(engine, snapshot(), "test/1")
    metrics = run_plan(engine, plan, "test/1", RewriteLimits(batch_bytes=1, parallelism=1))
    assert (metrics.num_batches, metrics.num_bins, metrics.version) == (3, 3, 11)
    assert (metrics.num_files_added, metrics.num_files_removed) == (3, 9)
    assert ids(path) == list(range(9))
    assert plan_optimize(engine, snapshot(), "test/1").items == ()


def test_nothing_to_do_is_no_commit(engine, path, snapshot, written):
    written(ROWS[0])
    metrics = run_plan(engine, plan_optimize(engine, snapshot(), "test/1"), "test/1")
    assert metrics.version is None
    assert metrics.files_added.min is None
    assert snapshot().version == 0


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_appends_meanwhile_do_not_matter(engine, path, snapshot, written, level):
    written(*ROWS, configuration={"delta.isolationLevel": level, "delta.enableRowTracking": "true"})
    plan = plan_optimize(engine, snapshot(), "test/1")
    written([{"id": 100, "p": 0}])
    bayou.write(path, pa.table({"id": [101], "p": [0]}))
    assert run_plan(engine, plan, "test/1").version == 11
    assert ids(path) == [*range(9), 100, 101]
    found = bayou.table(path).to_arrow(columns=["id", "_metadata.row_id"]).to_pylist()
    assert sorted(row["_metadata.row_id"] for row in found) == list(range(11))


def test_a_property_that_was_set_meanwhile_does_not_matter(engine, path, snapshot, written):
    written(*ROWS)
    plan = plan_optimize(engine, snapshot(), "test/1")
    builder = snapshot().build_update_table_transaction("x", Operation.SET_TABLE_PROPERTIES)
    builder.with_table_properties({"mine": "1"}).build(engine).commit(engine, [])
    assert run_plan(engine, plan, "test/1").version == 10
    assert ids(path) == list(range(9))


def test_a_column_that_was_added_meanwhile_stops_it(engine, path, snapshot, written):
    written(*ROWS)
    plan = plan_optimize(engine, snapshot(), "test/1")
    before = data_files(path)
    bayou.write(path, pa.table({"id": [9], "p": [0], "new": ["x"]}), merge_schema=True)
    with pytest.raises(CommitConflictError):
        run_plan(engine, plan, "test/1")
    assert len(data_files(path)) == len(before) + 1
    assert ids(path) == list(range(10))


def test_a_file_that_was_removed_meanwhile_stops_it(engine, path, snapshot, written):
    written(*ROWS)
    plan = plan_optimize(engine, snapshot(), "test/1")
    bayou.write(path, pa.table({"id": [9], "p": [0]}), mode="overwrite")
    before = data_files(path)
    with pytest.raises(CommitConflictError):
        run_plan(engine, plan, "test/1")
    assert data_files(path) == before
    assert ids(path) == [9]


def test_a_file_whose_rows_were_deleted_meanwhile_stops_it(
    engine, path, snapshot, written, mark_deleted
):
    written(*ROWS, configuration={"delta.enableDeletionVectors": "true"})
    plan = plan_optimize(engine, snapshot(), "test/1")
    done = results(engine, plan)
    (first, *_) = plan.items[0].files
    mark_deleted(lambda p: [0] if p == first.path else [])
    with pytest.raises(CommitConflictError):
        commit_rewrites(engine, plan, done, "test/1")
    assert len(ids(path)) == 8


def test_two_of_them_at_once_leave_one_winner(engine, path, snapshot, written):
    written(*ROWS)
    plans = [plan_optimize(engine, snapshot(), "test/1") for _ in range(2)]
    run_plan(engine, plans[0], "test/1")
    with pytest.raises(CommitConflictError):
        run_plan(engine, plans[1], "test/1")
    assert ids(path) == list(range(9))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_failure_leaves_no_files_and_what_was_committed(
    engine, path, snapshot, written, parallelism
):
    written(*ROWS, partition_by=["p"])
    plan = plan_zorder(engine, snapshot(), "test/1", ["id"])
    before = data_files(path)
    broken = plan.items[-1].files[0].status.path
    Path(broken).unlink()
    with pytest.raises(DataFileError, match="missing"):
        run_plan(engine, plan, "test/1", RewriteLimits(parallelism=parallelism))
    assert data_files(path) == before - {Path(broken).name}
    with pytest.raises(DataFileError):
        run_plan(engine, plan, "test/1", RewriteLimits(parallelism=parallelism, batch_bytes=1))
    assert snapshot().version == 10
    assert len(data_files(path)) == len(before) - 1 + 2


@pytest.mark.parametrize("operation", ["write_parquet_files", "write_json_file_atomically"])
@pytest.mark.parametrize("after", [False, True])
def test_a_store_that_fails_loses_no_row(engine, path, snapshot, written, operation, after):
    written(*ROWS)
    faulty = FaultInjectingEngine(engine, Fault(operation=operation, after=after))
    plan = plan_optimize(engine, snapshot(), "test/1")
    try:
        run_plan(faulty, plan, "test/1")
    except (StorageError, BayouError):
        assert snapshot().version == 8
    assert ids(path) == list(range(9))


def test_all_rows_of_a_bin_deleted_leave_no_file(engine, path, snapshot, written, mark_deleted):
    written(*ROWS[:2], configuration={"delta.enableDeletionVectors": "true"})
    mark_deleted(lambda _: [0])
    metrics = run_plan(engine, plan_optimize(engine, snapshot(), "test/1"), "test/1")
    assert (metrics.num_files_added, metrics.num_deletion_vectors_removed) == (0, 2)
    assert ids(path) == []
    history = Table.for_path(engine, path).history(engine, 1)
    assert history[0]["operationMetrics"]["maxFileSize"] == "0"
