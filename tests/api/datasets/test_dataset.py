"""Datasets of a table: rows, data skipping, streaming, and what pyarrow's C++ code can't do."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    DataFileError,
    PredicateError,
    SchemaError,
    UnsupportedFeatureError,
)
from support.file_counts import CountingReporter, counting_engine, reading_threads
from support.waiting import wait_until

FILES = 12
ROWS = 10


@pytest.fixture
def path(tmp_path: Path, written: str) -> str:
    """A table of 12 files with 10 rows each, partitioned by `day`."""
    return str(shutil.copytree(written, tmp_path / "t"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table that `path` copies."""
    path = str(tmp_path_factory.mktemp("written") / "t")
    for number in range(FILES):
        first = number * ROWS
        rows = pa.table(
            {
                "id": pa.array(range(first, first + ROWS), pa.int64()),
                "day": [f"d{number % 3}"] * ROWS,
                "text": [f"row {i}" for i in range(first, first + ROWS)],
            }
        )
        bayou.write(path, rows, partition_by=["day"])
    return path


def test_a_dataset_is_a_pyarrow_dataset_with_the_tables_schema_and_rows(path: str) -> None:
    snapshot = bayou.table(path).snapshot()
    dataset = snapshot.to_pyarrow_dataset()
    assert isinstance(dataset, pads.Dataset)
    assert dataset.schema.equals(snapshot.arrow_schema)
    assert dataset.to_table().equals(snapshot.to_arrow())


@pytest.mark.parametrize(
    ("expression", "files"),
    [
        (pc.field("id") == 15, 1),
        (pc.field("day") == "d1", 4),
        ((pc.field("day") == "d1") & (pc.field("id") < 30), 1),
        (pc.field("id").isin([3, 77]), 2),
        (~(pc.field("id") >= 20), 2),
        ((pc.field("id") < 10) | (pc.field("id") >= 110), 2),
        (pc.starts_with(pc.field("text"), "row 11"), 3),
        (pc.field("id").is_null(), 0),
        (pc.if_else(pc.field("id").is_valid(), pc.field("id") < 10, None), 1),
        (pc.field("id") * 2 < 10, FILES),
        (pc.scalar(False), 0),
    ],
    ids=str,
)
def test_a_filter_skips_files(path: str, expression: Any, files: int) -> None:
    reporter = CountingReporter()
    table = bayou.table(path, engine=counting_engine(reporter))
    found = table.to_pyarrow_dataset().to_table(filter=expression)
    assert found.equals(bayou.table(path).to_arrow().filter(expression))
    assert reporter.data_files == files


def test_only_requested_columns_and_columns_of_the_filter_are_read(path: str) -> None:
    dataset = bayou.table(path).to_pyarrow_dataset()
    found = dataset.to_table(columns=["text"], filter=pc.field("id") == 15)
    assert found.to_pydict() == {"text": ["row 15"]}
    doubled = dataset.to_table(columns={"x": pc.field("id") * 2}, filter=pc.field("id") == 15)
    assert doubled.to_pydict() == {"x": [30]}
    assert dataset.to_table(columns=[], filter=pc.field("id") < 7).num_rows == 7


def test_a_condition_of_the_dataset_and_filters_of_a_query_are_combined(path: str) -> None:
    dataset = bayou.table(path).to_pyarrow_dataset(filter="day = 'd1' AND id % 2 = 0")
    assert len(dataset.files) == 4
    assert dataset.count_rows() == 20
    narrow = dataset.filter(pc.field("id") > 30).filter(pc.field("id") < 50)
    assert narrow.to_table(["id"]).column("id").to_pylist() == [40, 42, 44, 46, 48]
    assert narrow.count_rows(pc.field("id") == 42) == 1
    assert "day = 'd1'" not in repr(narrow)
    by_tuples = bayou.table(path).to_pyarrow_dataset([("day", "=", "d1")], filter="id % 2 = 0")
    assert by_tuples.count_rows() == 20


def test_a_dataset_stays_at_its_version(path: str) -> None:
    dataset = bayou.table(path).to_pyarrow_dataset(version=1)
    bayou.table(path).delete("id < 100")
    assert dataset.count_rows() == 2 * ROWS
    assert dataset.to_table().num_rows == 2 * ROWS


