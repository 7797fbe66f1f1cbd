from __future__ import annotations

import pytest

from bayou.errors import ArgumentError
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.protocol.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    StructField,
    StructType,
)
from bayou.spark.expressions.session_semantics import with_zone

SCHEMA = StructType(
    (
        StructField(name="ts", data_type=TIMESTAMP),
        StructField(name="local", data_type=TIMESTAMP_NTZ),
        StructField(name="day", data_type=DATE),
        StructField(name="name", data_type=STRING),
        StructField(name="n", data_type=LONG),
    )
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n > 3 AND name = '2024-06-01'", None),
        ("day >= '2024-06-01'", None),
        ("day >= DATE'2024-06-01'", None),
        ("local >= TIMESTAMP_NTZ'2024-06-01 00:00:00'", None),
        ("ts >= '2024-06-01 00:00:00Z'", None),
        ("ts >= '2024-06-01T00:00:00+01:00'", None),
        ("ts >= '2024-06-01'", "ts >= '2024-06-01 00:00:00 Europe/Berlin'"),
        ('ts >= "2024-06-01 10:00"', 'ts >= "2024-06-01 10:00:00 Europe/Berlin"'),
        (
            "ts IN (TIMESTAMP '2024-06-01', timestamp'2024-06-02 00:00:00') OR name = 'a'",
            (
                "ts IN (TIMESTAMP '2024-06-01 00:00:00 Europe/Berlin', "
                "timestamp'2024-06-02 00:00:00 Europe/Berlin') OR name = 'a'"
            ),
        ),
        (
            "day = '2024-06-01' AND `ts` < '2024'",
            (
                "day = '2024-06-01 00:00:00 Europe/Berlin' "
                "AND `ts` < '2024-01-01 00:00:00 Europe/Berlin'"
            ),
        ),
        (
            "day = DATE'2024-06-01' AND n = 1 AND ts < TIMESTAMP'2024-06-01'",
            (
                "day = DATE'2024-06-01' AND n = 1 "
                "AND ts < TIMESTAMP'2024-06-01 00:00:00 Europe/Berlin'"
            ),
        ),
        (
            "NOT isnan(n) AND ts < TIMESTAMP'2024-06-01'",
            "NOT isnan(n) AND ts < TIMESTAMP'2024-06-01 00:00:00 Europe/Berlin'",
        ),
        (
            "name LIKE 'a%' AND length(name) > n AND ts < TIMESTAMP'2024-06-01'",
            (
                "name LIKE 'a%' AND length(name) > n "
                "AND ts < TIMESTAMP'2024-06-01 00:00:00 Europe/Berlin'"
            ),
        ),
        ("ts IS NULL", None),
        ("year(day) = 2024 AND last_day(day) = day", None),
        ("day >= to_date('2024-06-01')", None),
        ("no condition at all", None),
    ],
)
def test_times_without_a_zone_get_that_of_the_session(condition, expected):
    shown = with_zone(condition, SCHEMA, "Europe/Berlin", name="replaceWhere")
    assert shown == (condition if expected is None else expected)
    assert with_zone(condition, SCHEMA, "Etc/UTC", name="replaceWhere") == condition


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2024", "Europe/Berlin", "2023-12-31 23:00:00Z"),
        ("2024-06", "Europe/Berlin", "2024-05-31 22:00:00Z"),
        ("2024", "+02:00", "2023-12-31 22:00:00Z"),
        ("2024-06-01", "+02:00", "2024-05-31 22:00:00Z"),
        ("2024-06-01 10", "+02:00", "2024-06-01 08:00:00Z"),
        ("2024-06-01 10:20:30.5", "-02:00", "2024-06-01 12:20:30.5Z"),
        ("2024-06-01", "EST", "2024-06-01 05:00:00Z"),
    ],
)
@pytest.mark.parametrize("literal", ["'{}'", 'TIMESTAMP"{}"', "r'{}'"])
def test_a_time_of_any_length_can_be_in_any_zone(text, zone, expected, literal):
    shown = with_zone(f"ts >= {literal.format(text)}", SCHEMA, zone, name="replaceWhere")
    found, same = (
        resolve(parse_predicate(condition), SCHEMA)
        for condition in (shown, f"ts >= TIMESTAMP'{expected}'")
    )
    assert found == same


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("hour(ts) = 3", "Compare the column with timestamps"),
        ("year(ts) = 2024", "Compare the column with timestamps"),
        ("year(to_timestamp(name)) = 2024", "Compare the column with timestamps"),
        ("hour(day) = 3", "Compare the column with timestamps"),
        ("CAST(ts AS DATE) = '2024-06-01'", "Compare the column with timestamps"),
        ("ts >= DATE'2024-06-01'", "Compare the column with timestamps"),
        ("ts BETWEEN DATE'2024-06-01' AND '2024-06-02'", "Compare the column with timestamps"),
        ("n = 1 OR ts IN (DATE'2024-06-01')", "Compare the column with timestamps"),
        (
            "CAST(name AS TIMESTAMP) < '2024' AND ts > '2024'",
            "Compare the column with timestamps",
        ),
        ("coalesce(ts < '2024', name LIKE 'a%')", "Compare the column with timestamps"),
        ("year(day) = 2024 AND ts > '2024-06-01'", "Compare the column with timestamps"),
        (
            "upper(name) = '2024-06-01' AND ts > TIMESTAMP'2024-06-01'",
            "time zone of '2024-06-01' .* is ambiguous",
        ),
        ("ts < TIMESTAMP_NTZ'2024-06-01'", "Compare the column with timestamps"),
        ("ts < day", "Compare the column with timestamps"),
        ("NOT (local <=> ts)", "Compare the column with timestamps"),
        ("day > TIMESTAMP'2024-06-01 00:00:00Z'", "Compare the column with timestamps"),
        ("name > ts", "Compare the column with timestamps"),
        (
            "name = '2024-06-01' AND ts > TIMESTAMP'2024-06-01'",
            "time zone of '2024-06-01' .* is ambiguous",
        ),
        (
            "n = 1 AND ts > '2024-06-01'",
            "TIMESTAMP'2024-06-01' for .* '2024-06-01 00:00:00Z' for UTC",
        ),
    ],
)
def test_what_cannot_be_said_in_utc_is_an_error(condition, said):
    with pytest.raises(ArgumentError, match=said):
        with_zone(condition, SCHEMA, "Europe/Berlin", name="replaceWhere")
