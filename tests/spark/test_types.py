import pyarrow as pa
import pyspark.sql.types as t
import pytest

from bayou.errors import SchemaError
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from bayou.spark.types import as_nullable, from_spark, same_type, to_spark, to_spark_arrow

EVERYTHING = t.StructType(
    [
        t.StructField("string", t.StringType()),
        t.StructField("long", t.LongType(), False),
        t.StructField("integer", t.IntegerType()),
        t.StructField("short", t.ShortType()),
        t.StructField("byte", t.ByteType()),
        t.StructField("float", t.FloatType()),
        t.StructField("double", t.DoubleType()),
        t.StructField("decimal", t.DecimalType(38, 18)),
        t.StructField("boolean", t.BooleanType()),
        t.StructField("binary", t.BinaryType()),
        t.StructField("date", t.DateType()),
        t.StructField("timestamp", t.TimestampType()),
        t.StructField("timestamp_ntz", t.TimestampNTZType()),
        t.StructField("void", t.NullType()),
        t.StructField(
            "nested",
            t.StructType(
                [
                    t.StructField("a b.c", t.ArrayType(t.IntegerType(), False)),
                    t.StructField("m", t.MapType(t.StringType(), t.DateType(), False)),
                ]
            ),
        ),
        t.StructField("commented", t.StringType(), True, {"comment": "what it is"}),
    ]
)


def test_every_type_comes_back_from_a_round_trip():
    assert to_spark(from_spark(EVERYTHING, table="t")) == EVERYTHING


def test_arrow_types_are_those_that_spark_checks_batches_for():
    from pyspark.sql.pandas.types import to_arrow_schema as spark_arrow_schema

    ours = to_arrow_schema(from_spark(EVERYTHING, table="t"))
    assert spark_arrow_schema(EVERYTHING, timezone="UTC").equals(ours)


def test_a_type_that_delta_lacks_names_column_and_table():
    schema = t.StructType([t.StructField("how_long", t.DayTimeIntervalType())])
    with pytest.raises(SchemaError, match=r"lake/t: .* the type interval .*'how_long'") as caught:
        from_spark(schema, table="lake/t")
    assert caught.value.column == "how_long"


def test_metadata_that_delta_keeps_for_itself_stays_out_of_spark():
    field = StructField(
        name="nested",
        data_type=ArrayType(
            element_type=StructType(
                (StructField(name="x", data_type=LONG, metadata={"delta.columnMapping.id": 2}),)
            )
        ),
        metadata={"comment": "kept", "delta.columnMapping.id": 1},
    )
    spark_field = to_spark(StructType((field,))).fields[0]
    assert spark_field.metadata == {"comment": "kept"}
    assert spark_field.dataType.elementType.fields[0].metadata == {}


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (INTEGER, INTEGER, True),
        (INTEGER, LONG, False),
        (DecimalType(10, 2), DecimalType(10, 3), False),
        (
            ArrayType(element_type=DATE, contains_null=True),
            ArrayType(element_type=DATE, contains_null=False),
            True,
        ),
        (
            MapType(key_type=STRING, value_type=DATE),
            MapType(key_type=STRING, value_type=STRING),
            False,
        ),
        (
            StructType((StructField(name="A", data_type=DATE, nullable=False),)),
            StructType((StructField(name="a", data_type=DATE),)),
            True,
        ),
        (
            StructType((StructField(name="a", data_type=DATE),)),
            StructType((StructField(name="b", data_type=DATE),)),
            False,
        ),
    ],
)
def test_types_are_the_same_when_they_hold_the_same_values(left, right, same):
    assert same_type(left, right) is same


def test_a_table_made_of_a_dataframe_is_nullable_at_every_depth():
    inner = StructType((StructField(name="x", data_type=LONG, nullable=False),))
    schema = StructType(
        (
            StructField(
                name="a",
                data_type=ArrayType(element_type=inner, contains_null=False),
                nullable=False,
            ),
            StructField(
                name="m",
                data_type=MapType(key_type=STRING, value_type=inner, value_contains_null=False),
                metadata={"comment": "kept"},
            ),
        )
    )
    loose = StructType((StructField(name="x", data_type=LONG),))
    assert as_nullable(schema) == StructType(
        (
            StructField(name="a", data_type=ArrayType(element_type=loose)),
            StructField(
                name="m",
                data_type=MapType(key_type=STRING, value_type=loose),
                metadata={"comment": "kept"},
            ),
        )
    )


def test_spark_wants_the_value_of_a_variant_before_its_metadata():
    inner = StructType((StructField(name="v", data_type=VARIANT),))
    schema = StructType(
        (
            StructField(name="v", data_type=VARIANT),
            StructField(name="l", data_type=ArrayType(element_type=inner)),
            StructField(name="m", data_type=MapType(key_type=STRING, value_type=VARIANT)),
        )
    )
    variant = pa.struct(
        [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]
    )
    assert to_spark_arrow(schema) == pa.schema(
        [
            ("v", variant),
            ("l", pa.list_(pa.field("element", pa.struct([("v", variant)])))),
            ("m", pa.map_(pa.string(), variant)),
        ]
    )
