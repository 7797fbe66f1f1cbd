"""Data files of a transaction: where they go, what is recorded, what an error leaves behind."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import ConstraintViolationError, SchemaError, StorageError
from bayou.kernel import Transaction, TransactionState, delete_data_files, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.data_writer import data_writer, partition_files
from support.faults import Fault, FaultInjectingEngine


@pytest.fixture
def local(tmp_path) -> ArrowEngine:
    return ArrowEngine()


def state_for(table: pa.Table, path, *partitions: str, **configuration: str) -> TransactionState:
    return TransactionState(
        table=str(path),
        schema=from_arrow_schema(table.schema),
        partition_columns=partitions,
        configuration={f"delta.{k}": v for k, v in configuration.items()},
    )


def files_in(path) -> list[str]:
    return sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.is_file())


ROWS = pa.table({"n": [1, 2, 3], "p": ["a b", None, "a b"]})


def test_rows_are_split_into_folders_by_their_partition_values(local, tmp_path):
    adds = write_data(local, state_for(ROWS, tmp_path, "p"), ROWS.to_batches())
    by_value = {add.partition_values["p"]: add for add in adds}
    assert set(by_value) == {"a b", None}
    assert by_value["a b"].path.startswith("p=a%20b/part-")
    assert by_value[None].path.startswith("p=__HIVE_DEFAULT_PARTITION__/part-")
    assert pq.read_table(next((tmp_path / "p=a b").iterdir()), partitioning=None).to_pydict() == {
        "n": [1, 3]
    }


def test_an_add_tells_size_time_and_statistics(local, tmp_path):
    (add,) = write_data(local, state_for(ROWS, tmp_path), ROWS.to_batches())
    (name,) = files_in(tmp_path)
    assert (add.path, add.size) == (name, (tmp_path / name).stat().st_size)
    assert add.data_change
    assert json.loads(add.stats) == {
        "numRecords": 3,
        "minValues": {"n": 1, "p": "a b"},
        "maxValues": {"n": 3, "p": "a b"},
        "nullCount": {"n": 0, "p": 1},
    }


@pytest.mark.parametrize(
    ("value", "folder", "uri"),
    [
        ("a/b", "p=a%2Fb", "p=a%252Fb"),
        ("50%", "p=50%25", "p=50%2525"),
        ("x:y", "p=x%3Ay", "p=x%253Ay"),
        ("ü", "p=ü", "p=%C3%BC"),
        ("a+b&c", "p=a+b&c", "p=a+b&c"),
    ],
)
def test_folders_are_escaped_as_hive_does_and_the_log_percent_encodes_them(
    local, tmp_path, value, folder, uri
):
    rows = pa.table({"n": [1], "p": [value]})
    (add,) = write_data(local, state_for(rows, tmp_path, "p"), rows.to_batches())
    assert add.path.split("/")[0] == uri
    assert files_in(tmp_path)[0].split("/")[0] == folder
    assert add.partition_values == {"p": value}


def test_memory_stays_flat_where_many_partitions_come_interleaved(local, tmp_path, monkeypatch):
    monkeypatch.setattr(data_writer, "_BUFFERED_BYTES", 4 << 20)
    monkeypatch.setattr(partition_files, "_MAX_BYTES_IN_PROGRESS", 1 << 20)
    # One partition has a row of every batch only: it is never the largest, and waits to the end.
    part = pa.array([f"{i % 50:02d}" if i else "rare" for i in range(50_000)])
    used: list[int] = []

    def batches(count: int) -> Iterator[pa.RecordBatch]:
        for i in range(count):
            number = pa.array(range(i * 50_000, i * 50_000 + 50_000))
            used.append(pa.total_allocated_bytes() - before)
            yield pa.record_batch({"n": number, "p": part})

    state = state_for(pa.table({"n": [1], "p": [""]}), tmp_path, "p")
    before = pa.total_allocated_bytes()
    adds = write_data(local, state, batches(60))
    assert max(used) < 20 << 20  # of 40 MB of rows
    assert len({add.partition_values["p"] for add in adds}) == 51
    assert sum(json.loads(add.stats)["numRecords"] for add in adds) == 60 * 50_000


def test_random_prefixes_take_the_place_of_partition_folders(local, tmp_path):
    state = state_for(ROWS, tmp_path, "p", randomizeFilePrefixes="true", randomPrefixLength="3")
    adds = write_data(local, state, ROWS.to_batches())
    assert all(len(add.path.split("/")[0]) == 3 for add in adds)
    assert {add.partition_values["p"] for add in adds} == {"a b", None}


def test_only_the_columns_that_the_table_names_have_statistics(local, tmp_path):
    state = state_for(ROWS, tmp_path, dataSkippingNumIndexedCols="1")
    (add,) = write_data(local, state, ROWS.to_batches())
    assert json.loads(add.stats)["minValues"] == {"n": 1}


def test_no_rows_make_no_file(local, tmp_path):
    assert write_data(local, state_for(ROWS, tmp_path, "p"), ROWS.slice(0, 0).to_batches()) == []
    assert write_data(local, state_for(ROWS, tmp_path), []) == []
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("partitions", [(), ("p",)])
def test_rows_that_do_not_fit_leave_no_file(local, tmp_path, partitions):
    def batches():
        yield from ROWS.to_batches()
        yield pa.record_batch({"n": ["x"], "p": ["a"]})

    with pytest.raises(SchemaError, match="'n'"):
        write_data(local, state_for(ROWS, tmp_path, *partitions), batches())
    assert files_in(tmp_path) == []


def test_a_source_that_fails_leaves_no_file(local, tmp_path):
    def batches():
        yield from ROWS.to_batches()
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="source is gone"):
        write_data(local, state_for(ROWS, tmp_path), batches())
    assert files_in(tmp_path) == []


def test_a_store_that_fails_half_way_leaves_no_file(tmp_path):
    rows = pa.table({"n": [1, 2, 3], "p": ["a", "b", "c"]})
    engine = FaultInjectingEngine(ArrowEngine(), Fault(operation="write_parquet_files", passing=3))
    with pytest.raises(StorageError, match="on purpose"):
        write_data(engine, state_for(rows, tmp_path, "p"), rows.to_batches())
    assert files_in(tmp_path) == []


def test_a_null_where_none_may_be_leaves_no_file(local, tmp_path):
    schema = pa.schema([pa.field("n", pa.int64(), False)])
    state = state_for(pa.table({"n": [1]}, schema=schema), tmp_path)
    with pytest.raises(ConstraintViolationError):
        write_data(local, state, pa.table({"n": [1, None]}).to_batches())
    assert files_in(tmp_path) == []


def test_files_of_adds_can_be_deleted_twice(local, tmp_path):
    adds = write_data(local, state_for(ROWS, tmp_path, "p"), ROWS.to_batches())
    for _ in range(2):
        delete_data_files(local, str(tmp_path), adds)
        assert files_in(tmp_path) == []


def test_a_connector_can_take_the_steps_itself(table_path):
    engine = MemoryEngine()
    rows = pa.table({"day": pa.array([dt.date(2024, 1, 5)] * 2), "n": [1, 2]})
    state = state_for(rows, table_path, "day")
    values = {"day": dt.date(2024, 1, 5)}
    physical = Transaction.transform_logical_data(engine, state, rows.to_batches(), values)
    context = Transaction.get_write_context(engine, state, values)
    assert context.target_directory == f"{table_path}/day=2024-01-05"
    statuses = engine.parquet.write_parquet_files(
        context.target_directory, physical, context.statistics_columns, context.options
    )
    (add,) = Transaction.generate_append_actions(engine, state, statuses, context)
    assert add.partition_values == {"day": "2024-01-05"}
    assert add.path.startswith("day=2024-01-05/part-")


@pytest.mark.parametrize(
    ("values", "column"),
    [({}, "p"), ({"p": "x", "q": 1}, "q"), ({"q": 1}, "p"), ({"p": dt.date(2024, 1, 1)}, "p")],
)
def test_partition_values_must_be_those_of_the_table(engine, table_path, values, column):
    with pytest.raises(SchemaError) as caught:
        Transaction.get_write_context(engine, state_for(ROWS, table_path, "p"), values)
    assert caught.value.column == column


def test_a_partition_value_that_is_too_long_for_a_folder_is_refused_before_a_file(tmp_path):
    rows = pa.table({"id": [1, 2], "p": ["x", "é" * 130]})
    path = tmp_path / "table"
    with pytest.raises(SchemaError, match="262 bytes, and the maximum is 255") as caught:
        bayou.write(str(path), rows, partition_by=["p"])
    assert caught.value.column == "p"
    assert [file for file in path.rglob("*") if file.is_file()] == []
    bayou.write(
        str(path), rows, partition_by=["p"], configuration={"delta.randomizeFilePrefixes": "true"}
    )
    assert bayou.table(str(path)).to_arrow(filter="p <> 'x'").num_rows == 1


def test_partition_columns_are_the_last_in_files_if_the_table_requires_them(tmp_path):
    path = tmp_path / "table"
    asked = {"delta.enableMaterializePartitionColumnsFeature": "true"}
    rows = pa.table({"p": ["a", "b", None], "id": [1, 2, 3]})
    bayou.write(str(path), rows, partition_by=["p"], configuration=asked)
    assert "materializePartitionColumns" in (
        bayou.table(str(path)).snapshot().protocol.writer_features
    )
    found = pa.concat_tables([pq.ParquetFile(file).read() for file in path.rglob("part-*.parquet")])
    assert found.column_names == ["id", "p"]
    assert sorted(found.to_pylist(), key=repr) == sorted(rows.to_pylist(), key=repr)
    assert '"p"' not in "".join(bayou.table(str(path)).snapshot().files()["stats"].to_pylist())
    assert bayou.table(str(path)).to_arrow(filter="p = 'a'").to_pylist() == [{"p": "a", "id": 1}]
    bayou.table(str(path)).delete("id = 1")
    assert bayou.table(str(path)).alter.drop_feature("materializePartitionColumns") == 2
    bayou.write(str(path), rows)
    assert bayou.table(str(path)).to_arrow().num_rows == 5


@pytest.mark.parametrize(
    ("schema", "condition"),
    [
        ({"p": pa.string(), "v": pa.null()}, "TABLE_ALL_VOID_COLUMNS"),
        ({"p": pa.string(), "s": pa.struct({"v": pa.null()})}, "STRUCT_ALL_VOID_FIELDS"),
        (
            {"p": pa.string(), "n": pa.int64(), "a": pa.list_(pa.struct({"v": pa.null()}))},
            "STRUCT_ALL_VOID_FIELDS",
        ),
    ],
)
def test_rows_of_a_table_or_struct_with_only_void_columns_are_refused(
    local, tmp_path, schema, condition
):
    arrow = pa.schema(schema)
    state = TransactionState(
        table=str(tmp_path),
        schema=from_arrow_schema(arrow, void=True),
        partition_columns=("p",),
        configuration={},
    )
    rows = pa.record_batch([pa.nulls(2, kind) for kind in schema.values()], schema=arrow)
    assert write_data(local, state, [rows.slice(0, 0)]) == []
    with pytest.raises(SchemaError, match=f"DELTA_CANNOT_WRITE_EMPTY_SCHEMA.{condition}"):
        write_data(local, state, [rows])
    assert files_in(tmp_path) == []