def test_rows_are_counted_without_reading_data_files(path: str) -> None:
    reporter = CountingReporter()
    table = bayou.table(path, engine=counting_engine(reporter))
    assert table.to_pyarrow_dataset().count_rows() == FILES * ROWS
    assert reporter.data_files == 0


def test_methods_of_pyarrow_that_return_rows_work(path: str) -> None:
    dataset = bayou.table(path).to_pyarrow_dataset()
    assert dataset.head(3).num_rows == 3
    assert dataset.head(0).num_rows == 0
    assert dataset.head(3, filter=pc.field("id") == 5).num_rows == 1
    assert dataset.take([0, 1]).num_rows == 2
    sizes = [batch.num_rows for batch in dataset.to_batches(batch_size=4)]
    assert max(sizes) == 4
    assert sum(sizes) == FILES * ROWS
    ordered = dataset.sort_by([("id", "descending")]).to_table()
    assert ordered.column("id")[0].as_py() == FILES * ROWS - 1
    joined = dataset.join(dataset, "id", right_suffix="_r", join_type="inner").to_table()
    assert joined.num_rows == FILES * ROWS


def test_a_dataset_is_written_by_pyarrow(path: str, tmp_path: Path) -> None:
    dataset = bayou.table(path).to_pyarrow_dataset().filter(pc.field("id") < 25)
    pads.write_dataset(dataset, str(tmp_path / "copy"), format="parquet")
    assert pads.dataset(str(tmp_path / "copy")).count_rows() == 25
    scanner = dataset.scanner(columns=["id"])
    pads.write_dataset(scanner, str(tmp_path / "ids"), format="parquet")
    assert pads.dataset(str(tmp_path / "ids")).count_rows() == 25
    assert scanner.head(3).num_rows == 3
    assert scanner.to_table().num_rows == scanner.count_rows() == 25


@pytest.mark.parametrize(
    "access",
    [
        lambda dataset: list(dataset.get_fragments()),
        lambda dataset: dataset.replace_schema(dataset.schema),
        lambda dataset: pads.Scanner.from_dataset(dataset).to_table(),
        lambda dataset: pads.dataset([dataset, dataset]).to_table(),
    ],
)
def test_access_without_the_kernel_is_an_error(
    path: str, access: Callable[[pads.Dataset], object]
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"Use scanner\(\)"):
        access(bayou.table(path).to_pyarrow_dataset())


def test_a_dataset_is_not_pickled(path: str) -> None:
    with pytest.raises(TypeError, match="Create it in the process that reads it"):
        pickle.dumps(bayou.table(path).to_pyarrow_dataset())


def test_an_invalid_condition_is_an_error_at_once(path: str) -> None:
    with pytest.raises(PredicateError, match="nope"):
        bayou.table(path).to_pyarrow_dataset(filter="nope = 1")


def test_wrong_arguments_of_a_scanner_are_errors(path: str) -> None:
    dataset = bayou.table(path).to_pyarrow_dataset()
    with pytest.raises(SchemaError, match="Did you mean 'text'"):
        dataset.to_table(columns=["txt"])
    with pytest.raises(ArgumentError, match="isn't a pyarrow expression"):
        dataset.scanner(filter="id > 3")
    with pytest.raises(pa.ArrowInvalid, match="nope"):
        dataset.to_table(filter=pc.field("nope") == 1)


