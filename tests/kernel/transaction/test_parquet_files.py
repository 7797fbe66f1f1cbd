"""What data files look like to others: how many, where, and how Parquet is written."""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import TransactionState, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.data_writer import data_writer


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "table")


def data_files(path: str) -> list[Path]:
    return sorted(Path(path).rglob("*.parquet"))


def footer(path: str) -> pq.FileMetaData:
    (file,) = data_files(path)
    return pq.read_metadata(file)


class CountingFiles:
    """The engine's files, which notes how many are being written."""

    def __init__(self, files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self.open = self.most = 0

    def __getattr__(self, name: str):
        return getattr(self._files, name)

    def open_output(self, path: str) -> AbstractContextManager[IO[bytes]]:
        @contextmanager
        def counted() -> Iterator[IO[bytes]]:
            with self._lock:
                self.open += 1
                self.most = max(self.most, self.open)
            try:
                with self._files.open_output(path) as sink:
                    yield sink
            finally:
                with self._lock:
                    self.open -= 1

        return counted()


def test_a_partition_gets_one_file_also_where_its_rows_do_not_fit_into_memory(path, monkeypatch):
    monkeypatch.setattr(data_writer, "_BUFFERED_BYTES", 100_000)
    local = ArrowEngine()
    files = CountingFiles(local.files)
    engine = ArrowEngine(files=files, parquet=type(local.parquet)(files, None))
    rows = pa.table({"n": range(40_000), "p": [f"{n % 60:02d}" for n in range(40_000)]})
    state = TransactionState(
        table=path,
        schema=from_arrow_schema(rows.schema),
        partition_columns=("p",),
        configuration={},
    )
    adds = write_data(engine, state, rows.to_batches(max_chunksize=2_000))
    assert len(data_files(path)) == len(adds) == 60
    assert 1 <= files.most <= 8
    (found,) = (Path(path) / "p=07").iterdir()
    numbers = pq.ParquetFile(found).read()["n"].to_pylist()
    assert numbers == [n for n in range(40_000) if n % 60 == 7]


@pytest.mark.parametrize("partition_by", [None, ["p"]])
def test_files_have_about_the_size_that_the_table_wants(path, partition_by):
    numbers = [n * 7919 % 1_000_003 for n in range(400_000)]
    batches = pa.table({"n": numbers, "p": ["x"] * 400_000}).to_reader(max_chunksize=10_000)
    wanted = {"delta.targetFileSize": "200kb"}
    bayou.write(path, batches, partition_by=partition_by, configuration=wanted)
    sizes = [file.stat().st_size for file in data_files(path)]
    assert len(sizes) > 2
    assert all(200_000 <= size < 400_000 for size in sorted(sizes)[1:])
    assert bayou.table(path).to_arrow().num_rows == 400_000


def test_a_row_group_has_at_most_a_million_rows(path):
    bayou.write(path, pa.table({"n": pa.array(range(2_200_000), pa.int32())}))
    found = footer(path)
    rows = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
    assert sum(rows) == 2_200_000
    assert len(rows) == 3
    assert max(rows) <= 1 << 20


@pytest.mark.parametrize(
    ("codec", "in_file", "in_name"),
    [
        (None, "ZSTD", ".zstd"),
        ("zstd", "ZSTD", ".zstd"),
        ("SNAPPY", "SNAPPY", ".snappy"),
        ("gzip", "GZIP", ".gz"),
        ("uncompressed", "UNCOMPRESSED", ""),
    ],
)
def test_the_tables_codec_compresses_and_stands_in_the_name(path, codec, in_file, in_name):
    properties = {} if codec is None else {"delta.parquet.compression.codec": codec}
    bayou.write(path, pa.table({"n": [1, 2]}), configuration=properties)
    assert footer(path).row_group(0).column(0).compression == in_file
    uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    (file,) = data_files(path)
    assert re.fullmatch(rf"part-00000-{uuid}-c000{re.escape(in_name)}\.parquet", file.name)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_field_ids_stand_in_files_where_columns_are_mapped(path, mode):
    rows = pa.table({"n": [1], "s": [{"x": 1}]})
    bayou.write(path, rows, configuration={"delta.columnMapping.mode": mode})
    (file,) = data_files(path)
    schema = pq.read_schema(file)
    nested = schema.field(1).type.field(0)
    found = [(f.metadata or {}).get(b"PARQUET:field_id") for f in (*schema, nested)]
    if mode == "none":
        assert found == [None, None, None]
        assert schema.names == ["n", "s"]
    else:
        assert found == [b"1", b"2", b"3"]
        assert all(name.startswith("col-") for name in schema.names)


def test_timestamps_are_microseconds_that_say_whether_they_are_in_utc(path):
    moment = dt.datetime(2024, 1, 5, 12, 30, 1, 123456)
    rows = pa.table(
        {
            "t": pa.array([moment], pa.timestamp("us", "UTC")),
            "n": pa.array([moment], pa.timestamp("us")),
            "ns": pa.array([moment], pa.timestamp("ns", "Europe/Berlin")),
            "ms": pa.array([moment], pa.timestamp("ms")),
        }
    )
    bayou.write(path, rows)
    columns = footer(path).schema
    kinds = {columns.column(i).name: columns.column(i) for i in range(4)}
    for name, adjusted in {"t": "true", "n": "false", "ns": "true", "ms": "false"}.items():
        assert kinds[name].physical_type == "INT64"
        assert "timeUnit=microseconds" in str(kinds[name].logical_type)
        assert f"isAdjustedToUTC={adjusted}" in str(kinds[name].logical_type)
