"""Columns of Spark Connect as SQL text, without a server."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812
from pyspark.sql.types import LongType

from bayou.kernel.expressions.model import Column
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.spark.expressions.column_string import connect_column_sql


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (F.col("id") > 3, "(`id` > 3)"),
        (F.col("t.id") == F.col("s.id"), "(`t`.`id` = `s`.`id`)"),
        (F.col("a").eqNullSafe("b"), "(`a` <=> 'b')"),
        (~(F.col("a") == 1) & F.col("b").isNull(), "((NOT (`a` = 1)) AND (`b` IS NULL))"),
        (F.col("a").isin(1, 2) | F.expr("b IN (3)"), "((`a` IN (1, 2)) OR (b IN (3)))"),
        (F.col("a").like("x%"), "(`a` LIKE 'x%')"),
        (F.lit("it's \\"), "'it\\'s \\\\'"),
        (F.lit(1.5), "1.5D"),
        (F.lit(float("-inf")), "CAST('-Infinity' AS DOUBLE)"),
        (F.lit(Decimal("1.50")), "1.50BD"),
        (F.lit(True), "true"),
        (F.lit(None), "NULL"),
        (F.lit(dt.date(2024, 2, 29)), "DATE '2024-02-29'"),
        (F.col("n").cast("int").alias("m"), "CAST(`n` AS int)"),
        (F.upper(F.concat("a", F.lit("b"))), "upper(concat(`a`, 'b'))"),
        (F.col("s")["x"], "`s`['x']"),
        (
            F.when(F.col("a") > 1, "x").when(F.col("a") > 0, "y").otherwise("z"),
            "CASE WHEN (`a` > 1) THEN 'x' WHEN (`a` > 0) THEN 'y' ELSE 'z' END",
        ),
    ],
)
def test_a_column_has_a_text_that_can_be_parsed(column, text):
    assert connect_column_sql(column) == text
    parse_expression(text)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("2024", ("2024",)),
        ("a-b", ("a-b",)),
        ("a b", ("a b",)),
        ("true", ("true",)),
        ("current_date", ("current_date",)),
        ("t.2024", ("t", "2024")),
        ("`x.y`.`z``w`", ("x.y", "z`w")),
    ],
)
def test_a_name_is_never_read_as_a_number_or_an_operator(name, path):
    expression = parse_expression(connect_column_sql(F.col(name)))
    assert isinstance(expression, Column)
    assert expression.path == path


@pytest.mark.parametrize("name", ["", "a..b", "a.", "`a", "`a`b"])
def test_a_name_that_spark_rejects_has_no_text(name):
    assert connect_column_sql(F.col(name)) is None


def test_default_stays_a_keyword():
    assert connect_column_sql(F.col("DEFAULT")) == "DEFAULT"


def test_a_moment_is_told_with_its_zone():
    text = connect_column_sql(F.lit(dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC)))
    assert text == "TIMESTAMP '2024-01-01 01:00:00.000000+00:00'"
    parse_expression(text)


def test_functions_of_python_and_lambdas_have_no_text():
    assert connect_column_sql(F.udf(lambda n: n, LongType())("id") > 1) is None
    assert connect_column_sql(F.transform("a", lambda x: x + 1)) is None
