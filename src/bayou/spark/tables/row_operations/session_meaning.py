"""Whether an expression means to the kernel what it means to Spark in a session.

The kernel evaluates as Spark does in ANSI mode and in UTC. In other sessions whatever depends on
either is Spark's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayou.kernel.predicates.functions.registry import ALL
from bayou.kernel.predicates.model import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    operands_of,
    referenced_columns,
)
from bayou.protocol.schema import TIMESTAMP, ArrayType, DataType, MapType, StructType

__all__ = ["has_timestamps", "is_plain_session", "means_the_same"]

_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""What means the same with and without ANSI mode."""
_OF_TIMES = frozenset(
    name for function in ALL["Dates and timestamps"] for name in (function.name, *function.aliases)
)
_UTC = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "+00:00"})


def is_plain_session(spark: Any) -> bool:
    """Whether the session is one in which every expression means the same."""
    return _is_ansi(spark) and _is_utc(spark)


def means_the_same(spark: Any, expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether the kernel may evaluate an expression for a session.

    Args:
        schemas: of the columns; those of a merge's two sides.
    """
    if not _is_ansi(spark) and not _all(expression, lambda e: isinstance(e, _PLAIN)):
        return False
    if _is_utc(spark) or isinstance(expression, Column):
        return True
    if not _all(expression, _is_timeless):
        return False
    fields = {f.name.lower(): f.data_type for schema in schemas for f in schema}
    named = {name.lower() for path in referenced_columns(expression) for name in path}
    return not any(name in fields and has_timestamps(fields[name]) for name in named)


def has_timestamps(data_type: DataType) -> bool:
    """Whether values of a type are, or have in them, moments that a time zone shows."""
    match data_type:
        case StructType(fields):
            return any(has_timestamps(field.data_type) for field in fields)
        case ArrayType():
            return has_timestamps(data_type.element_type)
        case MapType():
            return has_timestamps(data_type.key_type) or has_timestamps(data_type.value_type)
        case _:
            return data_type == TIMESTAMP


def _is_timeless(expression: Expression) -> bool:
    match expression:
        case Literal(data_type=data_type) | Cast(data_type=data_type):
            return data_type is None or not has_timestamps(data_type)
        case Function(name=name):
            return name.lower() not in _OF_TIMES
        case _:
            return True


def _all(expression: Expression, holds: Any) -> bool:
    return bool(holds(expression)) and all(_all(o, holds) for o in operands_of(expression))


def _is_ansi(spark: Any) -> bool:
    return str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"


def _is_utc(spark: Any) -> bool:
    return str(spark.conf.get("spark.sql.session.timeZone")).upper() in _UTC
