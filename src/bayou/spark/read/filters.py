"""Filters that Spark pushes into a Python data source, as predicates of the kernel."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeGuard

from pyspark.sql import datasource as spark

from bayou.kernel.expressions.model import (
    And,
    Comparison,
    In,
    IsNull,
    Literal,
    LiteralValue,
    Not,
    Predicate,
    StartsWith,
    col,
)

__all__ = ["conjunction", "to_predicate"]


def to_predicate(pushed: spark.Filter) -> Predicate | None:
    """The predicate of a filter; None for a kind that can't skip anything."""
    match pushed:
        case spark.EqualTo(path, value) if _is_literal(value):
            return Comparison("=", col(*path), Literal(value))
        case spark.EqualNullSafe(path, value) if _is_literal(value):
            return Comparison("<=>", col(*path), Literal(value))
        case spark.GreaterThan(path, value) if _is_literal(value):
            return Comparison(">", col(*path), Literal(value))
        case spark.GreaterThanOrEqual(path, value) if _is_literal(value):
            return Comparison(">=", col(*path), Literal(value))
        case spark.LessThan(path, value) if _is_literal(value):
            return Comparison("<", col(*path), Literal(value))
        case spark.LessThanOrEqual(path, value) if _is_literal(value):
            return Comparison("<=", col(*path), Literal(value))
        case spark.In(path, values) if all(_is_literal(v) for v in values):
            return In(col(*path), tuple(Literal(v) for v in values))
        case spark.IsNull(path):
            return IsNull(col(*path))
        case spark.IsNotNull(path):
            return Not(IsNull(col(*path)))
        case spark.StringStartsWith(path, value) if isinstance(value, str):
            return StartsWith(col(*path), value)
        case spark.Not(child):
            inner = to_predicate(child)
            return None if inner is None else Not(inner)
        case _:
            return None


def conjunction(predicates: Iterable[Predicate]) -> Predicate | None:
    """All of them at once; None for none."""
    operands = tuple(predicates)
    if not operands:
        return None
    return operands[0] if len(operands) == 1 else And(operands)


def _is_literal(value: Any) -> TypeGuard[LiteralValue]:
    kinds = (bool, int, float, str, bytes, Decimal, dt.date, dt.datetime)
    return value is None or isinstance(value, kinds)
