"""Tests of `ParquetHandler` with files of other writers, such as legacy lists and variants."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bayou.errors import StorageError
from bayou.kernel.engine import VARIANT_KEY, Engine
from bayou.testing.engine_suites.fixtures import HandlerSuite
from bayou.testing.engine_suites.parquet_files import put, read, write
from bayou.testing.parquet_bytes import (
    BYTE_ARRAY,
    DECIMAL,
    FIXED,
    INT32,
    INT64,
    LIST,
    MAP,
    MAP_KEY_VALUE,
    OPTIONAL,
    REPEATED,
    REQUIRED,
    UTF8,
    Column,
    Group,
    Leaf,
    parquet_bytes,
)

_NAMES = b"\x01\x02\x00\x01\x02ab"
"""The `metadata` of a variant with the fields `a` and `b`, as bytes."""

_VARIANT: Any = pa.field(
    "v",
    pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]),
    metadata={VARIANT_KEY: b"true"},
)
_ONE, _TWO, _SEVEN = (struct.pack("<i", value) for value in (1, 2, 7))
_TWO_LEVELS = [
    # A repeated field that isn't a group is the list's element, whatever its name.
    Group(
        name="l",
        repetition=OPTIONAL,
        converted=LIST,
        children=[Leaf(name="element", repetition=REPEATED, physical=INT32)],
    ),
    # A repeated group with this name is the list's element, although it has only one field.
    Group(
        name="l",
        repetition=OPTIONAL,
        converted=LIST,
        children=[
            Group(
                name="array",
                repetition=REPEATED,
                children=[Leaf(name="x", repetition=REQUIRED, physical=INT32)],
            )
        ],
    ),
]


class ParquetLayoutSuite(HandlerSuite):
    """Tests `ParquetHandler.read_parquet_files` with layouts that pyarrow doesn't write."""

    def test_lists_of_two_levels_are_read(self, engine: Engine, root: str) -> None:
        levels = Column(
            path=["l", "element"],
            repetition_levels=[0, 1, 0, 0],
            definition_levels=[2, 2, 1, 0],
            values=[_ONE, _TWO],
        )
        file = put(engine, root, parquet_bytes([_TWO_LEVELS[0]], [levels], 3))
        kind = pa.list_(pa.field("element", pa.int64()))
        actual = read(engine, [file], pa.schema([("l", kind)]))
        assert actual == [{"l": [1, 2]}, {"l": []}, {"l": None}]

    def test_lists_of_repeated_groups_are_lists_of_structs(self, engine: Engine, root: str) -> None:
        levels = Column(
            path=["l", "array", "x"],
            repetition_levels=[0, 1, 0, 0],
            definition_levels=[2, 2, 1, 0],
            values=[_ONE, _TWO],
        )
        file = put(engine, root, parquet_bytes([_TWO_LEVELS[1]], [levels], 3))
        kind = pa.list_(pa.field("element", pa.struct([("x", pa.int32())])))
        actual = read(engine, [file], pa.schema([("l", kind)]))
        assert actual == [{"l": [{"x": 1}, {"x": 2}]}, {"l": []}, {"l": None}]

    def test_lists_as_hive_names_their_levels_are_read(self, engine: Engine, root: str) -> None:
        element = Leaf(name="array_element", repetition=OPTIONAL, physical=INT32)
        bag = Group(name="bag", repetition=REPEATED, children=[element])
        field = Group(name="l", repetition=OPTIONAL, converted=LIST, children=[bag])
        levels = Column(
            path=["l", "bag", "array_element"],
            repetition_levels=[0, 1, 0, 0],
            definition_levels=[3, 2, 1, 0],
            values=[_ONE],
        )
        file = put(engine, root, parquet_bytes([field], [levels], 3))
        kind = pa.list_(pa.field("element", pa.int32()))
        actual = read(engine, [file], pa.schema([("l", kind)]))
        assert actual == [{"l": [1, None]}, {"l": []}, {"l": None}]

    @pytest.mark.parametrize("annotation", [MAP, MAP_KEY_VALUE])
    def test_maps_of_old_annotations_and_names_are_read(
        self, engine: Engine, root: str, annotation: int
    ) -> None:
        key = Leaf(name="k", repetition=REQUIRED, physical=BYTE_ARRAY, converted=UTF8)
        item = Leaf(name="v", repetition=OPTIONAL, physical=INT32)
        entries = Group(
            name="map", repetition=REPEATED, converted=MAP_KEY_VALUE, children=[key, item]
        )
        field = Group(name="m", repetition=OPTIONAL, converted=annotation, children=[entries])
        repeated = [0, 1, 0, 0]
        columns = [
            Column(
                path=["m", "map", "k"],
                repetition_levels=repeated,
                definition_levels=[2, 2, 1, 0],
                values=[b"a", b"b"],
            ),
            Column(
                path=["m", "map", "v"],
                repetition_levels=repeated,
                definition_levels=[3, 2, 1, 0],
                values=[_SEVEN],
            ),
        ]
        file = put(engine, root, parquet_bytes([field], columns, 3))
        kind = pa.map_(pa.string(), pa.int64())
        actual = read(engine, [file], pa.schema([("m", kind)]))
        assert actual == [{"m": [("a", 7), ("b", None)]}, {"m": []}, {"m": None}]

    @pytest.mark.parametrize(
        ("physical", "length", "value"),
        [
            (INT32, None, struct.pack("<i", -150)),
            (INT64, None, struct.pack("<q", -150)),
            (BYTE_ARRAY, None, (-150).to_bytes(2, "big", signed=True)),
            (BYTE_ARRAY, None, (-150).to_bytes(16, "big", signed=True)),
            (FIXED, 5, (-150).to_bytes(5, "big", signed=True)),
        ],
    )
    def test_decimals_of_every_encoding_are_read_also_into_a_wider_type(
        self, engine: Engine, root: str, physical: int, length: int | None, value: bytes
    ) -> None:
        field = Leaf(
            name="d",
            repetition=OPTIONAL,
            physical=physical,
            length=length,
            converted=DECIMAL,
            precision=9,
            scale=2,
        )
        column = Column(
            path=["d"], repetition_levels=[0, 0], definition_levels=[1, 0], values=[value]
        )
        file = put(engine, root, parquet_bytes([field], [column], 2))
        for requested in (pa.decimal128(9, 2), pa.decimal128(20, 4)):
            actual = read(engine, [file], pa.schema([("d", requested)]))
            assert actual == [{"d": Decimal("-1.50")}, {"d": None}]

    def test_dates_before_the_gregorian_calendar_stay_what_they_are(
        self, engine: Engine, root: str
    ) -> None:
        days = [
            dt.date(1, 1, 1),
            dt.date(1582, 10, 4),
            dt.date(1582, 10, 15),
            dt.date(9999, 12, 31),
        ]
        file = write(engine, root, pa.table({"d": days}))
        actual = read(engine, [file], pa.schema([("d", pa.date32())]))
        assert [row["d"] for row in actual] == days

    def test_a_variant_is_its_metadata_and_value_in_whatever_order_the_file_has_them(
        self, engine: Engine, root: str
    ) -> None:
        rows = [{"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}, None]
        kind = pa.struct([pa.field("value", pa.binary(), False), ("metadata", pa.binary())])
        file = write(engine, root, pa.table({"v": pa.array(rows, kind)}))
        assert read(engine, [file], pa.schema([_VARIANT])) == [{"v": row} for row in rows]

    def test_a_shredded_variant_is_put_together(self, engine: Engine, root: str) -> None:
        number = pa.struct([("value", pa.binary()), ("typed_value", pa.int32())])
        shredded = pa.struct(
            [
                pa.field("metadata", pa.binary(), False),
                pa.field("value", pa.binary()),
                pa.field("typed_value", pa.struct([pa.field("a", number, False)])),
            ]
        )
        rows = [
            {"metadata": _NAMES, "typed_value": {"a": {"typed_value": 1}}},
            {"metadata": _NAMES, "typed_value": {"a": {"value": b"\x05x"}}},
            {"metadata": _NAMES, "typed_value": {"a": {}}},
            {"metadata": _NAMES, "value": b"\x0c\x07"},
            {
                "metadata": _NAMES,
                "value": b"\x02\x01\x01\x00\x02\x0c\x05",
                "typed_value": {"a": {"typed_value": 1}},
            },
            {"metadata": _NAMES},
            None,
        ]
        table = pa.table(
            {"v": pa.array(rows, shredded), "l": pa.array([rows] * 7, pa.list_(shredded))}
        )
        file = write(engine, root, table, row_group_size=3)
        values = [
            b"\x02\x01\x00\x00\x02\x0c\x01",
            b"\x02\x01\x00\x00\x02\x05x",
            b"\x02\x00\x00",
            b"\x0c\x07",
            b"\x02\x02\x00\x01\x00\x02\x04\x0c\x01\x0c\x05",
            b"\x00",
        ]
        expected = [{"metadata": _NAMES, "value": value} for value in values]
        element = pa.field("element", _VARIANT.type, metadata=_VARIANT.metadata)
        schema = pa.schema([pa.field("l", pa.list_(element)), _VARIANT])
        actual = read(engine, [file], schema)
        assert [row["v"] for row in actual] == [*expected, None]
        assert actual[6]["l"] == [*expected, None]

    def test_dates_of_sparks_old_calendar_are_the_dates_that_were_written(
        self, engine: Engine, root: str
    ) -> None:
        # Spark 2.4 writes 1000-02-28 12:00 in New York in the Julian calendar.
        day = dt.date(1000, 3, 5)
        timestamp = dt.datetime(1000, 3, 5, 17, tzinfo=dt.UTC)
        rows: dict[str, Any] = {
            "d": [day],
            "t": [timestamp],
            "s": [{"m": [(day, timestamp)], "l": [day]}],
        }
        clock = pa.timestamp("us", "UTC")
        nested = pa.struct(
            [pa.field("m", pa.map_(pa.date32(), clock)), pa.field("l", pa.list_(pa.date32()))]
        )
        fields: list[pa.Field[Any]] = [
            pa.field("d", pa.date32()),
            pa.field("t", clock),
            pa.field("s", nested),
        ]
        columns = pa.schema(fields)
        footer = {
            "org.apache.spark.version": "2.4.8",
            "org.apache.spark.timeZone": "America/New_York",
        }
        for metadata, old in ((footer, True), ({}, False)):
            table = pa.table(rows, columns.with_metadata(metadata))
            file = write(engine, root, table, f"old-{old}", store_schema=True)
            new_day = dt.date(1000, 2, 28) if old else day
            # The local time of New York was 4:56:02 behind UTC before 1883-11-18.
            new_timestamp = dt.datetime(1000, 2, 28, 16, 56, 2, tzinfo=dt.UTC) if old else timestamp
            assert read(engine, [file], columns) == [
                {
                    "d": new_day,
                    "t": new_timestamp,
                    "s": {"m": [(new_day, new_timestamp)], "l": [new_day]},
                }
            ]

    @pytest.mark.parametrize(
        "typed",
        [
            pa.array([True, False]),
            pa.array([1, -1], pa.int8()),
            pa.array([1, -1], pa.int16()),
            pa.array([1, -1], pa.int64()),
            pa.array([1.5, -2.5], pa.float32()),
            pa.array([1.5, math.inf]),
            pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(9, 2)),
            pa.array([Decimal("1" * 36 + f".5{n}") for n in (0, 1)], pa.decimal128(38, 2)),
            pa.array(["x", "y" * 70]),
            pa.array([b"x", b"y"]),
            pa.array([dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
            pa.array([-1, 1], pa.timestamp("us", "UTC")),
            pa.array([-1, 1], pa.timestamp("us")),
            pa.array([1, 2], pa.time64("us")),
            pa.array(
                [[{"typed_value": 1}, {"value": b"\x00"}, {}], []],
                pa.list_(pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])),
            ),
        ],
        ids=lambda array: str(array.type),
    )
    def test_shredded_values_of_every_type_are_put_together(
        self, engine: Engine, root: str, typed: Any
    ) -> None:
        metadata = pa.array([_NAMES] * len(typed))
        shredded = pa.StructArray.from_arrays([metadata, typed], ["metadata", "typed_value"])
        file = write(engine, root, pa.table({"v": shredded}))
        actual = [row["v"]["value"] for row in read(engine, [file], pa.schema([_VARIANT]))]
        assert len(actual) == len(typed)
        assert all(isinstance(value, bytes) and value != b"\x00" for value in actual)
        assert len(set(actual)) == len(actual)

    def test_a_shredded_variant_that_breaks_its_rules_names_the_file(
        self, engine: Engine, root: str
    ) -> None:
        rows = [{"metadata": _NAMES, "value": b"\x00", "typed_value": 1}]
        file = write(engine, root, pa.table({"v": rows}), "broken")
        with pytest.raises(StorageError, match=r"broken\.parquet"):
            read(engine, [file], pa.schema([_VARIANT]))
