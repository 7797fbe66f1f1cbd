import datetime as dt

import pytest
from pyspark.sql import datasource as spark

from bayou.kernel.expressions.model import (
    And,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    StartsWith,
    col,
    conjunction,
)
from bayou.spark.read.filters import to_predicate

DAY = dt.date(2024, 1, 5)


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (spark.EqualTo(("a", "b"), 1), Comparison("=", col("a", "b"), Literal(1))),
        (spark.EqualNullSafe(("a",), None), Comparison("<=>", col("a"), Literal(None))),
        (spark.GreaterThan(("a",), 1.5), Comparison(">", col("a"), Literal(1.5))),
        (spark.GreaterThanOrEqual(("a",), DAY), Comparison(">=", col("a"), Literal(DAY))),
        (spark.LessThan(("a",), "x"), Comparison("<", col("a"), Literal("x"))),
        (spark.LessThanOrEqual(("a",), b"x"), Comparison("<=", col("a"), Literal(b"x"))),
        (spark.In(("a",), (1, 2)), In(col("a"), (Literal(1), Literal(2)))),
        (spark.IsNull(("a",)), IsNull(col("a"))),
        (spark.IsNotNull(("a",)), Not(IsNull(col("a")))),
        (spark.StringStartsWith(("a",), "x"), StartsWith(col("a"), "x")),
        (
            spark.Not(spark.EqualTo(("a",), True)),
            Not(Comparison("=", col("a"), Literal(True))),
        ),
    ],
)
def test_a_simple_comparison_becomes_a_predicate(pushed, expected):
    assert repr(to_predicate(pushed)) == repr(expected)


@pytest.mark.parametrize(
    "pushed",
    [
        spark.StringEndsWith(("a",), "x"),
        spark.StringContains(("a",), "x"),
        spark.Not(spark.StringContains(("a",), "x")),
        spark.EqualTo(("a",), [1, 2]),
    ],
)
def test_what_can_skip_nothing_is_left_to_spark(pushed):
    assert to_predicate(pushed) is None


def test_filters_are_joined_by_and():
    one, two = IsNull(col("a")), IsNull(col("b"))
    assert conjunction([]) is None
    assert conjunction([one]) is one
    assert repr(conjunction([one, two])) == repr(And((one, two)))
