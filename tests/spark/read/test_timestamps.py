import datetime as dt

import pytest

from bayou.errors import ArgumentError
from bayou.spark.read.time_travel import parse_timestamp


def ms(*fields):
    return round(dt.datetime(*fields, tzinfo=dt.UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-05", ms(2024, 1, 5)),
        ("2024-1-5", ms(2024, 1, 5)),
        ("2024-01-05 10:20:30", ms(2024, 1, 5, 10, 20, 30)),
        ("2024-01-05T10:20", ms(2024, 1, 5, 10, 20)),
        ("2024-01-05 10:20:30.123456", ms(2024, 1, 5, 10, 20, 30, 123000)),
        ("2024-01-05 10:20:30.5", ms(2024, 1, 5, 10, 20, 30, 500000)),
        ("2024-01-05T10:20:30Z", ms(2024, 1, 5, 10, 20, 30)),
        ("2024-01-05T10:20:30+02:00", ms(2024, 1, 5, 8, 20, 30)),
        ("2024-01-05T10:20:30-0330", ms(2024, 1, 5, 13, 50, 30)),
        (" 2024-01-05 10:20:30 UTC ", ms(2024, 1, 5, 10, 20, 30)),
        ("1969-12-31 23:59:59.9995", -1),
    ],
)
def test_what_delta_spark_takes_is_read(text, expected):
    assert parse_timestamp("timestampAsOf", text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01", "2024-01-05 25:00:00", "2024"])
def test_anything_else_names_the_option_and_the_shapes(text):
    with pytest.raises(ArgumentError, match=r"timestampAsOf: .*'2024-01-05'"):
        parse_timestamp("timestampAsOf", text)


def test_a_session_s_time_zone_counts_where_the_text_has_none():
    noon = parse_timestamp("t", "2024-07-01 12:00:00Z")
    assert parse_timestamp("t", "2024-07-01 08:00:00", "America/New_York") == noon
    assert parse_timestamp("t", "2024-07-01 12:00:00Z", "America/New_York") == noon
    assert parse_timestamp("t", "2024-07-01 12:00:00", "UTC") == noon
    assert parse_timestamp("t", "2024-07-01 09:30:00", "-02:30") == noon
    assert parse_timestamp("t", "2024-07-01 05:00:00", "PST") == noon
    assert parse_timestamp("t", "2024-07-01 12:00:00", "Nowhere/Known") == noon
