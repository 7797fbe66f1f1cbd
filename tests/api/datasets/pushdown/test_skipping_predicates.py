"""The predicates for data skipping are weaker than an engine's filter, never stronger."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bayou.api.datasets.pushdown.pyarrow_expressions import read_expression
from bayou.api.datasets.pushdown.skipping_predicates import exact_literal, skipping_predicate
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.protocol.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    tuple(
        StructField(name=name, data_type=data_type)
        for name, data_type in {
            "l": LONG,
            "d": DOUBLE,
            "s": STRING,
            "b": BOOLEAN,
            "st": StructType((StructField(name="a", data_type=LONG),)),
        }.items()
    )
)
L, D, S = pc.field("l"), pc.field("d"), pc.field("s")
NULL, NAN = pa.scalar(None, pa.int64()), pa.scalar(math.nan)


def predicate(expression: Any, *, nan_is_largest: bool = False) -> str | None:
    node = read_expression(expression)
    assert node is not None
    found = skipping_predicate(node, SCHEMA, nan_is_largest=nan_is_largest)
    return None if found is None else without_types(found)


def without_types(found: Any) -> str:
    text = repr(found)
    for name in ("long", "double", "string", "boolean"):
        text = text.replace(f"PrimitiveType(name='{name}')", "None")
    return text


def parsed(sql: str) -> str:
    return without_types(parse_predicate(sql))


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (L == 3, "l = 3"),
        (pc.scalar(3) > L, "l < 3"),
        (~(L == 3), "l <> 3"),
        (~((L < 3) | (S == "a")), "l >= 3 AND s <> 'a'"),
        (pc.field("st", "a") >= 1, "st.a >= 1"),
        (pc.field("b"), "b = true"),
        (~pc.field("b"), "b = false"),
        (L.is_null(), "l IS NULL"),
        (L.is_valid(), "l IS NOT NULL"),
        (L.isin([1, 2]), "l IN (1, 2)"),
        (L.isin([1, None]), "l IN (1) OR l IS NULL"),
        (~L.isin([1, 2]), "l NOT IN (1, 2) OR l IS NULL"),
        ((L == 3) & (L + 1 == 4), "l = 3"),
        (L < NULL, "false"),
        (D > 5.0, "d > 5D"),
        (D <= 5.0, "d <= 5D"),
    ],
    ids=str,
)
def test_a_filter_is_translated(expression: Any, sql: str) -> None:
    assert predicate(expression) == parsed(sql)


@pytest.mark.parametrize(
    "expression",
    [
        (L == 3) | (L + 1 == 4),
        L == 2.0**53,
        S == 3,
        D < NAN,
        D != 5.0,
        ~(D > 5.0),
        ~(D == 5.0),
        ~D.isin([5.0]),
        D.is_null(nan_is_null=True),
        pc.field("nope") == 1,
        pc.field("L") == 1,
        pc.starts_with(S, "a", ignore_case=True),
    ],
    ids=str,
)
def test_a_filter_that_may_differ_from_the_kernels_is_omitted(expression: Any) -> None:
    assert predicate(expression) is None


def test_a_comparison_that_nan_satisfies_is_omitted_if_nan_is_the_largest_value() -> None:
    for expression in (D > 5.0, D >= 5.0, D != 5.0, ~(D < 5.0), ~(D <= 5.0), ~(D == 5.0)):
        assert predicate(expression, nan_is_largest=True) is None
    for expression in (D < 5.0, D <= 5.0, D == 5.0, ~(D > 5.0), ~(D >= 5.0), ~(D != 5.0)):
        assert predicate(expression, nan_is_largest=True) is not None


@pytest.mark.parametrize(
    ("scalar", "data_type", "value"),
    [
        (pa.scalar(3, pa.int8()), LONG, 3),
        (pa.scalar(2**40), INTEGER, None),
        (pa.scalar(0.1), FLOAT, None),
        (pa.scalar(0.5), FLOAT, 0.5),
        (pa.scalar(2**24 + 1), FLOAT, None),
        (pa.scalar(Decimal("1.50")), DecimalType(10, 1), Decimal("1.5")),
        (pa.scalar(Decimal("1.55")), DecimalType(10, 1), None),
        (pa.scalar(3), DecimalType(10, 1), Decimal("3.0")),
        (pa.scalar(10**12), DecimalType(10, 1), None),
        (pa.scalar(2**62, pa.timestamp("us", "UTC")), TIMESTAMP, None),
        (pa.scalar(1, pa.timestamp("ns", "UTC")), TIMESTAMP, None),
        (pa.scalar(1, pa.timestamp("us")), TIMESTAMP, None),
        (pa.scalar(1, pa.timestamp("us")), DATE, None),
        (pa.scalar("5"), LONG, None),
        (pa.scalar("a", pa.large_string()), STRING, "a"),
    ],
    ids=repr,
)
def test_a_constant_is_used_only_if_the_columns_type_has_it(
    scalar: Any, data_type: Any, value: Any
) -> None:
    literal = exact_literal(scalar, data_type)
    assert (None if literal is None else literal.value) == value
