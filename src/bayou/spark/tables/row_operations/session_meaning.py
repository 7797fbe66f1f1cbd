"""Whether an expression means to the kernel what it means to Spark in a session.

The kernel evaluates as Spark does in ANSI mode and in UTC. In other sessions whatever depends on
either is Spark's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayou.kernel.predicates.model import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    operands_of,
)
from bayou.protocol.schema import StructType
from bayou.spark.zone_of_conditions import depends_on_zone, is_utc

__all__ = ["is_plain_session", "means_the_same"]

_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""What means the same with and without ANSI mode."""


def is_plain_session(spark: Any) -> bool:
    """Whether the session is one in which every expression means the same."""
    return _is_ansi(spark) and _is_utc(spark)


def means_the_same(spark: Any, expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether the kernel may evaluate an expression for a session.

    Args:
        schemas: of the columns; those of a merge's two sides.
    """
    if not _is_ansi(spark) and not _is_plain(expression):
        return False
    if _is_utc(spark) or isinstance(expression, Column):
        return True
    return not depends_on_zone(expression, schemas)


def _is_plain(expression: Expression) -> bool:
    return isinstance(expression, _PLAIN) and all(map(_is_plain, operands_of(expression)))


def _is_ansi(spark: Any) -> bool:
    return str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"


def _is_utc(spark: Any) -> bool:
    return is_utc(str(spark.conf.get("spark.sql.session.timeZone")))
