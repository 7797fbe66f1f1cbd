"""PROTOCOL.md, Delta Data Type to Parquet Type Mappings."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.errors import SchemaError
from bayou.kernel.arrow.types import (
    from_arrow_schema,
    from_arrow_type,
    to_arrow_schema,
    to_arrow_type,
)
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

STRUCT = StructType(
    (
        StructField(name="a", data_type=LONG, nullable=False),
        StructField(name="b", data_type=DecimalType(38, 18)),
    )
)
BOTH_WAYS = [
    (STRING, pa.string()),
    (LONG, pa.int64()),
    (INTEGER, pa.int32()),
    (SHORT, pa.int16()),
    (BYTE, pa.int8()),
    (FLOAT, pa.float32()),
    (DOUBLE, pa.float64()),
    (BOOLEAN, pa.bool_()),
    (BINARY, pa.binary()),
    (DATE, pa.date32()),
    (TIMESTAMP, pa.timestamp("us", "UTC")),
    (TIMESTAMP_NTZ, pa.timestamp("us")),
    (DecimalType(10, 0), pa.decimal128(10, 0)),
    (STRUCT, pa.struct([pa.field("a", pa.int64(), False), pa.field("b", pa.decimal128(38, 18))])),
    (
        ArrayType(element_type=STRUCT, contains_null=False),
        pa.list_(
            pa.field(
                "element",
                pa.struct([pa.field("a", pa.int64(), False), pa.field("b", pa.decimal128(38, 18))]),
                False,
            )
        ),
    ),
    (
        MapType(key_type=STRING, value_type=DATE, value_contains_null=True),
        pa.map_(pa.string(), pa.date32()),
    ),
    (
        MapType(key_type=STRING, value_type=DATE, value_contains_null=False),
        pa.map_(pa.string(), pa.field("value", pa.date32(), False)),
    ),
]


@pytest.mark.parametrize(("delta", "arrow"), BOTH_WAYS, ids=str)
def test_every_type_travels_both_ways(delta, arrow):
    assert to_arrow_type(delta) == arrow
    assert from_arrow_type(arrow) == delta


def test_names_order_and_nullability_of_columns_are_kept():
    schema = StructType(
        (
            StructField(name="z", data_type=STRING, nullable=False),
            StructField(name="a.b", data_type=STRUCT),
        )
    )
    assert to_arrow_schema(schema).names == ["z", "a.b"]
    assert not to_arrow_schema(schema).field("z").nullable
    assert from_arrow_schema(to_arrow_schema(schema)) == schema


def test_a_void_column_is_of_nulls():
    assert to_arrow_type(VOID) == pa.null()


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.large_binary(), BINARY),
        (pa.binary_view(), BINARY),
        (pa.binary(16), BINARY),
        (pa.date64(), DATE),
        (pa.float16(), FLOAT),
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), DecimalType(20, 0)),
        (pa.timestamp("ns", "Europe/Berlin"), TIMESTAMP),
        (pa.timestamp("s"), TIMESTAMP_NTZ),
        (pa.decimal256(38, 3), DecimalType(38, 3)),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LONG),
        (pa.large_list(pa.int8()), ArrayType(element_type=BYTE, contains_null=True)),
        (pa.list_(pa.int8(), 3), ArrayType(element_type=BYTE, contains_null=True)),
        (pa.list_view(pa.int8()), ArrayType(element_type=BYTE, contains_null=True)),
        (pa.uuid(), BINARY),
        (pa.json_(), STRING),
    ],
    ids=str,
)
def test_other_representations_become_the_type_that_holds_their_values(arrow, delta):
    assert from_arrow_type(arrow) == delta


@pytest.mark.parametrize(
    "arrow",
    [pa.time64("us"), pa.duration("s"), pa.month_day_nano_interval(), pa.decimal256(39, 0)],
    ids=str,
)
def test_a_type_that_delta_lacks_is_refused_with_the_column(arrow):
    schema = pa.schema([pa.field("outer", pa.struct([pa.field("inner", pa.list_(arrow))]))])
    with pytest.raises(SchemaError, match="Cast the column to another type") as caught:
        from_arrow_schema(schema, table="/lake/t")
    assert caught.value.column == "outer.inner.element"
    assert caught.value.table == "/lake/t"


def test_a_column_of_nulls_needs_a_type():
    with pytest.raises(SchemaError, match="has only nulls"):
        from_arrow_schema(pa.schema([pa.field("x", pa.null())]))


def test_a_column_of_nulls_is_void_where_that_is_allowed():
    arrow = pa.schema([pa.field("x", pa.list_(pa.field("element", pa.null())))])
    schema = from_arrow_schema(arrow, void=True)
    assert str(schema.fields[0].data_type) == "array<void>"
