from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from bayou.errors import PredicateError
from bayou.kernel.expressions.literals import parse_timestamp
from bayou.kernel.expressions.model import Literal, call, col, lit
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.types import comparison_type
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    tuple(
        StructField(name=name, data_type=data_type)
        for name, data_type in {
            "Id": LONG,
            "day": DATE,
            "ts": TIMESTAMP,
            "ntz": TIMESTAMP_NTZ,
            "price": DecimalType(10, 2),
            "f": FLOAT,
            "name": STRING,
            "ok": BOOLEAN,
            "raw": BINARY,
            "list": ArrayType(element_type=LONG),
            "Address": StructType((StructField(name="City", data_type=STRING),)),
        }.items()
    )
)


def resolved(predicate):
    once = resolve(predicate, SCHEMA)
    assert repr(resolve(once, SCHEMA)) == repr(once)
    return once


def test_names_get_the_spelling_of_the_schema():
    found = resolved(col("ID") == 1)
    assert found.left.path == ("Id",)
    assert resolved(col("address", "CITY").is_null()).operand.path == ("Address", "City")


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (col("nmae") == "x", "Did you mean 'name'"),
        (col("address", "town") == "x", "'Address' has City"),
        (col("name", "x") == "x", "'name' has type string, which has no fields"),
        (col("zzz") == 1, "The table has Id, day"),
        (col() == 1, "has an empty path"),
    ],
)
def test_an_unknown_column_is_named_with_what_may_be_meant(predicate, message):
    with pytest.raises(PredicateError, match=message):
        resolve(predicate, SCHEMA)


@pytest.mark.parametrize(
    ("predicate", "value", "data_type"),
    [
        (col("day") == "2024-01-05", dt.date(2024, 1, 5), DATE),
        (col("day") == "2024-01-05 10:00:00", dt.date(2024, 1, 5), DATE),
        (col("ts") == "2024-01-05", dt.datetime(2024, 1, 5, tzinfo=dt.UTC), TIMESTAMP),
        (col("ts") == dt.datetime(2024, 1, 5), dt.datetime(2024, 1, 5, tzinfo=dt.UTC), TIMESTAMP),
        (col("ntz") == "2024-01-05T10:00:00Z", dt.datetime(2024, 1, 5, 10), TIMESTAMP_NTZ),
        (col("Id") == "42", 42, INTEGER),
        (col("Id") == "5000000000", 5_000_000_000, LONG),
        (col("price") == "1.50", 1.5, DOUBLE),
        (col("f") == "NaN", float("nan"), DOUBLE),
        (col("ok") == "TRUE", True, BOOLEAN),
        (col("raw") == "ab", b"ab", BINARY),
        (col("Id") == 1.5, 1.5, DOUBLE),
        (col("name") == "5", "5", STRING),
        (col("Id") == 2**70, 2**70, DecimalType(22, 0)),
        (col("name") == None, None, VOID),  # noqa: E711  # builds a comparison
    ],
)
def test_a_literal_takes_the_type_that_the_column_asks_for(predicate, value, data_type):
    literal = resolved(predicate).right
    assert repr(literal) == repr(Literal(value, data_type))


@pytest.mark.parametrize(
    "predicate",
    [
        col("day") == "soon",
        col("Id") == "1.5",
        col("Id") == "1_5",
        col("price") == "1_5",
        col("f") == "\u0661",
        col("ok") == 1,
        col("raw") == 5,
        col("ts") == 5,
        col("list") == 5,
        col("Address") == col("Address"),
        col("ok") + 1 == 5,
        col("Id").cast(DATE).is_null(),
        col("day") + col("ts") == 5,
        call("year", col("list")) == 5,
        call("year") == 5,
        call("if", col("ok")) == 5,
        call("coalesce", col("day"), col("ok")) == 5,
        call("round", col("price"), col("Id")) == 5,
        col("name").like("x\\"),
        col("Id").starts_with("x"),
        col("Id"),
        lit(5),
    ],
)
def test_what_cant_be_compared_is_an_error(predicate):
    with pytest.raises(PredicateError):
        resolve(predicate, SCHEMA)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (BYTE, LONG, pa.int64()),
        (INTEGER, DecimalType(3, 2), pa.decimal128(21, 2)),
        (DecimalType(10, 2), DecimalType(38, 18), pa.decimal128(38, 18)),
        (DecimalType(38, 0), DecimalType(38, 18), pa.decimal256(56, 18)),
        (FLOAT, FLOAT, pa.float32()),
        (FLOAT, INTEGER, pa.float64()),
        (DecimalType(3, 1), DOUBLE, pa.float64()),
        (DATE, TIMESTAMP, pa.timestamp("us", "UTC")),
        (DATE, TIMESTAMP_NTZ, pa.timestamp("us")),
        (TIMESTAMP, TIMESTAMP_NTZ, pa.timestamp("us", "UTC")),
        (VOID, STRING, pa.string()),
        (STRING, LONG, None),
        (BOOLEAN, LONG, None),
    ],
)
def test_types_meet_in_the_wider_one(left, right, common):
    assert comparison_type(left, right) == common
    assert comparison_type(right, left) == common


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024", dt.datetime(2024, 1, 1)),
        ("2024-02", dt.datetime(2024, 2, 1)),
        ("2024-2-3", dt.datetime(2024, 2, 3)),
        ("2024-02-03 4:05", dt.datetime(2024, 2, 3, 4, 5)),
        ("2024-02-03T04:05:06.1234567", dt.datetime(2024, 2, 3, 4, 5, 6, 123_456)),
    ],
)
def test_a_timestamp_may_leave_out_its_end(text, moment):
    assert parse_timestamp(text) == moment


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("Z", 0), ("UTC", 0), ("+02:00", 2), ("-0230", -2.5), ("UTC+3", 3), (" Asia/Tokyo", 9)],
)
def test_a_timestamp_may_name_its_zone(zone, hours):
    moment = parse_timestamp(f"2024-01-01 00:00:00{zone}")
    assert moment.utcoffset() == dt.timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "x", "24-01-01", "2024-01-01 00:00:00 Nowhere/Else"])
def test_what_isnt_a_timestamp_is_an_error(text):
    with pytest.raises(ValueError):
        parse_timestamp(text)
