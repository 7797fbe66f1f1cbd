"""Files by several threads are the files that one thread writes."""

from __future__ import annotations

import io
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.parquet_files.parallel_encoding import ParallelWriter, is_worth_threads
from bayou.errors import SchemaError
from bayou.kernel.engine import ParquetWriteOptions

TABLE = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "text": pa.array([None if i % 7 == 0 else f"t{i % 5}" for i in range(1000)]),
        "nested": [{"x": i, "l": [{"y": str(i)}] * (i % 3)} for i in range(1000)],
        "map": pa.array([[("k", i)] for i in range(1000)], pa.map_(pa.string(), pa.int32())),
        "price": pa.array([i / 2 for i in range(1000)]).cast(pa.float32()),
        "empty": pa.nulls(1000, pa.date32()),
    },
    schema=pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"}),
            pa.field("text", pa.string()),
            pa.field(
                "nested",
                pa.struct([("x", pa.int64()), ("l", pa.list_(pa.struct([("y", pa.string())])))]),
            ),
            pa.field("map", pa.map_(pa.string(), pa.int32())),
            pa.field("price", pa.float32()),
            pa.field("empty", pa.date32()),
        ]
    ),
)


def new_writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        store_schema=False,
        write_page_index=True,
        data_page_size=256,  # several pages for each column
        write_batch_size=64,
    )


def by_one(groups: list[pa.Table]) -> bytes:
    sink = io.BytesIO()
    with new_writer(sink, TABLE.schema) as writer:
        for group in groups:
            writer.write_table(group)
    return sink.getvalue()


def by_several(groups: list[pa.Table]) -> tuple[bytes, pq.FileMetaData]:
    sink = io.BytesIO()
    with ParallelWriter(sink, TABLE.schema, new_writer) as writer:
        for group in groups:
            writer.write(group)
        footer = writer.finish()
    return sink.getvalue(), footer


GROUPS = [TABLE.slice(0, 400), TABLE.slice(400, 1), TABLE.slice(401)]


def test_the_bytes_are_those_that_one_thread_writes() -> None:
    data, footer = by_several(GROUPS)
    assert data == by_one(GROUPS)
    assert footer.equals(pq.read_metadata(io.BytesIO(data)))


def test_each_column_has_a_page_index() -> None:
    _, footer = by_several(GROUPS)
    for group in (footer.row_group(i) for i in range(footer.num_row_groups)):
        columns = [group.column(i) for i in range(group.num_columns)]
        assert all(column.has_offset_index for column in columns)
        assert all(column.has_column_index for column in columns)


def test_a_reader_that_skips_pages_finds_the_rows(tmp_path: Any) -> None:
    # DataFusion, the reader behind `deltalake`, uses page indexes.
    path = tmp_path / "table"
    ids = pa.array(range(1_000_000), pa.int64())
    rows = pa.table({"id": ids, "text": ids.cast(pa.string())})
    assert is_worth_threads(rows) or pa.cpu_count() == 1
    bayou.write(path, rows)
    query = QueryBuilder().register("t", DeltaTable(path))
    found = query.execute("SELECT id, text FROM t WHERE id BETWEEN 699990 AND 700010").read_all()
    assert sorted(found["id"].to_pylist()) == list(range(699_990, 700_011))
    assert sorted(found["text"].to_pylist()) == [str(i) for i in range(699_990, 700_011)]


def test_others_read_the_file(tmp_path: Any) -> None:
    path = tmp_path / "part.parquet"
    path.write_bytes(by_several(GROUPS)[0])
    assert pq.read_table(path).equals(TABLE)
    assert pl.read_parquet(path)["id"].to_list() == list(range(1000))
    (found,) = duckdb.sql(f"SELECT sum(nested.x), count(text) FROM '{path}'").fetchall()
    assert found == (499_500, TABLE.num_rows - TABLE.column("text").null_count)


def test_a_file_without_row_groups_is_one() -> None:
    assert by_several([])[0] == by_one([])


def test_an_error_of_a_thread_is_that_of_the_write() -> None:
    other = TABLE.set_column(4, "price", TABLE.column("price").cast(pa.string()))
    with ParallelWriter(io.BytesIO(), TABLE.schema, failing_writer) as writer:
        writer.write(other)
        with pytest.raises(pa.ArrowInvalid, match="no room"):
            writer.flush()


def failing_writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    if "price" in schema.names:
        raise pa.ArrowInvalid("no room")
    return new_writer(sink, schema)


def test_a_large_file_of_the_engine_is_cut_at_the_size_that_was_asked_for(tmp_path: Any) -> None:
    rows = pa.table({"id": pa.array(range(1 << 20)), "square": [i * i for i in range(1 << 20)]})
    assert is_worth_threads(rows) or pa.cpu_count() == 1
    options = ParquetWriteOptions(compression="none", target_file_size=10 << 20)
    batches = [b for _ in range(3) for b in rows.to_batches(max_chunksize=1 << 16)]
    written = list(
        ArrowEngine().parquet.write_parquet_files(str(tmp_path), batches, ("id",), options)
    )
    assert sum(w.statistics.num_records for w in written) == 3 * rows.num_rows
    assert len(written) > 2
    for one in written:
        found = pq.read_table(one.path)
        bounds = one.statistics.min_values["id"], one.statistics.max_values["id"]
        ids = found.column("id").to_pylist()
        assert bounds == (min(ids), max(ids))
        assert found.column("square").to_pylist() == [i * i for i in ids]


def test_a_column_that_parquet_does_not_have_is_named_with_the_file(tmp_path: Any) -> None:
    rows = pa.record_batch(
        {
            "id": pa.array(range(1 << 20)),
            "text": pa.array(["a long text"] * (1 << 20)),
            "length": pa.array([pa.scalar((1, 2, 3), pa.month_day_nano_interval())] * (1 << 20)),
        }
    )
    options = ParquetWriteOptions(compression="none", target_file_size=100 << 20)
    with pytest.raises(SchemaError, match="can't be written as Parquet"):
        list(ArrowEngine().parquet.write_parquet_files(str(tmp_path), [rows], (), options))
    assert not list(tmp_path.iterdir())
