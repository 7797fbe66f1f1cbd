"""Tests of reading with `ParquetHandler`."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bayou.errors import FileMissingError, PredicateError, SchemaError, StorageError
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.engine import (
    METADATA_COLUMN_KEY,
    ROW_INDEX,
    ByteRange,
    Engine,
    FileSplit,
    FileStatus,
)
from bayou.kernel.expressions.model import Predicate, col
from bayou.testing.engine_suites.fixtures import HandlerSuite
from bayou.testing.engine_suites.parquet_files import field_with_id, read, write

_ROW_INDEX_FIELD = pa.field("index", pa.int64(), metadata={METADATA_COLUMN_KEY: ROW_INDEX})
_ADDS = [
    {"path": "a", "size": 1, "tags": [("k", "v")], "dv": {"card": 1, "kind": "u"}},
    None,
    {"path": None, "size": 2, "tags": None, "dv": None},
]
_ADD_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("dv", pa.struct([("card", pa.int64()), ("kind", pa.string())])),
    ]
)


class ParquetReadingSuite(HandlerSuite):
    """Tests the contract of `ParquetHandler.read_parquet_files` and `read_row_groups`."""

    def test_columns_come_in_the_order_asked_for(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": [1, 2], "b": ["x", "y"], "c": [5, 6]}))
        schema = pa.schema([("c", pa.int64()), ("a", pa.int64())])
        assert read(engine, [file], schema) == [{"c": 5, "a": 1}, {"c": 6, "a": 2}]

    def test_files_are_read_in_the_order_given_and_no_batch_is_too_long(
        self, engine: Engine, root: str
    ) -> None:
        files = [
            write(engine, root, pa.table({"a": range(100 * i, 100 * i + 100)}), f"{i}")
            for i in range(3)
        ]
        batches = list(
            engine.parquet.read_parquet_files(
                iter(reversed(files)), pa.schema([("a", pa.int64())]), batch_size=33
            )
        )
        assert all(0 < batch.num_rows <= 33 for batch in batches)
        values = [v for batch in batches for v in batch.column(0).to_pylist()]
        assert values == [*range(200, 300), *range(100, 200), *range(100)]

    def test_the_reading_of_files_can_be_closed_early(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": range(100)}))
        schema = pa.schema([("a", pa.int64())])
        with engine.parquet.read_parquet_files([file] * 3, schema, batch_size=10) as batches:
            assert next(batches).column(0).to_pylist() == list(range(10))
        assert list(batches) == []

    def test_a_missing_column_reads_as_null(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": [1, 2]}))
        schema = pa.schema([("new", pa.list_(pa.string())), ("a", pa.int64())])
        assert read(engine, [file], schema) == [{"new": None, "a": 1}, {"new": None, "a": 2}]

    def test_a_file_with_none_of_the_columns_still_has_its_rows(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"a": range(10)}))
        schema = pa.schema([("new", pa.string())])
        assert read(engine, [file], schema) == [{"new": None}] * 10

    def test_no_columns_at_all_give_rows_all_the_same(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": range(10)}))
        batches = list(engine.parquet.read_parquet_files([file], pa.schema([])))
        assert sum(batch.num_rows for batch in batches) == 10

    def test_a_missing_column_that_may_not_be_null_is_an_error(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"a": [1]}))
        schema = pa.schema([pa.field("needed", pa.int64(), nullable=False)])
        with pytest.raises(SchemaError, match="needed") as caught:
            read(engine, [file], schema)
        assert file.path in str(caught.value)

    def test_a_struct_gives_the_fields_asked_for_and_keeps_its_nulls(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"add": pa.array(_ADDS, _ADD_TYPE)}))
        requested = pa.struct(
            [
                ("size", pa.int64()),
                ("stats", pa.string()),
                ("dv", pa.struct([("kind", pa.string()), ("offset", pa.int32())])),
                ("path", pa.string()),
            ]
        )
        assert read(engine, [file], pa.schema([("add", requested)])) == [
            {"add": {"size": 1, "stats": None, "dv": {"kind": "u", "offset": None}, "path": "a"}},
            {"add": None},
            {"add": {"size": 2, "stats": None, "dv": None, "path": None}},
        ]

    def test_a_struct_with_none_of_the_fields_keeps_its_nulls(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"add": pa.array(_ADDS, _ADD_TYPE)}))
        requested = pa.struct([("stats", pa.string()), ("dv", pa.struct([("offset", pa.int32())]))])
        assert read(engine, [file], pa.schema([("add", requested)])) == [
            {"add": {"stats": None, "dv": {"offset": None}}},
            {"add": None},
            {"add": {"stats": None, "dv": None}},
        ]

    def test_structs_in_lists_and_maps_are_narrowed_too(self, engine: Engine, root: str) -> None:
        item = pa.struct([("x", pa.int32()), ("y", pa.string())])
        table = pa.table(
            {
                "l": pa.array([[{"x": 1, "y": "a"}, None], None, []], pa.list_(item)),
                "m": pa.array(
                    [[("k", {"x": 2, "y": "b"})], None, [("n", None)]], pa.map_(pa.string(), item)
                ),
            }
        )
        narrow = pa.struct([("z", pa.string()), ("x", pa.int64())])
        schema = pa.schema([("l", pa.list_(narrow)), ("m", pa.map_(pa.string(), narrow))])
        file = write(engine, root, table)
        assert read(engine, [file], schema) == [
            {"l": [{"z": None, "x": 1}, None], "m": [("k", {"z": None, "x": 2})]},
            {"l": None, "m": None},
            {"l": [], "m": [("n", None)]},
        ]

    def test_a_missing_nested_field_that_may_not_be_null_is_an_error(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"add": pa.array(_ADDS, _ADD_TYPE)}))
        requested = pa.struct([pa.field("needed", pa.int64(), nullable=False)])
        with pytest.raises(SchemaError, match="needed"):
            read(engine, [file], pa.schema([("add", requested)]))

    def test_names_with_dots_are_names(self, engine: Engine, root: str) -> None:
        table = pa.table({"a": pa.array([{"b": 1, "c": 2}]), "a.b": ["dotted"], "a.c": [True]})
        file = write(engine, root, table)
        schema = pa.schema([("a.b", pa.string()), ("a", pa.struct([("c", pa.int64())]))])
        assert read(engine, [file], schema) == [{"a.b": "dotted", "a": {"c": 2}}]

    def test_the_field_id_decides_where_there_is_one(self, engine: Engine, root: str) -> None:
        nested = pa.struct([field_with_id("x", pa.int64(), 4), field_with_id("y", pa.int64(), 5)])
        file_schema = pa.schema(
            [
                field_with_id("a", pa.int64(), 1),
                field_with_id("b", pa.int64(), 2),
                field_with_id("s", nested, 3),
            ]
        )
        table = pa.table([[1], [2], pa.array([{"x": 3, "y": 4}], nested)], schema=file_schema)
        file = write(engine, root, table)
        requested = pa.struct(
            [field_with_id("x", pa.int64(), 5), field_with_id("y", pa.int64(), 9)]
        )
        schema = pa.schema(
            [
                field_with_id("b", pa.int64(), 1),
                field_with_id("a", pa.int64(), 7),
                field_with_id("t", requested, 3),
                pa.field("a", pa.int64()),
            ]
        )
        (batch,) = engine.parquet.read_parquet_files([file], schema)
        values = [column.to_pylist() for column in batch.columns]
        assert values == [[1], [None], [{"x": 4, "y": None}], [1]]

    def test_a_column_with_an_id_is_never_found_by_name(self, engine: Engine, root: str) -> None:
        fields = [pa.field("a", pa.int64()), pa.field("s", pa.struct([("x", pa.int64())]))]
        fields.append(field_with_id("other", pa.int64(), 9))
        table = pa.Table.from_pylist([{"a": 1, "s": {"x": 1}}], pa.schema(fields))
        file = write(engine, root, table)
        nested = pa.struct([field_with_id("x", pa.int64(), 2)])
        schema = pa.schema([field_with_id("a", pa.int64(), 1), pa.field("s", nested)])
        assert read(engine, [file], schema) == [{"a": None, "s": {"x": None}}]

    def test_a_file_without_any_id_is_refused_where_columns_are_found_by_id(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"a": [1]}), "no-ids")
        with pytest.raises(SchemaError, match=r"no-ids\.parquet.*has no field ids"):
            read(engine, [file], pa.schema([field_with_id("a", pa.int64(), 1)]))

    def test_a_name_in_another_case_is_found_where_none_is_the_same(
        self, engine: Engine, root: str
    ) -> None:
        table = pa.table({"ID": [1], "Id": [2], "S": [{"Aa": 3}], "x": [4], "X": [5]})
        file = write(engine, root, table)
        nested = pa.struct([("aA", pa.int64())])
        schema = pa.schema([("s", nested), ("Id", pa.int64()), ("X", pa.int64())])
        assert read(engine, [file], schema) == [{"s": {"aA": 3}, "Id": 2, "X": 5}]

    @pytest.mark.parametrize(
        ("stored", "requested", "expected"),
        [
            (pa.array([1, None], pa.int8()), pa.int64(), [1, None]),
            (pa.array([1, 2], pa.int64()), pa.int32(), [1, 2]),
            (pa.array([1, 2], pa.int32()), pa.float64(), [1.0, 2.0]),
            (pa.array([0.5], pa.float32()), pa.float64(), [0.5]),
            (pa.array([0.5, None, -math.inf]), pa.float32(), [0.5, None, -math.inf]),
            (pa.array([7], pa.int32()), pa.decimal128(12, 2), [Decimal("7.00")]),
            (pa.array([7], pa.int64()), pa.decimal128(5, 0), [Decimal(7)]),
            (
                pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
                pa.decimal128(38, 3),
                [Decimal("1.500")],
            ),
            (
                pa.array([dt.date(2024, 1, 5)], pa.date32()),
                pa.timestamp("us"),
                [dt.datetime(2024, 1, 5)],  # noqa: DTZ001
            ),
            (
                pa.array([1_700_000_000_000], pa.timestamp("ms", "UTC")),
                pa.timestamp("us", "UTC"),
                [dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)],
            ),
            (
                pa.array([1_700_000_000_000_000], pa.timestamp("us")),
                pa.timestamp("us", "UTC"),
                [dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)],
            ),
            (pa.array(["é"], pa.large_string()), pa.string(), ["é"]),
            (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
            (pa.array([b"text"], pa.binary()), pa.string(), ["text"]),
            (pa.array([[1], None], pa.large_list(pa.int32())), pa.list_(pa.int64()), [[1], None]),
        ],
    )
    def test_values_become_the_type_asked_for_where_nothing_is_lost(
        self, engine: Engine, root: str, stored: Any, requested: Any, expected: list[Any]
    ) -> None:
        file = write(engine, root, pa.table({"v": stored}), store_schema=True)
        rows = read(engine, [file], pa.schema([("v", requested)]))
        assert [row["v"] for row in rows] == expected

    @pytest.mark.parametrize(
        ("stored", "requested"),
        [
            (pa.array([1 << 40]), pa.int32()),
            (pa.array([0.5, 0.1]), pa.float32()),
            (pa.array([1e300, math.nan]), pa.float32()),
            (pa.array(["1"]), pa.int64()),
            (pa.array([1]), pa.string()),
            (pa.array([Decimal("1.55")]), pa.decimal128(3, 1)),
            (pa.array([1000]), pa.decimal128(3, 0)),
            (pa.array([True]), pa.int64()),
            (pa.array([{"x": 1}]), pa.int64()),
            (pa.array([[1]]), pa.struct([("x", pa.int64())])),
        ],
    )
    def test_a_type_that_can_not_become_the_other_is_an_error_that_names_the_column(
        self, engine: Engine, root: str, stored: Any, requested: Any
    ) -> None:
        file = write(engine, root, pa.table({"v": stored}))
        with pytest.raises(SchemaError) as caught:
            read(engine, [file], pa.schema([("v", requested)]))
        assert "'v'" in str(caught.value)
        assert file.path in str(caught.value)
        assert caught.value.column == "v"

    def test_int96_timestamps_far_from_today_are_right(self, engine: Engine, root: str) -> None:
        times = [dt.datetime(y, 1, 2, 3, 4, 5, 678_900) for y in (1700, 1970, 2500)]  # noqa: DTZ001
        table = pa.table({"v": pa.array(times, pa.timestamp("us"))})
        file = write(engine, root, table, use_deprecated_int96_timestamps=True)
        rows = read(engine, [file], pa.schema([("v", pa.timestamp("us", "UTC"))]))
        assert [row["v"] for row in rows] == [t.replace(tzinfo=dt.UTC) for t in times]

    @pytest.mark.parametrize("as_integer", [True, False])
    @pytest.mark.parametrize("precision", [9, 18, 38])
    def test_decimals_are_read_from_every_physical_type(
        self, engine: Engine, root: str, precision: int, as_integer: bool
    ) -> None:
        values = [Decimal("-1.50"), None, Decimal("1234567.89")]
        table = pa.table({"v": pa.array(values, pa.decimal128(precision, 2))})
        file = write(engine, root, table, store_decimal_as_integer=as_integer)
        rows = read(engine, [file], pa.schema([("v", pa.decimal128(precision, 2))]))
        assert [row["v"] for row in rows] == values

    def test_the_row_index_is_the_position_in_the_whole_file(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"a": range(100, 125)}), row_group_size=10)
        schema = pa.schema([_ROW_INDEX_FIELD, pa.field("a", pa.int64())])
        expected = [{"index": i, "a": 100 + i} for i in range(25)]
        assert read(engine, [file], schema, batch_size=4) == expected
        split = FileSplit(path=file.path, size=file.size, first_row_group=1, end_row_group=2)
        assert read(engine, [split], schema) == expected[10:20]
        rest = FileSplit(path=file.path, size=file.size, first_row_group=2)
        assert read(engine, [rest], schema, batch_size=3) == expected[20:]
        alone = pa.schema([_ROW_INDEX_FIELD])
        assert read(engine, [rest], alone) == [{"index": i} for i in range(20, 25)]

    def test_splits_together_are_the_file(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": range(25)}), row_group_size=10)
        splits = [
            FileSplit(path=file.path, size=file.size, first_row_group=i, end_row_group=i + 1)
            for i in range(3)
        ]
        schema = pa.schema([("a", pa.int64())])
        assert read(engine, splits, schema) == read(engine, [file], schema)
        past = FileSplit(path=file.path, size=file.size, first_row_group=3)
        assert read(engine, [past], schema) == []

    def test_an_unknown_metadata_column_is_an_error(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": [1]}))
        field = pa.field("x", pa.int64(), metadata={METADATA_COLUMN_KEY: b"row_colour"})
        with pytest.raises(SchemaError, match="row_colour"):
            read(engine, [file], pa.schema([field]))

    @pytest.mark.parametrize(
        "predicate",
        [
            col("i") == 15,
            (col("i") > 13) & (col("i") <= 26),
            col("f") > 100.0,
            col("f") < 12.0,
            col("t") >= "v17",
            col("s", "x").is_null(),
            col("s", "x") == 3,
            col("d") == dt.date(1970, 1, 18),
            col("z") < dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC),
            col("gone") == 1,
            col("new") == 1,
        ],
        ids=str,
    )
    def test_a_predicate_never_costs_a_matching_row(
        self, engine: Engine, root: str, predicate: Predicate
    ) -> None:
        numbers = list(range(30))
        table = pa.table(
            {
                "i": numbers,
                "f": [math.nan if i == 25 else float(i) for i in numbers],
                "t": [f"v{i:02d}" * (1 if i < 20 else 2000) for i in numbers],
                "s": [None if i % 7 == 0 else {"x": i} for i in numbers],
                "d": pa.array(numbers, pa.int32()).cast(pa.date32()),
                "z": pa.array([i * 1_000_000 for i in numbers], pa.timestamp("us", "UTC")),
            }
        )
        file = write(engine, root, table, row_group_size=5)
        schema = pa.schema([*table.schema, pa.field("new", pa.int64()), _ROW_INDEX_FIELD])
        everything = pa.RecordBatch.from_pylist(read(engine, [file], schema), schema)
        try:
            known = from_arrow_schema(pa.schema([*table.schema, pa.field("new", pa.int64())]))
            matches = engine.expressions.predicate_evaluator(known, predicate).eval(everything)
        except PredicateError:
            matches = pa.repeat(
                True, 30
            )  # an unsupported predicate is ignored, because it is a hint
        expected = everything.filter(matches).to_pylist()
        actual = read(engine, [file], schema, predicate=predicate)
        wanted_rows = {row["index"]: str(row) for row in expected}
        actual_rows = {row["index"]: str(row) for row in actual}
        assert actual_rows | wanted_rows == actual_rows

    def test_a_file_without_rows_gives_no_rows(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": pa.array([], pa.int64())}))
        assert read(engine, [file], pa.schema([("a", pa.int64())])) == []

    def test_reading_can_stop_early(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": range(1000)}), row_group_size=100)
        batches = engine.parquet.read_parquet_files(
            [file, file], pa.schema([("a", pa.int64())]), batch_size=10
        )
        assert next(iter(batches)).num_rows == 10
        del batches

    def test_row_groups_are_counted(self, engine: Engine, root: str) -> None:
        file = write(engine, root, pa.table({"a": range(25)}), row_group_size=10)
        status = FileStatus(path=file.path, size=file.size, modification_time=0)
        groups = engine.parquet.read_row_groups(status)
        assert [group.num_rows for group in groups] == [10, 10, 5]
        assert all(0 < group.total_bytes < file.size for group in groups)

    def test_a_file_whose_bytes_are_at_hand_has_the_same_rows(
        self, engine: Engine, root: str
    ) -> None:
        file = write(engine, root, pa.table({"a": range(25)}), row_group_size=10)
        (content,) = engine.files.read_files([ByteRange(path=file.path)])
        held = replace(file, content=bytes(content))
        schema = pa.schema([("a", pa.int64())])
        assert read(engine, [held, file], schema) == read(engine, [file, file], schema)

    def test_a_missing_file_is_an_error(self, engine: Engine, root: str) -> None:
        split = FileSplit(path=f"{root}/missing.parquet", size=100)
        with pytest.raises(FileMissingError) as caught:
            read(engine, [split], pa.schema([("a", pa.int64())]))
        assert caught.value.path == split.path

    @pytest.mark.parametrize("length", [0, 3, 100, -1, -100])
    def test_what_is_no_whole_parquet_file_is_an_error_that_names_it(
        self, engine: Engine, root: str, length: int
    ) -> None:
        whole = write(engine, root, pa.table({"a": range(1000)}))
        data = next(engine.files.read_files([ByteRange(path=whole.path)]))[:length]
        path = f"{root}/cut.parquet"
        engine.files.put(path, data)
        with pytest.raises(StorageError, match=r"cut\.parquet"):
            read(engine, [FileSplit(path=path, size=len(data))], pa.schema([("a", pa.int64())]))
        status = FileStatus(path=path, size=len(data), modification_time=0)
        with pytest.raises(StorageError, match=r"cut\.parquet"):
            engine.parquet.read_row_groups(status)
