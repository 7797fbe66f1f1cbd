from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from bayou.errors import StatementError
from bayou.protocol.sql import tokenize
from bayou.spark.sql_statements.parser import bind_parameters, parse_statement


@pytest.mark.parametrize(
    ("text", "args", "filled"),
    [
        ("a = ? AND b IN (?)", [1, "it's"], "a = 1 AND b IN ('it\\'s')"),
        ("a IN (:x, :y) -- :z", {"x": 1, "y": None}, "a IN (1, NULL) -- :z"),
        ("v:field = ':x' AND b = :x", {"x": True}, "v:field = ':x' AND b = TRUE"),
        ("CAST(a AS STRUCT<x:INT>) = :x", {"x": 2}, "CAST(a AS STRUCT<x:INT>) = 2"),
        ("a = ?", [Decimal("1.50")], "a = 1.50BD"),
        ("a = b-? AND c", [-1], "a = b-(-1) AND c"),
        ("a = b-:x AND c", {"x": Decimal("-1.5")}, "a = b-(-1.5BD) AND c"),
        ("a = ?", [dt.date(2024, 1, 5)], "a = DATE'2024-01-05'"),
        ("a = ?", [b"\x01\xff"], "a = X'01ff'"),
        ("a = ?", [1.5], "a = CAST('1.5' AS DOUBLE)"),
        ("a = ?", None, "a = ?"),
    ],
)
def test_literals_take_the_places_of_parameters(text, args, filled):
    assert bind_parameters(text, args, {}) == filled


def test_a_negative_number_never_starts_a_comment():
    bound = bind_parameters("DELETE FROM t WHERE a > 4-? AND b = 2", [-1], {})
    assert parse_statement(bound).where == "a > 4-(-1) AND b = 2"
    assert list(tokenize(bound))[-1].text == "2"


def test_values_of_braces_are_filled_in_and_frames_are_not():
    assert bind_parameters("a > {n} AND {df}", None, {"n": 3}) == "a > 3 AND {df}"


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("a = :x", {"y": 1}, "parameter :x has no value"),
        ("a = ? OR b = ?", [1], "more parameters than the 1 values"),
        ("a = ?", [object()], "SQL has no literal"),
    ],
)
def test_a_parameter_that_cannot_be_filled_in_is_said(text, args, message):
    with pytest.raises(StatementError, match=message):
        bind_parameters(text, args, {})
