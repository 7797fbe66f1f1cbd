"""Rows as pandas and Polars frames, and a table as an Arrow stream."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bayou
from bayou.errors import ArgumentError

ROWS = pa.table({"id": [1, 2, None], "day": ["a", "b", "b"], "flag": [True, None, False]})


@pytest.fixture
def table(path) -> bayou.api.TableHandle:
    bayou.write(path, ROWS, partition_by="day")
    return bayou.table(path)


def test_rows_become_a_pandas_frame(table):
    frame = table.to_pandas()
    assert list(frame.columns) == ["id", "day", "flag"]
    assert str(frame["id"].dtype) == "float64"
    selected = table.to_pandas(
        partitions=[("day", "=", "b")], columns=["id"], filters=[("id", ">", 1)]
    )
    assert selected["id"].to_list() == [2]


def test_pandas_types_can_hold_nulls(table):
    nullable = table.to_pandas(dtype_backend="numpy_nullable")
    assert [str(t) for t in nullable.dtypes] == ["Int64", "string", "boolean"]
    arrow = table.to_pandas(dtype_backend="pyarrow")
    assert str(arrow["id"].dtype) == "int64[pyarrow]"
    mapped = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    assert str(mapped["id"].dtype) == "Int64"
    with pytest.raises(ArgumentError, match="numpy_nullable"):
        table.to_pandas(dtype_backend="other")
    with pytest.raises(ArgumentError, match="both set"):
        table.to_pandas(dtype_backend="pyarrow", types_mapper=pd.ArrowDtype)


def test_rows_become_a_polars_frame(table):
    frame = table.to_polars(columns=["id"], filter="id = 1")
    assert frame.equals(pl.DataFrame({"id": [1]}))


def test_rows_become_an_arrow_table(table):
    rows = table.to_pyarrow_table(partitions="day = 'b'", columns=["id", "day"])
    assert rows.column("day").to_pylist() == ["b", "b"]


def test_a_filter_may_be_an_expression_of_pyarrow(table):
    expression = (pc.field("id") > 1) & pc.field("flag").is_null()
    assert table.to_pyarrow_table(columns=["day"], filters=expression).to_pylist() == [{"day": "b"}]
    assert table.to_pandas(partitions="day = 'a'", filters=expression)["id"].to_list() == []
    assert table.snapshot(0).to_pandas(filters=pc.field("id") == 1)["day"].to_list() == ["a"]


def test_other_libraries_read_the_table_itself(table):
    assert pa.table(table).sort_by("id").equals(ROWS)
    assert pl.DataFrame(table)["id"].sum() == 3
    visits = table
    assert duckdb.sql("SELECT count(*), sum(id) FROM visits").fetchall() == [(3, 3)]
    old = table.snapshot(0)  # noqa: F841 - DuckDB finds it by its name
    table.delete()
    assert duckdb.sql("SELECT count(*) FROM old").fetchall() == [(3,)]
    assert visits.count() == 0


def test_a_table_is_written_into_another(table, tmp_path):
    bayou.write(str(tmp_path / "copy"), table)
    assert bayou.table(str(tmp_path / "copy")).count() == 3
