"""Tests of writing with `ParquetHandler`."""

from __future__ import annotations

import datetime as dt
import io
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.errors import FileMissingError
from bayou.kernel.engine import (
    FIELD_ID_KEY,
    VARIANT_KEY,
    ByteRange,
    DataFileStatus,
    Engine,
    ParquetWriteOptions,
)
from bayou.protocol.stats import FileStatistics
from bayou.testing.engine_suites.fixtures import HandlerSuite

_NAME = re.compile(
    r"part-\d{5}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"-c\d{3}(\.[a-z0-9]+)?\.parquet"
)


class ParquetWritingSuite(HandlerSuite):
    """Tests the contract of `write_parquet_files` and `write_parquet_file_atomically`."""

    def test_what_is_written_can_be_read(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict(
            {
                "i": [1, None, 3],
                "s": ["a", None, "ü"],
                "n": [{"x": [1.5]}, None, {"x": None}],
                "t": pa.array([0, None, 10**15], pa.timestamp("us", "UTC")),
                "d": pa.array([Decimal("1.25"), None, Decimal(0)], pa.decimal128(20, 2)),
            }
        )
        (status,) = _write(engine, root, [batch])
        assert engine.files.status(status.path).size == status.size
        assert abs(
            engine.files.status(status.path).modification_time - status.modification_time
        ) < (10_000)
        assert _table(engine, status.path).to_pylist() == batch.to_pylist()

    def test_files_have_the_names_that_delta_writers_give(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict({"i": [1]})
        for codec in ("zstd", "snappy", "none"):
            options = ParquetWriteOptions(compression=codec)
            (status,) = _write(engine, f"{root}/a=1", [batch], options=options)
            folder, _, name = status.path.rpartition("/")
            assert folder == f"{root}/a=1"
            assert _NAME.fullmatch(name)
            footer = _footer(engine, status.path)
            compression = footer.row_group(0).column(0).compression
            assert compression == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())

    def test_no_rows_make_no_file(self, engine: Engine, root: str) -> None:
        empty = pa.RecordBatch.from_pydict({"i": pa.array([], pa.int64())})
        assert _write(engine, root, []) == []
        assert _write(engine, root, [empty, empty]) == []

    def test_a_file_that_is_large_enough_is_followed_by_another(
        self, engine: Engine, root: str
    ) -> None:
        batches = [
            pa.RecordBatch.from_pydict({"i": list(range(1000 * n, 1000 * n + 1000))})
            for n in range(8)
        ]
        options = ParquetWriteOptions(target_file_size=10_000, compression="none")
        statuses = _write(engine, root, batches, ["i"], options)
        assert len(statuses) > 1
        assert len({status.path for status in statuses}) == len(statuses)
        counts = [_statistics(status).num_records for status in statuses]
        assert sum(counts) == 8000
        tables = [_table(engine, status.path) for status in statuses]
        assert [v for t in tables for v in t.column("i").to_pylist()] == list(range(8000))
        for status, table in zip(statuses, tables, strict=True):
            values = table.column("i").to_pylist()
            assert _statistics(status).min_values == {"i": values[0]}
            assert _statistics(status).max_values == {"i": values[-1]}

    def test_no_file_has_more_rows_than_it_may(self, engine: Engine, root: str) -> None:
        batches = [
            pa.RecordBatch.from_pydict({"i": list(range(700 * n, 700 * n + 700))}) for n in range(4)
        ]
        options = ParquetWriteOptions(max_rows_per_file=500)
        statuses = _write(engine, root, batches, ["i"], options)
        counts = [_statistics(status).num_records for status in statuses]
        assert sum(counts) == 2800
        assert max(counts) <= 500
        tables = [_table(engine, status.path) for status in statuses]
        assert [v for t in tables for v in t.column("i").to_pylist()] == list(range(2800))

    def test_statistics_cover_every_type_that_has_an_order(self, engine: Engine, root: str) -> None:
        first = dt.datetime(2024, 1, 5, 10, 0, 0, 123_456, tzinfo=dt.UTC)
        columns: dict[str, tuple[pa.DataType, list[Any]]] = {
            "byte": (pa.int8(), [-128, 127]),
            "long": (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
            "float": (pa.float32(), [-1.5, math.inf]),
            "double": (pa.float64(), [-math.inf, 0.1]),
            "small": (pa.decimal128(5, 2), [Decimal("-1.25"), Decimal("10.00")]),
            "large": (pa.decimal128(38, 10), [Decimal(-5), Decimal(10**20)]),
            "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
            "zoned": (pa.timestamp("us", "UTC"), [first, first + dt.timedelta(microseconds=1)]),
            "local": (pa.timestamp("us"), [first.replace(tzinfo=None), dt.datetime(9999, 1, 1)]),  # noqa: DTZ001
            "text": (pa.string(), ["", "z"]),
        }
        batch = pa.RecordBatch.from_arrays(
            [pa.array([values[1], None, values[0]], kind) for kind, values in columns.values()],
            names=list(columns),
        )
        statistics = _statistics_of(engine, root, [batch])
        assert statistics.num_records == 3
        assert statistics.min_values == {name: values[0] for name, (_, values) in columns.items()}
        assert statistics.max_values == {name: values[1] for name, (_, values) in columns.items()}
        assert statistics.null_count == dict.fromkeys(columns, 1)

    def test_types_without_an_order_have_only_null_counts(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict(
            {
                "bool": [True, None, False],
                "binary": [b"a", None, b"b"],
                "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
                "map": pa.array([[("a", None)], None, None], pa.map_(pa.string(), pa.string())),
            }
        )
        statistics = _statistics_of(engine, root, [batch])
        assert statistics.min_values == {}
        assert statistics.max_values == {}
        assert statistics.null_count == {"bool": 1, "binary": 1, "list": 1, "map": 2}

    def test_nested_columns_are_covered_leaf_by_leaf(self, engine: Engine, root: str) -> None:
        inner = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.int64())), ("f", pa.float64())])
        rows: list[Any] = [
            {"i": {"x": 5, "l": [1], "f": 1.0}},
            None,
            {"i": None},
            {"i": {"x": None, "l": None, "f": 2.0}},
            {"i": {"x": 3, "l": [], "f": None}},
        ]
        batch = pa.RecordBatch.from_pydict({"s": pa.array(rows, pa.struct([("i", inner)]))})
        statistics = _statistics_of(engine, root, [batch])
        assert statistics.min_values == {"s": {"i": {"x": 3, "f": 1.0}}}
        assert statistics.max_values == {"s": {"i": {"x": 5, "f": 2.0}}}
        assert statistics.null_count == {"s": {"i": {"x": 3, "l": 3, "f": 3}}}

    def test_a_variant_is_a_leaf_with_a_null_count(self, engine: Engine, root: str) -> None:
        kind: Any = pa.struct(
            [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
        )
        rows: list[Any] = [{"metadata": b"\x01\x00\x00", "value": b"\x00"}, None, None]
        field: Any = pa.field("v", kind, metadata={VARIANT_KEY: b"true"})
        batch = pa.RecordBatch.from_arrays([pa.array(rows, kind)], schema=pa.schema([field]))
        statistics = _statistics_of(engine, root, [batch])
        assert statistics.min_values == {}
        assert statistics.null_count == {"v": 2}

    def test_only_the_columns_asked_for_have_statistics(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict(
            {"a": [1], "ab": [2], "s": [{"x": 1, "y": 2}], "a.b": [3]}
        )
        (status,) = _write(engine, root, [batch], ["a.b", "s.y", "gone"])
        assert _statistics(status).null_count == {"a.b": 0, "s": {"y": 0}}
        (status,) = _write(engine, root, [batch], [])
        assert _statistics(status).null_count == {}
        assert _statistics(status).num_records == 1

    def test_a_column_with_nan_has_no_maximum(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict(
            {
                "some": [1.0, math.nan, 2.0],
                "all": [math.nan, None, math.nan],
                "nested": [{"f": math.nan}, {"f": 3.0}, None],
                "float": pa.array([math.nan, 4.0, None], pa.float32()),
            }
        )
        statistics = _statistics_of(engine, root, [batch])
        assert statistics.min_values == {"some": 1.0, "nested": {"f": 3.0}, "float": 4.0}
        assert statistics.max_values == {}
        assert statistics.null_count == {"some": 0, "all": 1, "nested": {"f": 1}, "float": 1}

    def test_nan_in_one_batch_takes_the_maximum_of_all(self, engine: Engine, root: str) -> None:
        batches = [
            pa.RecordBatch.from_pydict({"f": values}) for values in ([5.0], [math.nan], [1.0, None])
        ]
        if len(statuses := _write(engine, root, batches, ["f"])) == 1:
            assert _statistics(statuses[0]).min_values == {"f": 1.0}
            assert _statistics(statuses[0]).max_values == {}
        else:
            bounds = [_statistics(status).max_values for status in statuses]
            assert bounds == [{"f": 5.0}, {}, {"f": 1.0}]

    def test_both_zeros_are_within_the_bounds(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict({"f": [0.0, -0.0]})
        statistics = _statistics_of(engine, root, [batch])
        assert statistics.min_values["f"] == 0.0 == statistics.max_values["f"]

    @pytest.mark.parametrize(
        ("text", "low", "high"),
        [
            ("x" * 32, "x" * 32, "x" * 32),
            ("x" * 33, "x" * 32, "x" * 32 + "\x7f"),
            ("x" * 5000, "x" * 32, "x" * 32 + "\x7f"),
            ("é" * 5000, "é" * 32, "é" * 32 + "\U0010ffff"),
            ("x" * 32 + "\x7f", "x" * 32, "x" * 32 + "\U0010ffff"),
            ("x" * 32 + "\U0010ffff" * 2, "x" * 32, None),
            ("😀" * 40, "😀" * 32, "😀" * 32 + "\U0010ffff"),
        ],
        ids=["exact", "one more", "5000", "not ASCII", "DEL", "last code point", "emoji"],
    )
    def test_long_strings_have_short_bounds_that_hold(
        self, engine: Engine, root: str, text: str, low: str, high: str | None
    ) -> None:
        batch = pa.RecordBatch.from_pydict({"s": [text, None]})
        statistics = _statistics_of(engine, root, [batch])
        assert statistics.min_values == {"s": low}
        assert statistics.max_values == ({} if high is None else {"s": high})
        assert statistics.null_count == {"s": 1}

    def test_columns_of_nulls_have_no_bounds(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict(
            {"i": pa.array([None, None], pa.int64()), "s": pa.array([None, None], pa.string())}
        )
        statistics = _statistics_of(engine, root, [batch])
        assert (statistics.min_values, statistics.max_values) == ({}, {})
        assert statistics.null_count == {"i": 2, "s": 2}

    def test_void_columns_are_not_in_the_file(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict({"i": [1], "void": pa.array([None], pa.null())})
        (status,) = _write(engine, root, [batch], ["i", "void"])
        assert _table(engine, status.path).column_names == ["i"]
        assert _statistics(status).null_count == {"i": 0}

    def test_field_ids_are_kept(self, engine: Engine, root: str) -> None:
        field = pa.field("i", pa.int64(), metadata={FIELD_ID_KEY: b"17"})
        batch = pa.RecordBatch.from_arrays([pa.array([1])], schema=pa.schema([field]))
        (status,) = _write(engine, root, [batch])
        metadata = _table(engine, status.path).schema.field("i").metadata
        assert metadata is not None
        assert metadata[FIELD_ID_KEY] == b"17"

    def test_timestamps_are_microseconds_and_not_int96(self, engine: Engine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict({"t": pa.array([1], pa.timestamp("us", "UTC"))})
        (status,) = _write(engine, root, [batch])
        column = _footer(engine, status.path).schema.column(0)
        assert column.physical_type == "INT64"
        assert _table(engine, status.path).schema.field("t").type == pa.timestamp("us", "UTC")

    def test_an_error_in_the_rows_leaves_no_unfinished_file(
        self, engine: Engine, root: str
    ) -> None:
        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"i": list(range(1000))})
            raise ZeroDivisionError

        yielded: list[DataFileStatus] = []
        with pytest.raises(ZeroDivisionError):
            yielded.extend(
                engine.parquet.write_parquet_files(
                    f"{root}/t", rows(), ["i"], ParquetWriteOptions()
                )
            )
        assert _names(engine, f"{root}/t") == [status.path for status in yielded]

    def test_stopping_early_leaves_only_the_files_that_were_given(
        self, engine: Engine, root: str
    ) -> None:
        batches = [pa.RecordBatch.from_pydict({"i": list(range(10_000))}) for _ in range(5)]
        options = ParquetWriteOptions(target_file_size=10_000, compression="none")
        statuses = iter(
            engine.parquet.write_parquet_files(f"{root}/t", iter(batches), ["i"], options)
        )
        first = next(statuses)
        del statuses
        assert _names(engine, f"{root}/t") == [first.path]

    def test_a_file_is_written_whole_and_replaces_what_was_there(
        self, engine: Engine, root: str
    ) -> None:
        schema = pa.schema([("a", pa.struct([("x", pa.int64())])), ("b", pa.string())])
        path = f"{root}/_delta_log/00000000000000000010.checkpoint.parquet"
        engine.files.mkdirs(f"{root}/_delta_log")
        for rows in ([{"a": {"x": 1}, "b": None}], [{"a": None, "b": "t"}] * 3, []):
            batches = [pa.RecordBatch.from_pylist(rows, schema)]
            status = engine.parquet.write_parquet_file_atomically(path, schema, batches)
            assert status.path == path
            assert status.size == engine.files.status(path).size
            assert _table(engine, path).to_pylist() == rows
        assert _names(engine, f"{root}/_delta_log") == [path]

    def test_a_file_whose_rows_fail_does_not_replace(self, engine: Engine, root: str) -> None:
        schema = pa.schema([("a", pa.int64())])

        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"a": list(range(200_000))})
            raise ZeroDivisionError

        engine.files.mkdirs(root)
        engine.files.put(f"{root}/c.parquet", b"what was there")
        with pytest.raises(ZeroDivisionError):
            engine.parquet.write_parquet_file_atomically(f"{root}/c.parquet", schema, rows())
        (content,) = engine.files.read_files([ByteRange(path=f"{root}/c.parquet")])
        assert content == b"what was there"
        assert _names(engine, root) == [f"{root}/c.parquet"]


def _statistics(status: DataFileStatus) -> FileStatistics:
    assert status.statistics is not None
    return status.statistics


def _write(
    engine: Engine,
    directory: str,
    batches: Sequence[pa.RecordBatch],
    columns: Sequence[str] | None = None,
    options: ParquetWriteOptions | None = None,
) -> list[DataFileStatus]:
    covered = columns if columns is not None else batches[0].schema.names if batches else []
    return list(
        engine.parquet.write_parquet_files(
            directory, iter(batches), covered, options or ParquetWriteOptions()
        )
    )


def _statistics_of(engine: Engine, root: str, batches: Sequence[pa.RecordBatch]) -> FileStatistics:
    (status,) = _write(engine, root, batches)
    return _statistics(status)


def _content(engine: Engine, path: str) -> io.BytesIO:
    return io.BytesIO(next(engine.files.read_files([ByteRange(path=path)])))


def _table(engine: Engine, path: str) -> pa.Table:
    return pq.ParquetFile(_content(engine, path)).read()


def _footer(engine: Engine, path: str) -> pq.FileMetaData:
    return pq.ParquetFile(_content(engine, path)).metadata


def _names(engine: Engine, folder: str) -> list[str]:
    try:
        return [status.path for status in engine.files.list_from(f"{folder}/")]
    except FileMissingError:  # a store without folders
        return []