def test_a_table_without_rows_has_a_dataset(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    bayou.write(path, pa.schema([("id", pa.int64())]).empty_table())
    dataset = bayou.table(path).to_pyarrow_dataset()
    assert dataset.to_table().num_rows == dataset.count_rows() == 0
    assert dataset.to_table(columns={"x": pc.field("id") * 2}).schema.types == [pa.int64()]
    assert bayou.sql("SELECT max(id) FROM t WHERE id > 1", t=path).fetchall() == [(None,)]
    assert bayou.scan_polars(path).collect().width == 1


def test_a_missing_data_file_is_the_error_of_the_kernel(path: str) -> None:
    dataset = bayou.table(path).to_pyarrow_dataset()
    Path(dataset.files[5]).unlink()
    with pytest.raises(DataFileError, match="is missing"):
        dataset.to_table()


def test_rows_are_streamed_and_an_abandoned_stream_stops(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 200_000)  # a file of 1.6 MB
    for _ in range(20):
        bayou.write(path, pa.table({"id": numbers}))
    reporter = CountingReporter()
    table = bayou.table(path, engine=counting_engine(reporter))
    reader = table.to_pyarrow_dataset().scanner(batch_readahead=1).to_reader()
    assert next(reader).num_rows > 0
    del reader
    wait_until(lambda: reading_threads() == 0)
    assert reporter.data_files < 10


ABANDONED = """
import sys
import bayou, polars as pl, pyarrow.compute as pc
table = bayou.table(sys.argv[1])
dataset = table.to_pyarrow_dataset()
rows = pl.scan_pyarrow_dataset(dataset, batch_size=100).head(10).collect()
rows = bayou.scan_polars(table).head(3).collect()
stream = dataset.scanner(filter=pc.field("id") > 5, batch_size=100).to_reader()
stream.read_next_batch()
batches = dataset.to_batches(batch_size=100)
next(batches)
query = bayou.sql("SELECT * FROM t", t=table).to_arrow_reader(100)
query.read_next_batch()
print("exit")
"""


@pytest.mark.process
def test_a_process_exits_while_streams_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 200_000)
    for _ in range(6):
        bayou.write(path, pa.table({"id": numbers}))
    assert program_output(ABANDONED, path).split() == ["exit"]


MEASURED = """
import resource, sys
import bayou, duckdb, polars as pl
path = sys.argv[1]
assert bayou.sql("SELECT sum(id) FROM t", t=path).fetchall()
assert bayou.scan_polars(path).select(pl.col("id").sum()).collect(engine="streaming").height == 1
assert sum(b.num_rows for b in bayou.table(path).to_pyarrow_dataset().to_batches()) > 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.process
@pytest.mark.slow
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    numbers = np.random.default_rng(1).integers(0, 1 << 60, (4, 500_000))  # a file of 16 MB
    columns = {f"c{n}": column for n, column in enumerate(numbers)}
    peaks = []
    for files in (4, 16):  # 64 MB and 256 MB of rows
        while not bayou.table(path).exists() or bayou.table(path).snapshot().version < files - 1:
            bayou.write(path, pa.table({"id": numbers[0], **columns}))
        peaks.append(int(program_output(MEASURED, path)) << 10)
    assert peaks[1] < peaks[0] + (120 << 20)


def program_output(program: str, path: str) -> str:
    environment = {**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableDeletionVectors": "true"},
        {"delta.columnMapping.mode": "name"},
        {"delta.enableRowTracking": "true"},
    ],
    ids=str,
)
def test_tables_with_reader_features_have_datasets(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "old": ["x"] * 100})
    bayou.write(path, rows, configuration=properties)
    table = bayou.table(path)
    table.delete("id % 10 = 3")
    if "delta.columnMapping.mode" in properties:
        table.alter.rename_column("old", "new name")
    dataset = table.to_pyarrow_dataset()
    assert dataset.to_table().equals(table.to_arrow())
    assert dataset.count_rows() == 90
    assert dataset.to_table(filter=pc.field("id") == 3).num_rows == 0


def test_widened_columns_have_datasets(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    bayou.write(
        path,
        pa.table({"id": pa.array([1, 2], pa.int32())}),
        configuration={"delta.enableTypeWidening": "true"},
    )
    bayou.table(path).alter.change_type("id", "long")
    bayou.write(path, pa.table({"id": pa.array([2**40], pa.int64())}))
    dataset = bayou.table(path).to_pyarrow_dataset()
    assert sorted(dataset.to_table().column("id").to_pylist()) == [1, 2, 2**40]
    assert dataset.to_table(filter=pc.field("id") > 2).column("id").to_pylist() == [2**40]


def test_the_engine_of_a_dataset_is_the_tables(path: str) -> None:
    engine = for_path(path)
    assert bayou.table(path, engine=engine).to_pyarrow_dataset().count_rows() == FILES * ROWS
