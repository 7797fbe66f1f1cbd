"""`bayou.sql`: queries of DuckDB whose columns and filters reach the kernel."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bayou
from bayou.api.datasets.dataset import to_duckdb_dataset
from bayou.api.queries.duckdb_query import table_names
from bayou.engines import for_path
from bayou.errors import ArgumentError, PrerequisiteError, TableNotFoundError
from support.file_counts import CountingReporter, counting_engine

FILES, ROWS = 8, 10


@pytest.fixture
def path(tmp_path: Path, written: str) -> str:
    """A table of 8 files with 10 rows each, partitioned by `day`, with mapped columns."""
    return str(shutil.copytree(written, tmp_path / "orders"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table that `path` copies."""
    path = str(tmp_path_factory.mktemp("written") / "orders")
    for number in range(FILES):
        first = number * ROWS
        rows = pa.table(
            {
                "id": pa.array(range(first, first + ROWS), pa.int64()),
                "day": [f"d{number % 2}"] * ROWS,
                "price": [float(i) for i in range(ROWS)],
            }
        )
        properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
        bayou.write(path, rows, partition_by=["day"], configuration=properties)
    bayou.table(path).delete("id = 5")
    bayou.table(path).alter.rename_column("price", "Unit price")
    return path


def test_a_query_runs_when_rows_are_requested(path: str) -> None:
    reporter = CountingReporter()
    orders = bayou.table(path, engine=counting_engine(reporter))
    found = bayou.sql('SELECT day, sum("Unit price") AS s FROM orders GROUP BY day', orders=orders)
    assert isinstance(found, duckdb.DuckDBPyRelation)
    assert reporter.data_files == 0
    gc.collect()  # the relation keeps its connection
    assert sorted(found.fetchall()) == [("d0", 175.0), ("d1", 180.0)]
    assert reporter.data_files == FILES
    assert sorted(found.filter("s > 178").fetchall()) == [("d1", 180.0)]


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id = 15", 1),
        ("day = 'd1'", 4),
        ("id BETWEEN 18 AND 21", 2),
        ("id IN (3, 77)", 2),
        ("day = 'd0' AND id < 10", 1),
        ("id IS NULL", 0),
        ('"Unit price" < 0', 0),
        ("id % 2 = 0", FILES),
    ],
)
def test_a_filter_skips_files(path: str, where: str, files: int) -> None:
    reporter = CountingReporter()
    orders = bayou.table(path, engine=counting_engine(reporter))
    rows = bayou.table(path).to_arrow()
    found = bayou.sql(f"SELECT id FROM orders WHERE {where} ORDER BY id", orders=orders).fetchall()
    expected = bayou.sql(f"SELECT id FROM t WHERE {where} ORDER BY id", t=rows).fetchall()
    assert found == expected
    assert reporter.data_files == files


def test_tables_are_joined_and_each_has_its_filter(path: str) -> None:
    reporter = CountingReporter()
    orders = bayou.table(path, engine=counting_engine(reporter))
    days = pd.DataFrame({"day": ["d0", "d1"], "name": ["Monday", "Tuesday"]})
    query = "SELECT name, count(*) FROM orders JOIN days USING (day) WHERE id < 10 GROUP BY name"
    assert bayou.sql(query, orders=orders, days=days).fetchall() == [("Monday", 9)]
    assert reporter.data_files == 1
    frame = pl.DataFrame({"id": [1, 2]})
    query = "SELECT count(*) FROM orders SEMI JOIN frame USING (id)"
    assert bayou.sql(query, orders=orders, frame=frame).fetchall() == [(2,)]


@pytest.mark.parametrize(
    "source",
    [
        str,
        Path,
        bayou.table,
        lambda path: bayou.table(path).snapshot(),
        lambda path: bayou.table(path).to_pyarrow_dataset(),
        lambda path: bayou.table(path).to_arrow(),
    ],
    ids=["string", "path", "table", "snapshot", "dataset", "arrow"],
)
def test_a_table_is_a_path_a_handle_or_anything_that_duckdb_registers(
    path: str, source: Callable[[str], Any]
) -> None:
    assert bayou.sql("SELECT count(*) FROM orders", orders=source(path)).fetchall() == [(79,)]
    assert bayou.sql('FROM "my orders"', {"my orders": source(path)}).count("id").fetchall()


