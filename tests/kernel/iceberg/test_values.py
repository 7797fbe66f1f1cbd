from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.kernel.iceberg.values import (
    decimal_bytes,
    lower_bound,
    partition_value,
    upper_bound,
    value_bytes,
    value_from_bytes,
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
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        (34, BYTE, "22000000"),
        (34, INTEGER, "22000000"),
        (34, LONG, "2200000000000000"),
        (-4.5, FLOAT, "000090c0"),
        (6.0, DOUBLE, "0000000000001840"),
        ("iceberg", STRING, "69636562657267"),
        (dt.date(2017, 11, 16), DATE, struct.pack("<i", 17486).hex()),
        (Decimal("14.20"), DecimalType(9, 2), "058c"),
        (Decimal("-1.28"), DecimalType(9, 2), "80"),
    ],
)
def test_bounds_have_the_bytes_of_the_spec(value: Any, data_type: DataType, expected: str) -> None:
    assert lower_bound(value, data_type) == bytes.fromhex(expected)
    assert upper_bound(value, data_type) == bytes.fromhex(expected)


@given(st.decimals(min_value=-(10**20), max_value=10**20, places=2))
def test_decimals_are_twos_complement_without_spare_bytes(value: Decimal) -> None:
    data = decimal_bytes(value, 2)
    unscaled = int.from_bytes(data, "big", signed=True)
    assert Decimal(unscaled).scaleb(-2) == value
    assert len(data) == 1 or int.from_bytes(data[1:], "big", signed=True) != unscaled


def test_a_maximum_covers_truncated_microseconds() -> None:
    value = dt.datetime(1970, 1, 1, 0, 0, 0, 1000)
    assert upper_bound(value, TIMESTAMP_NTZ) == struct.pack("<q", 1999)
    assert lower_bound(value, TIMESTAMP_NTZ) == struct.pack("<q", 1000)
    instant = value.replace(tzinfo=dt.UTC)
    assert upper_bound(instant, TIMESTAMP) == struct.pack("<q", 1999)


def test_zero_is_a_bound_for_both_signs() -> None:
    assert lower_bound(0.0, DOUBLE) == struct.pack("<d", -0.0)
    assert upper_bound(-0.0, DOUBLE) == struct.pack("<d", 0.0)


def test_nan_and_types_without_order_are_no_bounds() -> None:
    assert upper_bound(float("nan"), DOUBLE) is None
    assert lower_bound(True, BOOLEAN) is None
    assert lower_bound(b"x", BINARY) is None
    assert lower_bound(1 << 40, INTEGER) is None


def test_bounds_of_widened_floats_cover_the_float() -> None:
    single = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    low = lower_bound(0.1, DOUBLE, was_float=True)
    high = upper_bound(0.1, DOUBLE, was_float=True)
    assert low is not None
    assert high is not None
    assert struct.unpack("<d", low)[0] <= single <= struct.unpack("<d", high)[0]


@pytest.mark.parametrize(
    ("string", "data_type", "value", "iceberg_type", "data"),
    [
        ("5", LONG, 5, "long", "0500000000000000"),
        ("5", INTEGER, 5, "int", "05000000"),
        ("1970-01-02", DATE, 1, "date", "01000000"),
        ("1970-01-01 00:00:00.000001", TIMESTAMP, 1, "timestamptz", "0100000000000000"),
        ("true", BOOLEAN, True, "boolean", "01"),
        ("1.5", FLOAT, 1.5, "float", "0000c03f"),
        ("1.50", DecimalType(9, 2), Decimal("1.50"), "decimal(9, 2)", "0096"),
        ("x", STRING, "x", "string", "78"),
    ],
)
def test_partition_values(
    string: str, data_type: DataType, value: Any, iceberg_type: str, data: str
) -> None:
    assert partition_value(string, data_type) == value
    assert value_bytes(value, iceberg_type) == bytes.fromhex(data)
    assert value_from_bytes(bytes.fromhex(data), iceberg_type) == value
    assert partition_value(None, data_type) is None
    assert value_bytes(None, iceberg_type) is None
