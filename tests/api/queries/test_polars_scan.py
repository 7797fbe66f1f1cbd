"""`bayou.scan_polars`: lazy frames whose columns and filters reach the kernel."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, DataFileError, PrerequisiteError, TableNotFoundError
from support.file_counts import CountingReporter, counting_engine

FILES, ROWS = 8, 10
ID = pl.col("id")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of 8 files with 10 rows each, partitioned by `day`, with deletion vectors."""
    path = str(tmp_path / "t")
    for number in range(FILES):
        first = number * ROWS
        rows = pa.table(
            {
                "id": pa.array(range(first, first + ROWS), pa.int64()),
                "day": pa.array([dt.date(2024, 1, 1 + number % 2)] * ROWS),
                "text": [f"row {i}" for i in range(first, first + ROWS)],
                "x": [float("nan") if i % ROWS == 0 else float(i) for i in range(ROWS)],
            }
        )
        properties = {"delta.enableDeletionVectors": "true"}
        bayou.write(path, rows, partition_by=["day"], configuration=properties)
    bayou.table(path).delete("id = 5")
    return path


def test_a_frame_has_the_tables_rows_and_types(path: str) -> None:
    expected = pl.from_arrow(bayou.table(path).to_arrow())
    assert isinstance(expected, pl.DataFrame)
    frame = bayou.scan_polars(path)
    assert isinstance(frame, pl.LazyFrame)
    assert frame.collect_schema() == expected.schema
    assert frame.collect().equals(expected)
    assert frame.collect(engine="streaming").sort("id").equals(expected.sort("id"))


@pytest.mark.parametrize(
    ("predicate", "files"),
    [
        (ID == 15, 1),
        (pl.col("day") == dt.date(2024, 1, 2), 4),
        (ID.is_between(18, 21), 2),
        (ID.is_in([3, 77]), 2),
        ((ID < 10) & (pl.col("text").str.contains("7")), 1),
        (ID.is_null(), 0),
        (ID + 1 == 16, FILES),
        (pl.col("x") > 100, FILES),
        (pl.col("x") < 0, 0),
    ],
    ids=str,
)
def test_a_filter_skips_files_and_polars_filters_the_rows(
    path: str, predicate: pl.Expr, files: int
) -> None:
    reporter = CountingReporter()
    table = bayou.table(path, engine=counting_engine(reporter))
    expected = pl.from_arrow(bayou.table(path).to_arrow())
    assert isinstance(expected, pl.DataFrame)
    found = bayou.scan_polars(table).filter(predicate).collect()
    assert found.equals(expected.filter(predicate))
    assert reporter.data_files == files


def test_a_projected_frame_reads_only_its_columns(path: str) -> None:
    frame = bayou.scan_polars(path).filter(pl.col("text") == "row 7").select("id")
    assert frame.collect()["id"].to_list() == [7]
    assert bayou.scan_polars(path).select(pl.len()).collect().item() == FILES * ROWS - 1


def test_a_limit_reads_few_files(path: str) -> None:
    reporter = CountingReporter()
    table = bayou.table(path, engine=counting_engine(reporter))
    assert bayou.scan_polars(table).head(3).collect().height == 3
    assert reporter.data_files == 1


def test_a_limit_counts_rows_before_a_later_filter(path: str) -> None:
    everything = bayou.scan_polars(path).collect()
    for count in (3, 25):
        found = bayou.scan_polars(path).head(count).filter(ID < 15).collect()
        assert found.equals(everything.head(count).filter(ID < 15))
        found = bayou.scan_polars(path).filter(ID < 15).head(count).collect()
        assert found.equals(everything.filter(ID < 15).head(count))


def test_a_frame_stays_at_its_version(path: str) -> None:
    frame = bayou.scan_polars(path, version=0)
    bayou.table(path).delete()
    assert frame.select(pl.len()).collect().item() == ROWS
    assert bayou.scan_polars(bayou.table(path).snapshot(1)).collect().height == 2 * ROWS


def test_frames_are_joined_with_themselves(path: str) -> None:
    frame = bayou.scan_polars(path)
    joined = frame.join(frame.filter(ID < 5), on="id").collect()
    assert sorted(joined["id"].to_list()) == [0, 1, 2, 3, 4]


def test_polars_scans_the_dataset_of_a_table(path: str) -> None:
    reporter = CountingReporter()
    dataset = bayou.table(path, engine=counting_engine(reporter)).to_pyarrow_dataset()
    frame = pl.scan_pyarrow_dataset(dataset).filter(ID == 15).select("text")
    assert frame.collect()["text"].to_list() == ["row 15"]
    assert reporter.data_files == 1


def test_errors_are_those_of_the_kernel(path: str, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        bayou.scan_polars(tmp_path / "nothing")
    frame = bayou.scan_polars(path)
    Path(bayou.table(path).to_pyarrow_dataset().files[0]).unlink()
    with pytest.raises((DataFileError, pl.exceptions.ComputeError), match="is missing"):
        frame.collect()  # Polars before 2 raises an error of its own with the message


@pytest.mark.parametrize("arguments", [{"version": 0}, {"storage_options": {"a": "b"}}], ids=str)
def test_arguments_that_contradict_a_handle_are_refused(
    path: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ArgumentError):
        bayou.scan_polars(bayou.table(path).snapshot(), **arguments)


def test_without_polars_the_error_says_what_to_install(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'bayou\[polars\]'"):
        bayou.scan_polars(path)