def test_from_names_paths(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = f"SELECT count(*) FROM '{path}' WHERE id IN (SELECT id FROM \"{path}\" WHERE id < 9)"
    assert bayou.sql(query).fetchall() == [(8,)]
    monkeypatch.chdir(Path(path).parent)
    assert bayou.sql("SELECT count(*) FROM './orders'").fetchall() == [(79,)]
    assert bayou.sql(f"WITH o AS (FROM '{path}') SELECT max(id) FROM o").fetchall() == [(79,)]


def test_names_of_with_clauses_arent_case_sensitive() -> None:
    assert table_names("WITH Recent AS (SELECT 1 AS id) SELECT * FROM recent, other") == ["other"]


def test_earlier_versions_are_queried(path: str) -> None:
    table = bayou.table(path)
    query = "SELECT id FROM before ANTI JOIN now USING (id)"
    found = bayou.sql(query, before=table.snapshot(FILES - 1), now=table)
    assert found.fetchall() == [(5,)]


def test_parameters_are_bound(path: str) -> None:
    query = "SELECT count(*) FROM orders WHERE id < $limit AND day = $day"
    found = bayou.sql(query, params={"limit": 15, "day": "d1"}, orders=path)
    assert found.fetchall() == [(5,)]
    assert bayou.sql("SELECT ? + 1", params=[2]).fetchall() == [(3,)]


def test_results_go_to_other_libraries(path: str) -> None:
    found = bayou.sql("SELECT id, day FROM orders WHERE id < 3 ORDER BY id", orders=path)
    assert found.df()["id"].tolist() == [0, 1, 2]
    assert found.pl()["id"].to_list() == [0, 1, 2]
    assert pa.table(found).column("id").to_pylist() == [0, 1, 2]


def test_results_are_written_to_a_table(path: str, tmp_path: Path) -> None:
    found = bayou.sql("SELECT day, count(*) AS orders FROM orders GROUP BY day", orders=path)
    bayou.write(str(tmp_path / "by_day"), found)
    assert bayou.table(str(tmp_path / "by_day")).to_arrow().num_rows == 2


def test_tables_are_registered_in_a_connection_of_the_caller(path: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE limits AS SELECT 3 AS id")
        query = "SELECT count(*) FROM orders JOIN limits USING (id)"
        assert bayou.sql(query, orders=path, connection=connection).fetchall() == [(1,)]
        assert connection.sql("SELECT count(*) FROM orders").fetchall() == [(79,)]


def test_times_are_in_utc(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"time": pa.array([3_600_000_000], pa.timestamp("us", "UTC"))}))
    assert bayou.sql('SELECT hour("time") FROM t', t=path).fetchall() == [(1,)]


@pytest.mark.parametrize(
    "query", ["DROP TABLE t", "CREATE TABLE t AS SELECT 1", "SELECT 1; SELECT 2", "", "SET x = 1"]
)
def test_only_one_query_is_accepted(query: str) -> None:
    with pytest.raises(ArgumentError, match="isn't one SELECT"):
        bayou.sql(query)


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        bayou.sql(f"FROM '{tmp_path}/nothing'")
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        bayou.sql("FROM t", t=tmp_path / "nothing")
    with pytest.raises(duckdb.CatalogException, match="nothing"):
        bayou.sql("FROM nothing")


def test_files_of_other_formats_are_left_to_duckdb(tmp_path: Path) -> None:
    (tmp_path / "days.csv").write_text("day,name\nd0,Monday\n")
    assert bayou.sql(f"FROM '{tmp_path}/days.csv'").fetchall() == [("d0", "Monday")]


