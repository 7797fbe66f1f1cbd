"""PROTOCOL.md, Column Mapping: ids and physical names of columns, in the schema and in files."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.api.rows.read import PlannedRead
from bayou.errors import TablePropertyError
from bayou.kernel import ByteRange, Operation, Table, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.schema import StructType

ROWS = pa.table({"a b": [1, 2], "s": [{"x,y": "u"}, {"x,y": None}], "part": ["p", "q"]})


def append(engine, table, rows=ROWS, mode=None, **builder):
    start = table.create_transaction_builder(engine, "test/1", Operation.WRITE)
    start = start.with_schema(from_arrow_schema(rows.schema)).with_schema_evolution()
    if mode is not None:
        start = start.with_table_properties({"delta.columnMapping.mode": mode})
    if "by" in builder:
        start = start.with_partition_columns(builder["by"])
    transaction = start.build(engine)
    state = transaction.transaction_state(engine)
    adds = write_data(engine, state, rows.to_batches())
    transaction.commit(engine, adds)
    return adds


def read(engine, table):
    snapshot = table.latest_snapshot(engine)
    return PlannedRead.plan(engine, snapshot, None, None, None).to_arrow()


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_new_table_gets_ids_and_names_of_its_own(engine, table_path, mode):
    table = Table.for_path(engine, table_path)
    add, _ = append(engine, table, mode=mode, by=["part"])
    snapshot = table.latest_snapshot(engine)
    field, struct, part = snapshot.schema
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (2, 7)
    assert snapshot.properties["delta.columnMapping.maxColumnId"] == "4"
    assert isinstance(struct.data_type, StructType)
    assert [f.metadata["delta.columnMapping.id"] for f in (field, struct, part)] == [1, 2, 4]
    assert physical_name(field).startswith("col-")
    assert list(add.partition_values) == [physical_name(part)]
    assert "part=" not in add.path
    assert physical_name(field) in (add.stats or "")
    (data,) = engine.files.read_files([ByteRange(path=f"{table.path}/{add.path}")])
    schema = pq.read_schema(io.BytesIO(bytes(data)))
    assert schema.names == [physical_name(field), physical_name(struct)]
    assert schema.field(0).metadata[b"PARQUET:field_id"] == b"1"
    assert schema.field(1).type.field(0).metadata[b"PARQUET:field_id"] == b"3"
    assert read(engine, table).sort_by("a b").to_pylist() == ROWS.to_pylist()


def test_a_table_that_turns_mapping_on_keeps_its_names(engine, table_path):
    table = Table.for_path(engine, table_path)
    plain = pa.table({"n": [1]})
    append(engine, table, plain)
    append(engine, table, plain.append_column("new one", pa.array(["x"])), mode="name")
    fields = table.latest_snapshot(engine).schema.fields
    assert physical_name(fields[0]) == "n"
    assert [f.metadata["delta.columnMapping.id"] for f in fields] == [1, 2]
    assert read(engine, table).sort_by("new one").to_pylist() == [
        {"n": 1, "new one": "x"},
        {"n": 1, "new one": None},
    ]


def test_a_column_that_is_added_gets_the_next_id(engine, table_path):
    table = Table.for_path(engine, table_path)
    append(engine, table, mode="name")
    append(engine, table, ROWS.append_column("late", pa.array([1, 2])))
    late = table.latest_snapshot(engine).schema.fields[-1]
    assert late.metadata["delta.columnMapping.id"] == 5
    assert physical_name(late).startswith("col-")
    assert len(read(engine, table)) == 4


@pytest.mark.parametrize(("before", "after"), [("name", "none"), ("name", "id"), (None, "id")])
def test_other_changes_of_the_mode_are_refused(engine, table_path, before, after):
    table = Table.for_path(engine, table_path)
    append(engine, table, pa.table({"n": [1]}), mode=before)
    with pytest.raises(TablePropertyError, match=r"delta\.columnMapping\.mode"):
        append(engine, table, pa.table({"n": [1]}), mode=after)
