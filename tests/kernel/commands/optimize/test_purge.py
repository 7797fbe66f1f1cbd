"""Files with deleted rows or dropped columns are rewritten, others stay."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import bayou
from bayou.kernel import Operation
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.protocol.schema import StructType


def live(snapshot) -> list[str]:
    return bayou.table(snapshot().path).snapshot().files()["path"].to_pylist()


def purge(engine, snapshot):
    return run_plan(engine, plan_purge(engine, snapshot(), "test/1"), "test/1")


def test_files_without_deleted_rows_stay(engine, path, snapshot, written, mark_deleted):
    written(
        *([{"id": i}, {"id": -i}] for i in range(4)),
        configuration={"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    )
    marked = live(snapshot)[:2]
    mark_deleted(lambda p: [1] if p in marked else [])
    before = bayou.table(path).to_arrow(columns=["id", "_metadata.row_id"])
    metrics = purge(engine, snapshot)
    assert (metrics.num_files_removed, metrics.num_deleted_rows_removed) == (2, 2)
    assert metrics.total_files_skipped == 2
    after = bayou.table(path).to_arrow(columns=["id", "_metadata.row_id"])
    assert sorted(before.to_pylist(), key=repr) == sorted(after.to_pylist(), key=repr)
    assert purge(engine, snapshot).version is None


def test_dropped_columns_leave_the_files(engine, path, snapshot):
    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b": 2}, None], "gone": ["x", "y"]})
    bayou.write(path, rows, configuration={"delta.columnMapping.mode": "name"})
    assert purge(engine, snapshot).version is None
    state = snapshot()
    schema = StructType(tuple(f for f in state.schema if f.name != "gone"))
    metadata = msgspec.structs.replace(state.metadata, schema_string=schema.to_json())
    builder = state.build_update_table_transaction("test/1", Operation.MANUAL_UPDATE)
    builder.with_metadata(metadata).build(engine).commit(engine, [])
    assert purge(engine, snapshot).num_files_removed == 1
    (name,) = live(snapshot)
    assert len(pq.read_schema(f"{path}/{name}").names) == 2
    assert purge(engine, snapshot).version is None
    assert bayou.table(path).to_arrow().to_pylist() == rows.drop_columns(["gone"]).to_pylist()