def test_python_variables_arent_tables(path: str) -> None:
    orders = bayou.table(path).to_pyarrow_dataset()
    with pytest.raises(duckdb.CatalogException, match="orders"):
        bayou.sql("FROM orders")
    # DuckDB's own function finds them.
    assert duckdb.sql("SELECT count(*) FROM orders").fetchall() == [(79,)]
    assert orders.count_rows() == 79


def test_an_error_of_the_kernel_is_in_duckdbs_message(path: str) -> None:
    found = bayou.sql("SELECT sum(id) FROM orders", orders=path)
    Path(bayou.table(path).to_pyarrow_dataset().files[0]).unlink()
    with pytest.raises(duckdb.Error, match="is missing, although the log references it"):
        found.fetchall()


def test_without_duckdb_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'bayou\[duckdb\]'"):
        bayou.sql("SELECT 1")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with few kinds in its first file, none in the second, many in the third."""
    path = str(tmp_path_factory.mktemp("kinds") / "t")
    count = 120_000
    ids = range(count)
    few = pa.array([None if i % 11 == 0 else f"kind {i % 7}" for i in ids])
    mapped = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    rows = {"id": pa.array(ids, pa.int64()), "old": few, "name": [f"name {i}" for i in ids]}
    bayou.write(path, pa.table(rows), configuration=mapped)
    bayou.table(path).alter.rename_column("old", "kind")
    bayou.write(path, pa.table({"id": pa.array([-1, -2], pa.int64())}), mode="append")
    many = pa.array([f"kind {i}" for i in ids[:30_000]])
    bayou.write(path, pa.table({"id": rows["id"][:30_000], "kind": many}), mode="append")
    bayou.table(path).delete("id % 5 = 0")
    bayou.write(path, pa.table({"id": pa.array([-3], pa.int64()), "kind": ["é"]}), mode="append")
    return path


@pytest.mark.parametrize(
    "where",
    [
        "true",
        "kind = 'kind 3'",
        "kind IN ('kind 3', 'kind 77', 'é')",
        "kind > 'kind 5' AND id < 1000",
        "kind IS NULL",
        "kind IS NOT NULL AND id < 0",
        "kind LIKE '%d 6'",
        "kind = 'no such kind'",
        "kind <> 'kind 1'",
        "id = 3 OR kind = 'kind 2'",
    ],
)
def test_strings_with_few_values_are_grouped_as_dictionary_arrays(kinds: str, where: str) -> None:
    rows = bayou.table(kinds).to_arrow()
    query = f"SELECT kind, count(*), sum(id), min(name) FROM t WHERE {where} GROUP BY kind"
    with duckdb.connect() as connection:
        connection.register("t", rows)
        expected = sorted(connection.sql(query).fetchall(), key=str)
    assert sorted(bayou.sql(query, t=kinds).fetchall(), key=str) == expected


def test_a_column_in_dictionary_arrays_is_a_string_for_duckdb(kinds: str) -> None:
    types = bayou.sql("SELECT kind, name, id FROM t", t=kinds).types
    assert [str(kind) for kind in types] == ["VARCHAR", "VARCHAR", "BIGINT"]
    snapshot = bayou.table(kinds).snapshot()
    dataset = to_duckdb_dataset(for_path(kinds), snapshot.kernel)
    assert pa.types.is_dictionary(dataset.schema.field("kind").type)
    assert dataset.schema.field("name").type == pa.string()
    rows = dataset.to_table()
    assert rows.schema == dataset.schema
    assert rows.cast(snapshot.arrow_schema).equals(snapshot.to_arrow())
    selected = dataset.filter(pc.field("kind") == "kind 3").to_table(["kind", "id"])
    assert set(selected["kind"].to_pylist()) == {"kind 3"}


def test_a_file_that_is_missing_doesnt_prevent_registering_the_table(
    kinds: str, tmp_path: Path
) -> None:
    path = str(shutil.copytree(kinds, tmp_path / "t"))
    Path(bayou.table(path).to_pyarrow_dataset().files[0]).unlink()
    assert bayou.sql("SELECT id FROM t", t=path).columns == ["id"]
