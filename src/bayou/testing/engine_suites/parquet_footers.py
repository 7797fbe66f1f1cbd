"""Tests of `ParquetHandler.read_footer`."""

from __future__ import annotations

import datetime as dt
import io
import math
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.errors import FileMissingError, StorageError
from bayou.kernel.engine import FIELD_ID_KEY, Engine, FileStatus, ParquetFooter
from bayou.testing.engine_suites.fixtures import HandlerSuite
from bayou.testing.engine_suites.parquet_files import field_with_id, put, write


def _footer(engine: Engine, root: str, table: pa.Table, **options: Any) -> ParquetFooter:
    split = write(engine, root, table, **options)
    status = FileStatus(path=split.path, size=split.size, modification_time=0)
    return engine.parquet.read_footer(status, table.schema.names)


def _by_parquet_mr(table: pa.Table, *, has_nan: bool) -> bytes:
    """Return the bytes of a Parquet file whose footer names parquet-mr as the writer.

    If `has_nan` is true, the value 2.0 in the footer's statistics is replaced by NaN.
    """
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    data = sink.getvalue()
    length = int.from_bytes(data[-8:-4], "little") + 8
    footer = data[-length:].replace(b"parquet-cpp-arrow version", b"parquet-mr version 1.15.0")
    if has_nan:
        footer = footer.replace(struct.pack("<d", 2.0), struct.pack("<d", math.nan))
    return data[:-length] + footer


class ParquetFooterSuite(HandlerSuite):
    """Tests the contract of `ParquetHandler.read_footer`."""

    def test_a_footer_has_the_schema_with_field_ids(self, engine: Engine, root: str) -> None:
        schema = pa.schema([field_with_id("a", pa.int32(), 7), pa.field("s", pa.string(), False)])
        actual = _footer(engine, root, pa.table([[1], ["x"]], schema=schema)).schema
        assert actual.names == ["a", "s"]
        assert actual.types == [pa.int32(), pa.string()]
        assert (actual.field("a").metadata or {})[FIELD_ID_KEY] == b"7"
        assert not actual.field("s").nullable

    def test_a_footer_has_statistics(self, engine: Engine, root: str) -> None:
        table = pa.table({"n": [3, None, 1], "s": ["b", "a", "c"], "l": [[1], [], None]})
        actual = _footer(engine, root, table).statistics
        assert actual.num_records == 3
        assert {k: actual.min_values[k] for k in ("n", "s")} == {"n": 1, "s": "a"}
        assert {k: actual.max_values[k] for k in ("n", "s")} == {"n": 3, "s": "c"}
        assert actual.null_count["n"] == 1
        assert "l" not in actual.null_count

    def test_a_footer_has_statistics_of_the_columns_asked_for(
        self, engine: Engine, root: str
    ) -> None:
        split = write(engine, root, pa.table({"n": [1], "m": [2]}))
        status = FileStatus(path=split.path, size=split.size, modification_time=0)
        actual = engine.parquet.read_footer(status, ["m"]).statistics
        assert dict(actual.min_values) == {"m": 2}
        assert dict(engine.parquet.read_footer(status).statistics.min_values) == {}
        everything = engine.parquet.read_footer(status, None).statistics
        assert dict(everything.min_values) == {"n": 1, "m": 2}

    def test_a_footer_has_no_maximum_of_floats(self, engine: Engine, root: str) -> None:
        for values in ([1.0, math.nan], [1.0, 2.0]):
            actual = _footer(engine, root, pa.table({"x": values})).statistics
            assert "x" not in actual.max_values

    def test_a_footer_of_a_writer_that_counts_nan_in_has_one(
        self, engine: Engine, root: str
    ) -> None:
        for values, expected in (([1.0, 2.0], {"x": 2.0}), ([1.0, math.nan, 2.0], {})):
            data = _by_parquet_mr(pa.table({"x": values}), has_nan=not expected)
            split = put(engine, root, data)
            status = FileStatus(path=split.path, size=split.size, modification_time=0)
            actual = engine.parquet.read_footer(status, ["x"]).statistics
            assert dict(actual.min_values) == {"x": 1.0}
            assert dict(actual.max_values) == expected

    def test_int96_is_an_instant(self, engine: Engine, root: str) -> None:
        timestamp = dt.datetime(2024, 2, 29, 12)  # noqa: DTZ001 - INT96 has no zone
        table = pa.table({"n": [1], "s": [{"t": timestamp}], "t": [timestamp]})
        actual = _footer(engine, root, table, use_deprecated_int96_timestamps=True)
        assert actual.schema.field("t").type == pa.timestamp("us", "UTC")
        assert actual.schema.field("s").type.field("t").type == pa.timestamp("us", "UTC")

    def test_a_footer_has_the_writers_metadata(self, engine: Engine, root: str) -> None:
        table = pa.table({"n": [1]}).replace_schema_metadata({"mine": "ü"})
        assert _footer(engine, root, table, store_schema=True).key_value_metadata["mine"] == "ü"

    def test_what_is_no_parquet_file_has_no_footer(self, engine: Engine, root: str) -> None:
        split = put(engine, root, b"PAR1 and no more")
        status = FileStatus(path=split.path, size=split.size, modification_time=0)
        with pytest.raises(StorageError, match=r"file\.parquet"):
            engine.parquet.read_footer(status)
        missing = FileStatus(path=f"{root}/none.parquet", size=10, modification_time=0)
        with pytest.raises(FileMissingError):
            engine.parquet.read_footer(missing)
