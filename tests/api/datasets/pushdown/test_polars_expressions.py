"""The tree of a Polars expression."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bayou.api.datasets.pushdown.filter_calls import Call, Constant, FieldPath
from bayou.api.datasets.pushdown.polars_expressions import read_expression

NOON = dt.datetime(2024, 1, 5, 12, tzinfo=dt.UTC)


def described(node: Any) -> Any:
    match node:
        case FieldPath(names=names):
            return ".".join(names)
        case Constant(scalar=scalar):
            return scalar.as_py()
        case Call(name=name, arguments=arguments, options=options):
            values = [option.as_py() for option in options.values()]
            return (name, *map(described, arguments), *values)
    return None


@pytest.mark.parametrize(
    ("expression", "tree"),
    [
        (pl.col("id") == 3, ("equal", "id", 3)),
        (pl.lit(3) < pl.col("id"), ("less", 3, "id")),
        (pl.col("s").eq_missing("a"), ("equal_missing", "s", "a")),
        (pl.col("s").ne_missing("a"), ("invert", ("equal_missing", "s", "a"))),
        (
            (pl.col("x") < 1.5) & ~pl.col("flag"),
            ("and_kleene", ("less", "x", 1.5), ("invert", "flag")),
        ),
        (
            pl.col("x").is_null() | pl.col("y").is_not_null(),
            ("or_kleene", ("is_null", "x"), ("is_valid", "y")),
        ),
        (
            pl.col("x").is_between(1, 2, closed="left"),
            ("and_kleene", ("greater_equal", "x", 1), ("less", "x", 2)),
        ),
        (pl.col("x").is_in([1, 2, None]), ("is_in", "x", [1, 2, None])),
        (pl.col("x").is_in(pl.Series([1, 2])), ("is_in", "x", [1, 2])),
        (pl.col("s").str.starts_with("ab"), ("starts_with", "s", "ab")),
        (pl.col("st").struct.field("a") == 1, ("equal", "st.a", 1)),
        (pl.col("ts") > NOON, ("greater", "ts", NOON)),
        (pl.col("m") > Decimal("1.50"), ("greater", "m", Decimal("1.50"))),
        (pl.col("b") == b"ab", ("equal", "b", b"ab")),
        (pl.lit(True), True),
    ],
    ids=str,
)
def test_an_expression_has_a_tree(expression: pl.Expr, tree: Any) -> None:
    assert described(read_expression(expression)) == tree


@pytest.mark.parametrize(
    "expression",
    [pl.col("x") + 1 == 3, pl.col("x").is_in(pl.col("y")), pl.col("s").str.ends_with("x")],
    ids=str,
)
def test_other_functions_are_calls_that_nothing_translates(expression: pl.Expr) -> None:
    assert "unknown" in str(described(read_expression(expression)))
