"""DELETE: which files are read, marked, rewritten and removed, and what the history says."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import (
    CommitConflictError,
    CommitFailedError,
    ConcurrentAppendError,
    ConstraintViolationError,
    DataFileError,
    EvaluationError,
    PredicateError,
)
from bayou.kernel import Table, col
from bayou.kernel.commands.row_changes.delete import delete
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import add, metadata, protocol

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
ROWS = pa.table({"id": range(10), "p": ["a", "b"] * 5, "x": [i / 4 for i in range(10)]})


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def unreadable() -> FaultInjectingEngine:
    """An engine that reads no data file."""
    return FaultInjectingEngine(
        ArrowEngine(), Fault(operation="read_parquet_files", path="part-", times=1000)
    )


def ids(path: str) -> list[int]:
    return sorted(bayou.table(path).to_arrow()["id"].to_pylist())


def last(path: str) -> dict:
    return bayou.table(path).history(1)[0]


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED, VECTORS | FEED], ids=str)
def test_partition_values_alone_decide_without_reading(path, properties):
    bayou.write(path, ROWS, partition_by=["p"], configuration=properties)
    metrics = bayou.table(path, engine=unreadable()).delete("p = 'a'")
    assert (metrics.num_deleted_rows, metrics.num_removed_files) == (5, 1)
    assert metrics.num_added_change_files == 0
    assert ids(path) == [1, 3, 5, 7, 9]


def test_statistics_that_cannot_be_wrong_decide_without_reading(path):
    bayou.write(path, ROWS, configuration=VECTORS)
    assert (
        bayou.table(path, engine=unreadable()).delete("id >= 0 AND id < 10").num_deleted_rows == 10
    )
    assert ids(path) == []


@pytest.mark.parametrize("where", ["x >= 0", "id > 0", "id <> 100 AND p < 'c'"])
def test_other_statistics_do_not(path, where):
    bayou.write(path, ROWS, configuration=VECTORS)
    with pytest.raises(DataFileError):
        bayou.table(path, engine=unreadable()).delete(where)


def test_rows_of_files_with_vectors_count_once_where_whole_files_go(path):
    bayou.write(path, ROWS, configuration=VECTORS)
    bayou.table(path).delete("id IN (1, 2)")
    metrics = bayou.table(path, engine=unreadable()).delete()
    assert (metrics.num_deleted_rows, metrics.num_deletion_vectors_removed) == (8, 1)


def test_without_statistics_the_number_of_rows_is_not_known(engine, table_path, log):
    log.commit(protocol(), metadata({"id": "long", "p": "string"}, ["p"]))
    log.commit(add("one", partition_values={"p": "a"}, size=1))
    metrics = bayou.table(table_path, engine=engine).delete("p = 'a'")
    assert (metrics.num_removed_files, metrics.num_deleted_rows) == (1, None)
    found = bayou.table(table_path, engine=engine).history(1)[0]["operationMetrics"]
    assert not {"numDeletedRows", "numCopiedRows", "numAddedFiles"} & set(found)


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=str)
def test_no_row_no_commit(path, properties):
    bayou.write(path, ROWS, configuration=properties)
    for where in ("id > 100", "id % 100 = 50", "p = 'zz'", "id = NULL"):
        metrics = bayou.table(path).delete(where)
        assert (metrics.version, metrics.num_deleted_rows) == (0, 0)


def test_the_history_has_the_metrics_of_delta_spark(path):
    bayou.write(path, ROWS, configuration=VECTORS)
    bayou.table(path).delete("id % 2 = 1", commit_metadata="odd ones")
    found = last(path)
    assert found["operation"] == "DELETE"
    assert found["operationParameters"] == {"predicate": '["id % 2 = 1"]'}
    assert (found["userMetadata"], found["isBlindAppend"]) == ("odd ones", False)
    metrics = found["operationMetrics"]
    times = {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"}
    assert {k: v for k, v in metrics.items() if k not in times} == {
        "numRemovedFiles": "0",
        "numRemovedBytes": "0",
        "numCopiedRows": "0",
        "numDeletionVectorsAdded": "1",
        "numDeletionVectorsUpdated": "0",
        "numAddedFiles": "0",
        "numDeletionVectorsRemoved": "0",
        "numAddedChangeFiles": "0",
        "numDeletedRows": "5",
        "numAddedBytes": "0",
    }
    assert times < set(metrics)
    bayou.table(path).delete(col("id") < 3)
    assert last(path)["operationMetrics"]["numDeletionVectorsUpdated"] == "1"
    bayou.table(path).delete()
    assert last(path)["operationParameters"] == {"predicate": '["true"]'}


def test_row_tracking_is_said_to_be_kept(path):
    bayou.write(path, ROWS, configuration={"delta.enableRowTracking": "true"})
    bayou.table(path).delete("id = 1")
    assert last(path)["tags"] == {"delta.rowTracking.preserved": "true"}


def test_an_append_only_table_is_left_alone_even_where_nothing_matches(path):
    bayou.write(path, ROWS, configuration={"delta.appendOnly": "true"})
    with pytest.raises(ConstraintViolationError, match="append-only"):
        bayou.table(path).delete("id = 100")


def test_conditions_that_cannot_be_understood_or_fail_change_nothing(path):
    bayou.write(path, ROWS)
    with pytest.raises(PredicateError, match="nope"):
        bayou.table(path).delete("nope = 1")
    with pytest.raises(EvaluationError):
        bayou.table(path).delete("10 / (id - 3) > 1")
    assert (ids(path), last(path)["version"]) == (list(range(10)), 0)


def data_files(tmp_path) -> list[str]:
    return sorted(f.name for f in (tmp_path / "t").iterdir() if f.is_file())


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=str)
def test_a_conflict_names_the_winner_and_leaves_nothing_behind(tmp_path, path, properties):
    bayou.write(path, ROWS, configuration=properties)
    engine = ArrowEngine()
    late = Table.for_path(engine, path).latest_snapshot(engine)
    bayou.table(path).delete("id = 1")
    known = data_files(tmp_path)
    with pytest.raises(CommitConflictError) as caught:
        delete(engine, late, "id = 2", engine_info="test/1")
    assert caught.value.winning_operation == "DELETE"
    assert data_files(tmp_path) == known


def test_an_append_of_what_should_have_been_read_is_a_conflict_and_another_is_not(path):
    bayou.write(path, ROWS, partition_by=["p"])
    engine = ArrowEngine()
    late = Table.for_path(engine, path).latest_snapshot(engine)
    bayou.write(path, ROWS.slice(0, 1))  # of partition a
    assert delete(engine, late, "p = 'b' AND id < 5", engine_info="test/1").version == 2
    late = Table.for_path(engine, path).snapshot_as_of_version(engine, 0)
    with pytest.raises(ConcurrentAppendError):
        delete(engine, late, "p = 'a' AND id < 5", engine_info="test/1")


def test_files_stay_where_the_outcome_of_the_commit_is_not_known(tmp_path, path):
    bayou.write(path, ROWS, configuration=VECTORS)
    engine = FaultInjectingEngine(
        ArrowEngine(),
        Fault(operation="write_json_file_atomically", path="01.json", times=1, after=True),
        Fault(operation="read_files", path="01.json", times=100),
    )
    with pytest.raises(CommitFailedError):
        bayou.table(path, engine=engine).delete("id = 1")
    assert any(name.startswith("deletion_vector_") for name in data_files(tmp_path))
    assert ids(path) == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_checkpoint_that_is_due_is_written(tmp_path, path):
    bayou.write(path, ROWS, configuration={"delta.checkpointInterval": "2"})
    bayou.table(path).delete("id = 1")
    bayou.table(path).delete("id = 2")
    assert list((tmp_path / "t" / "_delta_log").glob("*2.checkpoint.parquet"))
    assert (
        json.loads((tmp_path / "t" / "_delta_log" / "_last_checkpoint").read_text())["version"] == 2
    )


def test_a_condition_may_be_about_a_struct_as_a_whole(path):
    structs = pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())]))
    bayou.write(path, pa.table({"id": [1, 2], "nested": structs}))
    assert bayou.table(path).delete("nested IS NULL").num_deleted_rows == 1
    assert ids(path) == [1]
