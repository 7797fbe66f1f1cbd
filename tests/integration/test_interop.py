"""Rows go to other libraries through the Arrow PyCapsule interface, and come from them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayou


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    for day in ("a", "b"):
        rows = pa.table({"day": [day] * 3, "id": range(3), "price": [1.5, None, 2.5]})
        bayou.write(path, rows, partition_by=["day"])
    return path


def test_duckdb_queries_batches_as_they_stream(table: str) -> None:
    rows = bayou.table(table).to_batches()
    found = duckdb.sql("SELECT day, sum(price) FROM rows GROUP BY day ORDER BY day").fetchall()
    assert found == [("a", 4.0), ("b", 4.0)]
    assert rows.read_all().num_rows == 0  # they were streamed, not collected


def test_polars_takes_a_stream_and_a_table(table: str) -> None:
    frame = pl.DataFrame(bayou.table(table).to_batches(filter="id > 0"))
    assert sorted(frame["id"].to_list()) == [1, 1, 2, 2]
    assert pl.DataFrame(bayou.table(table).to_arrow()).shape == (6, 3)


def test_pandas_takes_a_table(table: str) -> None:
    frame = bayou.table(table).to_arrow(columns=["price"]).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["price"].sum() == 8.0


def test_tables_of_other_libraries_are_written(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    bayou.write(path, pl.DataFrame({"id": [1], "name": ["polars"]}))
    bayou.write(path, pd.DataFrame({"id": [2], "name": ["pandas"]}))
    bayou.write(path, duckdb.sql("SELECT 3::BIGINT AS id, 'duckdb' AS name"))
    found = bayou.table(path).to_arrow().sort_by("id")
    assert found.column("name").to_pylist() == ["polars", "pandas", "duckdb"]


def test_batches_of_the_kernel_are_capsules(table: str) -> None:
    for batch in bayou.table(table).snapshot():
        assert pl.from_arrow(batch).width == 3


def test_duckdb_and_polars_push_filters_into_a_dataset(table: str) -> None:
    dataset = bayou.table(table).to_pyarrow_dataset()
    found = duckdb.sql("SELECT id FROM dataset WHERE day = 'b' AND id > 0 ORDER BY id").fetchall()
    assert found == [(1,), (2,)]
    lazy = pl.scan_pyarrow_dataset(dataset).filter(pl.col("day") == "a").select("price")
    assert sorted(lazy.collect()["price"].to_list(), key=str) == [1.5, 2.5, None]


def test_null_and_typed_partition_values_are_what_they_are(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table(
        {
            "day": pa.array([dt.date(2024, 1, 5), None, dt.date(2024, 1, 6)]),
            "name": ["a b", "ü/%", None],
            "id": [1, 2, 3],
        }
    )
    bayou.write(path, rows, partition_by=["day", "name"])
    found = bayou.table(path).to_pyarrow_dataset().to_table().sort_by("id")
    assert found.to_pylist() == rows.to_pylist()


def test_columns_that_are_younger_than_a_file_are_nulls_in_a_dataset(table: str) -> None:
    bayou.write(table, pa.table({"day": ["c"], "id": [9], "new": ["x"]}), merge_schema=True)
    found = bayou.table(table).to_pyarrow_dataset().to_table(columns=["new"])
    assert sorted(map(str, found.column("new").to_pylist())) == ["None"] * 6 + ["x"]
