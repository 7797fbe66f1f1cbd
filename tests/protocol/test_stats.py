from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)
from bayou.protocol.stats import FileStatistics, from_json, to_json, with_wide_bounds

DECIMAL = DecimalType(38, 18)


def field(name, data_type):
    return StructField(name=name, data_type=data_type)


SCHEMA = StructType(
    (
        field("l", LONG),
        field("d", DOUBLE),
        field("dec", DECIMAL),
        field("s", STRING),
        field("da", DATE),
        field("ts", TIMESTAMP),
        field("ntz", TIMESTAMP_NTZ),
        field("b", BOOLEAN),
        field("bin", BINARY),
        field("n", StructType((field("x", LONG), field("y", STRING)))),
    )
)
MILLISECONDS = st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
BOUNDS = st.fixed_dictionaries(
    {},
    optional={
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats(allow_nan=False, allow_infinity=False),
        "dec": st.decimals(-(10**19), 10**19, places=18),
        "s": st.text(),
        "da": st.dates(),
        "ts": MILLISECONDS.map(lambda t: t.replace(tzinfo=dt.UTC)),
        "ntz": MILLISECONDS,
        "n": st.fixed_dictionaries({}, optional={"x": st.integers(0, 9), "y": st.text()}),
    },
)


@given(
    st.builds(
        FileStatistics,
        num_records=st.integers(0, 2**63 - 1),
        min_values=BOUNDS,
        max_values=BOUNDS,
        null_count=st.fixed_dictionaries(
            {"l": st.integers(0, 2**63 - 1), "n": st.just({"x": 0, "y": 3})}
        ),
        tight_bounds=st.none() | st.booleans(),
    )
)
def test_statistics_survive_their_text(stats):
    assert from_json(to_json(stats), SCHEMA) == stats


def test_bounds_are_written_as_delta_spark_does():
    stats = FileStatistics(
        num_records=2,
        min_values={
            "ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
            "ntz": dt.datetime(2024, 1, 1, 0, 0, 0, 1_999),
            "da": dt.date(1, 1, 1),
            "dec": Decimal("-99999999999999999999.999999999999999999"),
        },
        null_count={"ts": 0},
        tight_bounds=True,
    )
    assert to_json(stats) == (
        '{"numRecords":2,"minValues":{"ts":"1969-12-31T23:59:59.999Z",'
        '"ntz":"2024-01-01T00:00:00.001","da":"0001-01-01",'
        '"dec":-99999999999999999999.999999999999999999},"maxValues":{},'
        '"nullCount":{"ts":0},"tightBounds":true}'
    )


def test_a_timestamp_of_another_zone_is_written_in_utc():
    zone = dt.timezone(dt.timedelta(hours=2))
    stats = FileStatistics(num_records=1, min_values={"ts": dt.datetime(2024, 1, 1, tzinfo=zone)})
    assert json.loads(to_json(stats))["minValues"] == {"ts": "2023-12-31T22:00:00.000Z"}


def test_bounds_that_others_cant_use_are_left_out():
    stats = FileStatistics(
        num_records=1,
        min_values={"d": float("nan"), "b": True, "bin": b"x", "dec": Decimal("NaN"), "s": "a"},
        max_values={"d": float("inf"), "n": {"x": None, "y": "z"}},
    )
    written = json.loads(to_json(stats))
    assert written["minValues"] == {"s": "a"}
    assert written["maxValues"] == {"n": {"y": "z"}}


def test_infinities_are_read_and_nan_is_no_bound():
    read = from_json(
        '{"numRecords":1,"minValues":{"d":"-Infinity"},"maxValues":{"d":"NaN"}}', SCHEMA
    )
    assert read is not None
    assert read.min_values == {"d": float("-inf")}
    assert read.max_values == {}


def test_old_writers_put_an_offset_to_a_timestamp():
    read = from_json('{"numRecords":1,"minValues":{"ts":"2015-01-01T00:00:00.000-08:00"}}', SCHEMA)
    assert read is not None
    assert read.min_values == {"ts": dt.datetime(2015, 1, 1, 8, tzinfo=dt.UTC)}


def test_what_doesnt_fit_the_schema_is_left_out():
    text = (
        '{"numRecords":3,"minValues":{"l":"x","s":5,"da":"soon","unknown":1,"n":7,"b":true},'
        '"nullCount":{"l":"x","n":{"x":1},"s":true}}'
    )
    read = from_json(text, SCHEMA)
    assert read == FileStatistics(num_records=3, min_values={"n": {}}, null_count={"n": {"x": 1}})


@pytest.mark.parametrize("text", ["{}", '{"numRecords":null}', '{"numRecords":true}'])
def test_statistics_without_a_number_of_records_are_none(text):
    assert from_json(text, SCHEMA) is None


@pytest.mark.parametrize("text", ["", "{", "[1]", "5"])
def test_what_isnt_a_json_object_is_an_error(text):
    with pytest.raises(ValueError, match="statistics"):
        from_json(text, SCHEMA)


def test_bounds_become_wide_and_keep_every_digit():
    text = (
        '{"numRecords":3,"minValues":{"d":12345678901234567890123456789012345678,"x":0.1},'
        '"nullCount":{"d":3,"s":{"x":3,"y":1}}}'
    )
    assert with_wide_bounds(text, 3) == (
        '{"numRecords":3,"minValues":{"d":12345678901234567890123456789012345678,"x":0.1},'
        '"nullCount":{"d":3,"s":{"x":3,"y":1}},"tightBounds":false}'
    )
    assert with_wide_bounds(None, 5) == '{"numRecords":5,"tightBounds":false}'


def test_null_counts_are_never_raised_for_they_may_count_deleted_rows():
    text = '{"numRecords":3,"nullCount":{"a":3,"b":2,"s":{"c":3}},"tightBounds":true}'
    wide = json.loads(with_wide_bounds(text, 5))
    assert wide["nullCount"] == {"a": 3, "b": 2, "s": {"c": 3}}
    assert wide["numRecords"] == 5


@pytest.mark.parametrize("text", ["[]", "{", "7"])
def test_what_is_not_statistics_cannot_become_wide(text):
    with pytest.raises(ValueError, match="statistics"):
        with_wide_bounds(text, 1)
