"""Spark with Iceberg's runtime, and DuckDB, read tables that Bayou writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from iceberg.conftest import READERS, IcebergReaders

import bayou
from support.iceberg_tables import ICEBERG, ICEBERG_V3, comparable_rows, iceberg_table, write

AT = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
COLUMNS = {
    "id": pa.array([1, 2, None], pa.int64()),
    "byte": pa.array([1, -128, None], pa.int8()),
    "short": pa.array([1, -1, None], pa.int16()),
    "number": pa.array([1, -1, None], pa.int32()),
    "single": pa.array([0.1, -0.0, None], pa.float32()),
    "ratio": pa.array([0.1, 1e300, None], pa.float64()),
    "flag": pa.array([True, False, None]),
    "text": pa.array(["x" * 100, "\U0001f600", None]),
    "bytes": pa.array([b"\0", b"\xff", None]),
    "price": pa.array([Decimal("1.50"), Decimal("-9.99"), None], pa.decimal128(9, 2)),
    "large": pa.array([Decimal(10**37), Decimal(-1), None], pa.decimal128(38, 0)),
    "day": pa.array([dt.date(2024, 1, 1), dt.date(1960, 1, 1), None]),
    "instant": pa.array([AT, dt.datetime(1960, 1, 1, tzinfo=dt.UTC), None]),
    "local": pa.array([AT.replace(tzinfo=None), None, None], pa.timestamp("us")),
    "point": pa.array([{"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, None]),
    "list": pa.array([[[1, 2], []], [], None], pa.list_(pa.list_(pa.int32()))),
    "map": pa.array(
        [[("k", [{"v": 1}])], [], None],
        pa.map_(pa.string(), pa.list_(pa.struct([("v", pa.int64())]))),
    ),
}
PARTS = ["plain", "a b", "c/d", "e=f", "50%", "ü", "#?", None]


@pytest.fixture(params=[ICEBERG, ICEBERG_V3], ids=["version-2", "version-3"])
def configuration(request: Any) -> dict[str, str]:
    return dict(request.param)


@pytest.fixture(params=READERS)
def reader(request: Any) -> str:
    return str(request.param)


def assert_read(readers: IcebergReaders, reader: str, path: Path, where: str | None = None) -> None:
    expected = bayou.table(path).to_arrow(filter=where)
    assert comparable_rows(readers.read(reader, path, where=where)) == comparable_rows(expected)


def test_every_type(
    readers: IcebergReaders, reader: str, tmp_path: Path, configuration: dict[str, str]
) -> None:
    path = tmp_path / "table"
    write(path, COLUMNS, configuration=configuration)
    assert_read(readers, reader, path)


def test_partitions(
    readers: IcebergReaders, reader: str, tmp_path: Path, configuration: dict[str, str]
) -> None:
    path = tmp_path / "table"
    columns = {"id": pa.array(range(len(PARTS)), pa.int64()), "part": PARTS}
    write(path, columns, partition_by=["part"], configuration=configuration)
    assert_read(readers, reader, path)
    for part in PARTS[:-1]:
        assert_read(readers, reader, path, f"part = '{part}'")
    assert_read(readers, reader, path, "part is null")


def test_a_history(
    readers: IcebergReaders, reader: str, tmp_path: Path, configuration: dict[str, str]
) -> None:
    path = tmp_path / "table"
    rows = {"id": pa.array(range(20), pa.int64()), "part": ["a", "b"] * 10}
    write(path, rows, partition_by=["part"], configuration=configuration)
    table = bayou.table(path)
    write(path, rows)
    table.delete("id % 5 = 0")
    assert_read(readers, reader, path)
    table.update({"part": "'c'"}, predicate="id = 7")
    assert_read(readers, reader, path)
    source = pa.table({"id": pa.array([3, 99], pa.int64()), "part": ["new", "new"]})
    merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    assert_read(readers, reader, path)
    table.alter.add_columns({"note": "string"})
    table.alter.rename_column("id", "number")
    write(path, {"number": pa.array([5], pa.int64()), "part": ["d"], "note": ["n"]})
    assert_read(readers, reader, path)
    assert_read(readers, reader, path, "number > 90")
    table.optimize()
    assert_read(readers, reader, path)
    table.restore(2)
    assert_read(readers, reader, path)
    write(path, rows, mode="overwrite")
    assert_read(readers, reader, path)


def test_time_travel(
    readers: IcebergReaders, reader: str, tmp_path: Path, configuration: dict[str, str]
) -> None:
    path = tmp_path / "table"
    rows = {"id": pa.array(range(20), pa.int64())}
    write(path, rows, configuration=configuration)
    bayou.table(path).delete("id < 5")
    write(path, rows, mode="overwrite")
    for snapshot in iceberg_table(path).metadata.snapshots:
        version = int(snapshot.summary["delta-version"])
        read = readers.read(reader, path, snapshot=snapshot.snapshot_id)
        expected = bayou.table(path).snapshot(version).to_arrow()
        assert comparable_rows(read) == comparable_rows(expected)


@pytest.mark.parametrize(
    "where",
    [
        "id > 15",
        "id = 25",
        "id < 0",
        "text = '005'",
        "text > '019'",
        "part = '10'",
        "empty is not null",
        "empty > 2",
        "point.x = 12",
        "instant >= TIMESTAMP'2024-01-20 00:00:00'",
        "day < DATE'2024-01-05'",
        "price <= 5.25",
    ],
)
def test_spark_skips_the_same_files(
    readers: IcebergReaders, tmp_path: Path, configuration: dict[str, str], where: str
) -> None:
    path = tmp_path / "table"
    for start in (0, 10, 20):
        numbers = range(start, start + 10)
        columns = {
            "id": pa.array(numbers, pa.int64()),
            "text": [f"{n:03}" for n in numbers],
            "empty": pa.array([None if start else 1.5] * 10, pa.float64()),
            "part": [str(start)] * 10,
            "point": [{"x": n} for n in numbers],
            "instant": [dt.datetime(2024, 1, 1 + n, 1, 1, 1, 7, tzinfo=dt.UTC) for n in numbers],
            "day": [dt.date(2024, 1, 1 + n) for n in numbers],
            "price": pa.array([Decimal(n) / 2 for n in numbers], pa.decimal128(9, 2)),
        }
        write(path, columns, partition_by=["part"], configuration=configuration)
    assert_read(readers, "spark", path, where)
    assert readers.files == bayou.table(path).snapshot().files(filter=where).num_rows


def test_the_minimum_and_the_maximum_in_spark_are_exact(
    readers: IcebergReaders, tmp_path: Path, configuration: dict[str, str]
) -> None:
    instants = [dt.datetime(2024, 1, day, 1, 1, 1, 234_567, tzinfo=dt.UTC) for day in (1, 2)]
    path = tmp_path / "table"
    write(path, {"instant": instants, "zero": [0.0, 0.0]}, configuration=configuration)
    read = readers.aggregates(path, "min(instant)", "max(instant)", "string(min(zero))", "count(*)")
    assert [column[0].as_py() for column in read.columns] == [*instants, "0.0", 2]
