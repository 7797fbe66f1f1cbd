from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol.partition_values import parse, serialize
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
    ArrayType,
    DecimalType,
    StructType,
)


def typed(data_type, values):
    return st.tuples(st.just(data_type), values)


VALUES = st.one_of(
    typed(STRING, st.text(min_size=1)),
    typed(BINARY, st.text(min_size=1).map(str.encode)),
    typed(BOOLEAN, st.booleans()),
    typed(BYTE, st.integers(-(2**7), 2**7 - 1)),
    typed(SHORT, st.integers(-(2**15), 2**15 - 1)),
    typed(INTEGER, st.integers(-(2**31), 2**31 - 1)),
    typed(LONG, st.integers(-(2**63), 2**63 - 1)),
    typed(DOUBLE, st.floats(allow_nan=False)),
    typed(FLOAT, st.floats(allow_nan=False, width=32)),
    typed(DATE, st.dates()),
    typed(TIMESTAMP, st.datetimes(timezones=st.just(dt.UTC))),
    typed(TIMESTAMP_NTZ, st.datetimes()),
    typed(
        DecimalType(38, 18),
        st.decimals(Decimal("-9e19"), Decimal("9e19"), places=18, allow_nan=False),
    ),
)


@given(VALUES)
def test_a_value_survives_its_text(typed_value):
    data_type, value = typed_value
    back = parse(serialize(value, data_type), data_type)
    assert back == value
    assert type(back) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, back) == math.copysign(1, value)


@given(VALUES, st.sampled_from(["Europe/Berlin", "America/New_York", "UTC"]))
def test_no_readers_time_zone_changes_a_value(typed_value, time_zone):
    data_type, value = typed_value
    assert parse(serialize(value, data_type), data_type, time_zone) == value


# As delta-spark 4.4.0 writes them.
@pytest.mark.parametrize(
    ("data_type", "value", "text"),
    [
        (FLOAT, 3.4028234663852886e38, "3.4028235E38"),
        (FLOAT, struct.unpack("<f", struct.pack("<f", 0.1))[0], "0.1"),
        (DOUBLE, -0.0, "-0.0"),
        (DOUBLE, 100.0, "100.0"),
        (DOUBLE, 1e7, "1.0E7"),
        (DOUBLE, 9_999_999.5, "9999999.5"),
        (DOUBLE, 0.001, "0.001"),
        (DOUBLE, 0.00025, "2.5E-4"),
        (DOUBLE, -1.5e-10, "-1.5E-10"),
        (DOUBLE, math.inf, "Infinity"),
        (DOUBLE, -math.inf, "-Infinity"),
        (DecimalType(10, 4), Decimal("1.5"), "1.5000"),
        (DecimalType(38, 18), Decimal("1E-18"), "0.000000000000000001"),
        (DecimalType(9, 0), Decimal(-999999999), "-999999999"),
        (BOOLEAN, True, "true"),
        (DATE, dt.date(1, 1, 1), "0001-01-01"),
        (TIMESTAMP, dt.datetime(2024, 1, 5, 10, tzinfo=dt.UTC), "2024-01-05T10:00:00.000000Z"),
        (TIMESTAMP_NTZ, dt.datetime(2024, 1, 5, 10), "2024-01-05 10:00:00"),
        (TIMESTAMP_NTZ, dt.datetime(1900, 1, 1, 0, 0, 0, 1), "1900-01-01 00:00:00.000001"),
    ],
)
def test_texts_are_those_of_delta_spark(data_type, value, text):
    assert serialize(value, data_type) == text
    assert parse(text, data_type) == value


def test_nan_has_a_text():
    assert serialize(math.nan, DOUBLE) == "NaN"
    read = parse("NaN", FLOAT)
    assert isinstance(read, float)
    assert math.isnan(read)


@pytest.mark.parametrize("data_type", [STRING, LONG, DATE, TIMESTAMP, BINARY, DecimalType(5, 2)])
def test_null_and_the_empty_string_are_one(data_type):
    assert parse(None, data_type) is None
    assert parse("", data_type) is None
    assert serialize(None, data_type) is None


def test_empty_values_are_written_as_null():
    assert serialize("", STRING) is None
    assert serialize(b"", BINARY) is None


@pytest.mark.parametrize(
    ("text", "time_zone", "instant"),
    [
        ("2024-01-05 10:00:00", "UTC", dt.datetime(2024, 1, 5, 10)),
        ("2024-01-05 10:00:00", "America/New_York", dt.datetime(2024, 1, 5, 15)),
        ("2024-01-05 10:00:00.5", "UTC", dt.datetime(2024, 1, 5, 10, 0, 0, 500_000)),
        (
            "2024-01-05T10:00:00.123456Z",
            "America/New_York",
            dt.datetime(2024, 1, 5, 10, 0, 0, 123_456),
        ),
        ("2024-01-05T10:00:00+02:00", "UTC", dt.datetime(2024, 1, 5, 8)),
        ("2024-01-05T10:00:00-0230", "UTC", dt.datetime(2024, 1, 5, 12, 30)),
        ("2024-1-5", "UTC", dt.datetime(2024, 1, 5)),
    ],
)
def test_a_timestamp_without_zone_is_in_the_writers(text, time_zone, instant):
    assert parse(text, TIMESTAMP, time_zone) == instant.replace(tzinfo=dt.UTC)


def test_the_z_of_a_timestamp_without_zone_means_nothing():
    assert parse("2024-03-31T02:30:00.000000Z", TIMESTAMP_NTZ, "Europe/Berlin") == dt.datetime(
        2024, 3, 31, 2, 30
    )


def test_text_of_a_narrower_type_is_read_after_a_type_change():
    assert parse("1", DOUBLE) == 1.0
    assert parse("7", DecimalType(10, 2)) == Decimal("7.00")
    assert parse("1999-12-31", TIMESTAMP_NTZ) == dt.datetime(1999, 12, 31)
    assert parse("1.5", DecimalType(20, 4)) == Decimal("1.5000")


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("x", LONG),
        ("128", BYTE),
        ("2024_01", INTEGER),
        ("\u0661", LONG),
        ("1_0", DOUBLE),
        ("1_0", DecimalType(5, 2)),
        ("1.5", INTEGER),
        ("yes", BOOLEAN),
        ("2024-13-01", DATE),
        ("soon", TIMESTAMP),
        ("123456", DecimalType(5, 2)),
        ("x", DecimalType(5, 2)),
        ("1", ArrayType(element_type=LONG)),
        ("1", StructType()),
    ],
)
def test_a_text_that_isnt_a_value_of_the_type_is_an_error(text, data_type):
    with pytest.raises(ValueError, match="partition value"):
        parse(text, data_type)


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (300, BYTE),
        ("1", LONG),
        (True, LONG),
        (1, BOOLEAN),
        (b"\xff", BINARY),
        (Decimal(1000), DecimalType(5, 2)),
        (1.5, DecimalType(5, 2)),
        (dt.datetime(2024, 1, 1), DATE),
        (dt.date(2024, 1, 1), TIMESTAMP),
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), TIMESTAMP_NTZ),
        ("x", StructType()),
    ],
)
def test_a_value_that_doesnt_fit_the_type_is_an_error(value, data_type):
    with pytest.raises(ValueError):
        serialize(value, data_type)
