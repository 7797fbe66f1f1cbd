import datetime as dt

import pytest

from bayou.kernel.expressions.model import Comparison, Literal
from bayou.protocol.schema import DOUBLE, INTEGER, LONG, STRING, TIMESTAMP, StructField, StructType
from bayou.spark.expressions.catalyst_filters import to_predicate
from bayou.spark.jvm.expressions import CatalystFilter

NESTED = StructType(
    (StructField(name="b", data_type=LONG, metadata={"delta.columnMapping.physicalName": "col-2"}),)
)
SCHEMA = StructType(
    (
        StructField(name="id", data_type=INTEGER),
        StructField(name="name", data_type=STRING),
        StructField(name="ts", data_type=TIMESTAMP),
        StructField(name="x", data_type=DOUBLE),
        StructField(
            name="a", data_type=NESTED, metadata={"delta.columnMapping.physicalName": "col-1"}
        ),
    )
)


def translated(text, *columns, **session):
    return to_predicate([CatalystFilter(sql=text, columns=columns)], SCHEMA, **session)


def shown(predicate):
    return None if predicate is None else repr(predicate)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("(id = 5)", [("id", "id")]),
        ("(t.id = 5)", [("t.id", "id")]),
        ("(spark_catalog.`default`.t.id = 5)", [("spark_catalog.`default`.t.id", "id")]),
        ("(`my view`.`id` = 5)", [("`my view`.`id`", "id")]),
    ],
)
def test_names_may_be_qualified(text, columns):
    assert shown(translated(text, *columns)) == shown(translated("(id = 5)", ("id", "id")))


def test_physical_names_become_logical_ones_nested_too():
    predicate = translated("(t.`col-1`.`col-2` > 5L)", ("t.`col-1`", "col-1"))
    assert isinstance(predicate, Comparison)
    assert predicate.left.path == ("a", "b")


def test_a_qualifier_that_is_a_column_s_name_too_is_not_guessed_at():
    columns = [("id", "id"), ("id.name", "name")]
    assert translated("(id.name = 'x')", *columns) is None


@pytest.mark.parametrize(
    "text",
    [
        "(my_function(id) = 5)",
        "(id = scalar-subquery#12 [])",
        "dynamicpruning#3",
        "((id IN (1, 2",
        "(unknown = 5)",
        "(EXP(CAST(id AS DOUBLE)) = 2.718281828459045D)",
    ],
)
def test_what_can_not_be_translated_is_not_used(text):
    assert translated(text, ("id", "id")) is None
    both = [
        CatalystFilter(sql=text, columns=[("id", "id")]),
        CatalystFilter(sql="(id > 3)", columns=[("id", "id")]),
    ]
    assert shown(to_predicate(both, SCHEMA)) == shown(translated("(id > 3)", ("id", "id")))


def test_timestamps_are_in_the_session_s_time_zone():
    text, columns = "(ts >= TIMESTAMP '2024-07-01 12:00:00')", ("ts", "ts")
    there = translated(text, columns, time_zone="America/New_York")
    assert isinstance(there, Comparison)
    assert isinstance(there.right, Literal)
    assert there.right.value == dt.datetime(2024, 7, 1, 16, tzinfo=dt.UTC)


@pytest.mark.parametrize("hour", ["2024-11-03 01:30:00", "2024-03-10 02:30:00"])
def test_an_hour_that_a_clock_shows_twice_or_never_is_not_used(hour):
    text = f"(ts >= TIMESTAMP '{hour}')"
    assert translated(text, ("ts", "ts"), time_zone="America/New_York") is None
    assert translated(text, ("ts", "ts")) is not None


def test_a_time_zone_that_python_does_not_know_loses_timestamps_only():
    text = "(ts >= TIMESTAMP '2024-07-01 12:00:00')"
    assert translated(text, ("ts", "ts"), time_zone="+05:30") is None
    assert translated("(id = 5)", ("id", "id"), time_zone="+05:30") is not None


def test_functions_count_only_where_they_mean_the_same():
    text, columns = "(cast(ts as date) = DATE '2024-07-01')", ("ts", "ts")
    assert translated(text, columns) is not None
    assert translated(text, columns, time_zone="Asia/Tokyo") is None
    assert translated(text, columns, ansi=False) is None
    assert translated("(id = 5)", ("id", "id"), ansi=False) is not None
    assert translated("(NOT isnan(x))", ("x", "x"), time_zone="Asia/Tokyo", ansi=False) is not None
    cast = "(NOT isnan(CAST(name AS DOUBLE)))"
    assert translated(cast, ("name", "name")) is not None
    assert translated(cast, ("name", "name"), ansi=False) is None


def test_columns_with_rules_of_their_own_are_not_used():
    assert translated("(name = 'x')", ("name", "name"), ignored_columns=frozenset({"name"})) is None
