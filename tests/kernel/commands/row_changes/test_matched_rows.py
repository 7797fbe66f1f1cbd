"""Rows that another engine found."""

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import bayou
from bayou.engines import for_path
from bayou.errors import ConstraintViolationError, SchemaError
from bayou.kernel import Table
from bayou.kernel.commands.create_table import (
    CreationMode,
    TableDefinition,
    create_table,
    generated_column,
    identity_column,
)
from bayou.kernel.commands.row_changes.assignments import assigned_fields
from bayou.kernel.commands.row_changes.delete import begin_delete
from bayou.kernel.commands.row_changes.matched_rows import (
    MatchedRows,
    MatchedRowsTask,
)
from bayou.kernel.commands.row_changes.operation import commit_row_changes
from bayou.protocol.schema import LONG, StructField, StructType


@pytest.fixture(params=[True, False], ids=["vectors", "rewrites"])
def begun(request, tmp_path):
    """A table of one file, an operation on it, and its work."""
    path = str(tmp_path / "t")
    properties = {
        "delta.enableDeletionVectors": str(request.param).lower(),
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
    }
    rows = pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]})
    bayou.write(path, rows, configuration=properties)
    bayou.table(path).alter.add_constraint({"small": "id < 100"})
    engine = for_path(path, {})
    operation = begin_delete(
        engine, Table.for_path(engine, path).latest_snapshot(engine), engine_info="test"
    )
    with operation.candidates(engine) as candidates:
        (candidate,) = candidates
    return engine, path, operation, candidate.file


def test_found_rows_are_deleted_updated_and_inserted_in_one_commit(begun):
    engine, path, operation, file = begun
    work = MatchedRowsTask(state=operation.task.state, assigned=("v",))
    work = MatchedRowsTask.from_bytes(work.to_bytes())
    found = MatchedRows(
        file=file,
        deleted=BitMap64([0]),
        updated=pa.array([1, 3], pa.int64()),
        values=pa.Table.from_batches(
            [pa.record_batch({"v": ["B"]}), pa.record_batch({"v": ["D"]})]
        ),
    )
    changes = work.run(engine, [found], [pa.record_batch({"id": [9], "v": ["new"]})])
    commit_row_changes(engine, operation.transaction, changes, {})
    table = bayou.table(path)
    columns = ["id", "v", "_metadata.row_id"]
    rows = {r["id"]: r for r in table.to_arrow(columns).to_pylist()}
    assert {k: r["v"] for k, r in rows.items()} == {2: "B", 3: "c", 4: "D", 9: "new"}
    assert [rows[k]["_metadata.row_id"] for k in (2, 3, 4)] == [1, 2, 3]
    kinds = table.changes(2).to_arrow()["_change_type"].to_pylist()
    assert sorted(kinds) == sorted(
        ["delete", "insert", *["update_preimage", "update_postimage"] * 2]
    )


def test_new_versions_keep_the_tables_rules(begun):
    engine, path, operation, file = begun
    work = MatchedRowsTask(state=operation.task.state, assigned=("id",))
    found = MatchedRows(
        file=file, updated=pa.array([1], pa.int64()), values=pa.table({"id": [100]})
    )
    with pytest.raises(ConstraintViolationError, match="small"):
        work.run(engine, [found])
    assert bayou.table(path).snapshot().version == 1


def test_a_file_is_not_read_if_all_columns_have_new_values(tmp_path):
    path = str(tmp_path / "t")
    engine = for_path(path, {})
    doubled = generated_column(StructField(name="twice", data_type=LONG), "id * 2")
    schema = StructType((StructField(name="id", data_type=LONG), doubled))
    create_table(
        engine,
        Table.for_path(engine, path),
        TableDefinition(schema=schema, properties={"delta.enableDeletionVectors": "true"}),
        CreationMode.CREATE,
        engine_info="test",
    )
    bayou.write(path, pa.table({"id": [1, 2, 3, 4]}), mode="append")
    operation = begin_delete(
        engine, Table.for_path(engine, path).latest_snapshot(engine), engine_info="test"
    )
    with operation.candidates(engine) as candidates:
        (candidate,) = candidates
    found = MatchedRows(
        file=candidate.file,
        deleted=BitMap64([0]),
        updated=pa.array([1, 2], pa.int64()),
        values=pa.table({"id": [20, 30]}),
    )
    file = tmp_path / "t" / candidate.file.path
    hidden = file.rename(tmp_path / "hidden")
    task = MatchedRowsTask(state=operation.task.state, assigned=("id",))
    changes = task.run(engine, [found])
    hidden.rename(file)
    commit_row_changes(engine, operation.transaction, changes, {})
    assert (changes.num_updated_rows, changes.num_deleted_rows) == (2, 1)
    rows = bayou.table(path).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": n, "twice": 2 * n} for n in (4, 20, 30)]


def test_generated_columns_follow_and_identity_columns_stay(tmp_path):
    path = str(tmp_path / "t")
    engine = for_path(path, {})
    doubled = generated_column(StructField(name="twice", data_type=LONG), "id * 2")
    number = identity_column(
        StructField(name="n", data_type=LONG), start=1, step=1, allow_explicit=False
    )
    schema = StructType((StructField(name="id", data_type=LONG), doubled, number))
    create_table(
        engine,
        Table.for_path(engine, path),
        TableDefinition(schema=schema),
        CreationMode.CREATE,
        engine_info="test",
    )
    bayou.write(path, pa.table({"id": [5, 6]}), mode="append")
    operation = begin_delete(
        engine, Table.for_path(engine, path).latest_snapshot(engine), engine_info="test"
    )
    with operation.candidates(engine) as candidates:
        (candidate,) = candidates
    state = operation.task.state
    with pytest.raises(SchemaError, match="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"):
        assigned_fields(state.transaction_state, ["n"])
    found = MatchedRows(
        file=candidate.file,
        updated=pa.array([1], pa.int64()),
        values=pa.table({"id": [7]}),
    )
    changes = MatchedRowsTask(state=state, assigned=("id",)).run(engine, [found])
    commit_row_changes(engine, operation.transaction, changes, {})
    rows = bayou.table(path).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 5, "twice": 10, "n": 1}, {"id": 7, "twice": 14, "n": 2}]
