"""Conditions in SQL text whose meaning depends on the session's time zone.

The kernel evaluates in UTC. A condition of an overwrite goes to it as text, so times in it that
name no zone get the session's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.expressions.functions.registry import ALL
from bayou.kernel.expressions.literals import parse_timestamp
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    Function,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    operands_of,
    referenced_columns,
)
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.expressions.time_zones import checked_time_zone
from bayou.protocol.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

__all__ = ["depends_on_zone", "has_timestamps", "is_utc", "with_zone"]

_OF_TIMES = frozenset(
    name for function in ALL["Dates and timestamps"] for name in (function.name, *function.aliases)
)
_COMPARES = (Column, Literal, Comparison, In, IsNull, And, Or, Not)
_UTC = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "+00:00"})
_TEXT = re.compile(
    r"`[^`]*`|(?P<typed>\b\w+\s*)?(?P<quote>['\"])(?P<value>(?:\\.|(?!(?P=quote)).)*)(?P=quote)",
    re.DOTALL,
)


def is_utc(zone: str) -> bool:
    """Whether a zone's clock is UTC, by any name that Spark takes."""
    return zone.upper() in _UTC


def depends_on_zone(expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether an expression may mean something else in another time zone.

    Args:
        schemas: of the columns; those of a merge's two sides.
    """
    if not _all(expression, _is_timeless):
        return True
    fields = {f.name.lower(): f.data_type for schema in schemas for f in schema}
    return any(name in fields and has_timestamps(fields[name]) for name in _names(expression))


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


def with_zone(condition: str, schema: StructType, zone: str, *, name: str) -> str:
    """The condition with the zone behind each time in it that names none.

    Args:
        condition: SQL text.
        schema: of its columns.
        zone: the session's, by any name that Spark takes.
        name: the option, for the error.

    Raises:
        ArgumentError: it takes times apart, or compares texts that look like times with columns of
            other types, so that nobody can say here what it means in the zone.
    """
    try:
        expression = parse_predicate(condition)
    except PredicateError:
        return condition  # said where the table is known
    if is_utc(zone) or not depends_on_zone(expression, [schema]):
        return condition
    if not _all(expression, lambda e: isinstance(e, _COMPARES)):
        raise ArgumentError(
            f"{name} {condition!r} depends on the session's time zone {zone}, and Bayou computes "
            "such conditions in UTC. Compare the column with times instead, such as "
            "ts >= TIMESTAMP'2024-01-05 00:00:00', or set the session's time zone to UTC.",
            argument=name,
        )
    of_times = {DATE, TIMESTAMP, TIMESTAMP_NTZ}
    types = {f.name.lower(): f.data_type for f in schema}
    only_times = all(types.get(column) in of_times for column in _names(expression))
    shown = checked_time_zone(zone)

    def replaced(match: re.Match[str]) -> str:
        text = match["value"]
        if text is None or not _names_no_zone(text):
            return match[0]
        typed = (match["typed"] or "").strip().upper()
        if typed in ("DATE", "TIMESTAMP_NTZ"):
            return match[0]
        if not typed.startswith("TIMESTAMP") and not only_times:
            raise ArgumentError(
                f"{name} {condition!r}: say of {text!r} whether it is a time of the session's time "
                f"zone {zone} (TIMESTAMP'{text}') or of UTC ('{text}Z').",
                argument=name,
            )
        quote = match["quote"]
        return f"{match['typed'] or ''}{quote}{text} {shown}{quote}"

    return _TEXT.sub(replaced, condition)


def _names_no_zone(text: str) -> bool:
    try:
        return parse_timestamp(text).tzinfo is None
    except ValueError:
        return False


def _is_timeless(expression: Expression) -> bool:
    match expression:
        case Literal(data_type=data_type) | Cast(data_type=data_type):
            return data_type is None or not has_timestamps(data_type)
        case Function(name=name):
            return name.lower() not in _OF_TIMES
        case _:
            return True


def _names(expression: Expression) -> set[str]:
    return {name.lower() for path in referenced_columns(expression) for name in path}


def _all(expression: Expression, holds: Callable[[Expression], bool]) -> bool:
    return holds(expression) and all(_all(o, holds) for o in operands_of(expression))
