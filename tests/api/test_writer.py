"""`bayou.write`: modes, schemas, sources, and what an error leaves behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import polars as pl
import pyarrow as pa
import pytest

import bayou
from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    MetadataChangedError,
    SchemaError,
    TableAlreadyExistsError,
    TablePropertyError,
)
from bayou.kernel import Snapshot
from bayou.protocol.schema import LONG, VOID, StructField, StructType

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", None]})


def read(path: str) -> list[dict]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=lambda row: row["id"])


def data_files(path: Path) -> list[Path]:
    return list(path.rglob("part-*"))


def test_the_first_write_makes_the_table_and_the_next_ones_append(path):
    assert bayou.write(path, ROWS) == 0
    assert bayou.write(path, ROWS) == 1
    assert [row["id"] for row in read(path)] == [1, 1, 2, 2]


def test_overwrite_replaces_all_rows_and_keeps_the_old_version(path):
    bayou.write(path, ROWS)
    assert bayou.write(path, ROWS.slice(1), mode="overwrite") == 1
    assert read(path) == [{"id": 2, "name": None}]
    assert bayou.table(path).to_arrow(version=0).num_rows == 2


def test_overwrite_by_no_rows_empties_the_table(path):
    bayou.write(path, ROWS)
    assert bayou.write(path, ROWS.slice(0, 0), mode="overwrite") == 1
    assert read(path) == []


def test_error_is_for_new_tables_only(path):
    assert bayou.write(path, ROWS, mode="error") == 0
    with pytest.raises(TableAlreadyExistsError, match="mode 'append'"):
        bayou.write(path, ROWS, mode="error")
    assert bayou.table(path).snapshot().version == 0


def test_ignore_leaves_a_table_as_it_is_and_reads_no_row(path):
    assert bayou.write(path, ROWS, mode="ignore") == 0
    assert bayou.write(path, pa.table({"other": [1]}), mode="ignore") == 0
    assert bayou.table(path).snapshot().version == 0


def test_another_mode_is_refused(path):
    with pytest.raises(ArgumentError, match="one of append, overwrite, error, ignore"):
        bayou.write(path, ROWS, mode="upsert")


def test_no_rows_make_an_empty_table_and_no_further_version(path):
    assert bayou.write(path, ROWS.slice(0, 0)) == 0
    assert bayou.write(path, ROWS.slice(0, 0)) == 0
    assert bayou.table(path).to_arrow().schema.names == ["id", "name"]


@pytest.mark.parametrize(
    "source",
    [
        lambda: ROWS,
        lambda: ROWS.to_batches()[0],
        lambda: pl.from_arrow(ROWS),
        lambda: pa.RecordBatchReader.from_batches(ROWS.schema, ROWS.to_batches()),
    ],
    ids=["table", "batch", "polars", "reader"],
)
def test_anything_with_an_arrow_stream_is_written(path, source):
    bayou.write(path, source())
    assert read(path) == ROWS.to_pylist()


def test_data_without_an_arrow_stream_is_refused_with_a_way_out(path):
    with pytest.raises(ArgumentError, match="from_pylist"):
        bayou.write(path, [{"id": 1}])


def test_partitioning_is_chosen_when_the_table_is_made(path):
    bayou.write(path, ROWS, partition_by=["name"])
    bayou.write(path, ROWS)
    bayou.write(path, ROWS, partition_by=["name"])
    assert bayou.table(path).snapshot().partition_columns == ("name",)
    with pytest.raises(SchemaError, match=r"partitioned by \(name\), not by \(id\)"):
        bayou.write(path, ROWS, partition_by=["id"])
    with pytest.raises(SchemaError, match=r"partitioned by \(name\), not by \(\)"):
        bayou.write(path, ROWS, partition_by=[])


def test_properties_are_set(path):
    bayou.write(path, ROWS, configuration={"delta.checkpointInterval": "1"})
    bayou.write(path, ROWS)
    assert bayou.table(path).snapshot().properties == {"delta.checkpointInterval": "1"}
    assert bayou.table(path).snapshot().kernel.log_segment.checkpoint is not None
    with pytest.raises(TablePropertyError, match="did you mean"):
        bayou.write(path, ROWS, configuration={"delta.checkpointIntervall": "1"})


def test_a_column_of_another_type_is_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "table"
    bayou.write(str(path), ROWS)
    before = data_files(path)
    with pytest.raises(SchemaError, match="'id'.*long.*string") as caught:
        bayou.write(str(path), pa.table({"id": ["1"]}))
    assert caught.value.column == "id"
    assert data_files(path) == before


def test_a_new_column_needs_leave_to_be_added(path):
    bayou.write(path, ROWS)
    wider = pa.table({"id": [3], "extra": [1.5]})
    with pytest.raises(SchemaError, match="no column 'extra'"):
        bayou.write(path, wider)
    assert bayou.write(path, wider, merge_schema=True) == 1
    assert read(path)[-1] == {"id": 3, "name": None, "extra": 1.5}
    assert read(path)[0] == {"id": 1, "name": "a", "extra": None}


def test_a_null_where_none_may_be_leaves_nothing(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), False)])
    path = tmp_path / "table"
    bayou.write(str(path), pa.table({"id": [1]}, schema=schema))
    before = data_files(path)
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        bayou.write(str(path), pa.table({"id": pa.array([1, None])}))
    assert data_files(path) == before
    assert bayou.table(str(path)).snapshot().version == 0


def test_a_source_that_fails_leaves_nothing(tmp_path):
    def batches():
        yield ROWS.to_batches()[0]
        raise RuntimeError("the source is gone")

    path = tmp_path / "table"
    reader = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    with pytest.raises(RuntimeError, match="the source is gone"):
        bayou.write(str(path), reader)
    assert not bayou.table(str(path)).exists()
    assert data_files(path) == []


def test_rows_that_another_creator_s_constraint_forbids_are_refused(path):
    rows = pa.table({"id": [5]})

    def source():
        """Rows that come once somebody else has made the table."""
        bayou.write(path, rows)
        bayou.table(path).delete()
        bayou.table(path).alter.add_constraint({"large": "id > 10"})
        yield from rows.to_batches()

    with pytest.raises(MetadataChangedError, match="or constraints"):
        bayou.write(path, pa.RecordBatchReader.from_batches(rows.schema, source()))
    assert bayou.table(path).to_arrow().num_rows == 0


def test_a_table_named_by_a_uri_is_the_one_named_by_its_path(tmp_path):
    bayou.write(f"file://{tmp_path}/a b", ROWS)
    assert read(f"{tmp_path}/a b") == ROWS.to_pylist()


def test_checkpoints_are_written_by_the_way_and_read_by_others(tmp_path):
    path = str(tmp_path)
    for _ in range(12):
        bayou.write(path, ROWS, mode="append")
    assert (tmp_path / "_delta_log" / "_last_checkpoint").exists()
    assert (tmp_path / "_delta_log" / f"{10:020d}.checkpoint.parquet").exists()
    for version in range(10):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    assert len(read(path)) == 24
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 24


def test_polars_categories_are_written_as_their_texts(path):
    kinds = pl.Series(["x", None, "y"], dtype=pl.Categorical)
    sizes = pl.Series(["l", "s", "l"], dtype=pl.Enum(["s", "l"]))
    bayou.write(path, pl.DataFrame({"id": [1, 2, 3], "kind": kinds, "size": sizes}))
    assert read(path) == [
        {"id": 1, "kind": "x", "size": "l"},
        {"id": 2, "kind": None, "size": "s"},
        {"id": 3, "kind": "y", "size": "l"},
    ]


def test_a_path_object_is_a_path(tmp_path):
    bayou.write(tmp_path / "table", ROWS)
    assert bayou.table(tmp_path / "table").to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"partition_by": 5}, "partition_by"),
        ({"partition_by": [1]}, "partition_by"),
        ({"configuration": {"delta.checkpointInterval": 5}}, "configuration"),
        ({"configuration": "delta.checkpointInterval"}, "configuration"),
        ({"storage_options": "AWS_REGION"}, "storage_options"),
        ({"storage_options": {"AWS_ALLOW_HTTP": True}}, "storage_options"),
        ({"path": ""}, "path"),
        ({"path": None}, "path"),
        ({"path": 5}, "path"),
        ({"data": pa.chunked_array([[1, 2]])}, "data"),
    ],
)
def test_an_argument_of_another_kind_is_refused_by_name(tmp_path, arguments, argument):
    table = tmp_path / "table"
    with pytest.raises(ArgumentError) as refused:
        bayou.write(**{"path": table, "data": ROWS, **arguments})
    assert refused.value.argument == argument
    assert not table.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"AWS_SECRET_ACCESS_KEY": b"hunter2"},
        {"AWS_SESSION_TOKEN": ["hunter2"]},
        {b"AWS_SECRET_ACCESS_KEY": "hunter2"},
        {("AWS_SECRET_ACCESS_KEY", "hunter2"): "x"},
    ],
)
def test_no_value_of_a_storage_option_of_another_kind_is_shown(options):
    with pytest.raises(ArgumentError, match=r"^storage_options: .* is a \w+\.") as refused:
        bayou.table("s3://bucket/table", storage_options=options)
    assert "hunter2" not in str(refused.value)


def test_a_column_of_type_void_gets_the_type_of_rows_that_may_change_the_schema(path):
    schema = StructType(
        tuple(StructField(name=name, data_type=kind) for name, kind in (("id", LONG), ("v", VOID)))
    )
    bayou.create(path, schema)
    bayou.write(path, pa.table({"id": [1], "v": pa.nulls(1)}))
    values = pa.table({"id": [2], "v": [{"x": 7}]})
    with pytest.raises(SchemaError, match=r"'v' has .*type void .*\(DELTA_METADATA_MISMATCH\)"):
        bayou.write(path, values)
    bayou.write(path, values, merge_schema=True)
    assert read(path) == [{"id": 1, "v": None}, {"id": 2, "v": {"x": 7}}]


def test_a_new_column_of_unknown_type_is_refused(path):
    bayou.write(path, ROWS)
    with pytest.raises(SchemaError, match="'v' .* has only nulls"):
        bayou.write(path, pa.table({"id": [3], "v": pa.nulls(1)}), merge_schema=True)
    assert len(read(path)) == 2


def test_a_table_that_is_recreated_while_the_rows_are_read_is_not_written(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"id": [1]})
    bayou.write(path, rows)

    def batches():
        shutil.rmtree(path)
        bayou.write(path, rows)
        yield from rows.to_batches()

    stream = pa.RecordBatchReader.from_batches(rows.schema, batches())
    with pytest.raises(MetadataChangedError, match="deleted and recreated"):
        bayou.write(path, stream, mode="append")
    assert bayou.table(path).to_arrow().num_rows == 1


def test_an_append_loads_the_table_once(tmp_path, monkeypatch):
    path = str(tmp_path / "t")
    rows = pa.table({"id": [1]})
    bayou.write(path, rows)
    loaded = []
    load = Snapshot.load.__func__
    monkeypatch.setattr(
        Snapshot, "load", classmethod(lambda cls, *a, **k: loaded.append(a) or load(cls, *a, **k))
    )
    bayou.write(path, rows, mode="append")
    assert len(loaded) == 1
