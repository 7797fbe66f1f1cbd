"""Whether the kernel evaluates an expression as Spark does in a session.

The kernel evaluates as Spark does in ANSI mode and in UTC. In other sessions, Spark evaluates
expressions that depend on either. The condition of an overwrite is passed to the kernel as a
string, so `with_zone` adds the session's time zone to its timestamps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.expressions.functions.registry import ALL
from bayou.kernel.expressions.literals import normalize_time_zone, parse_timestamp
from bayou.kernel.expressions.model import (
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
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.expressions.types import kind_of
from bayou.protocol.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

__all__ = [
    "depends_on_zone",
    "has_timestamps",
    "is_utc",
    "matches_session",
    "session_matches_kernel",
    "with_zone",
]


_DATETIME_FUNCTIONS = frozenset(
    name for function in ALL["Dates and timestamps"] for name in (function.name, *function.aliases)
)
_COMPARISONS = (Column, Literal, Comparison, In, IsNull, And, Or, Not)
_UTC = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "+00:00"})
_QUOTED = re.compile(
    r"`[^`]*`|(?P<typed>\b\w+\s*)?(?P<quote>['\"])(?P<value>(?:\\.|(?!(?P=quote)).)*)(?P=quote)",
    re.DOTALL,
)


def is_utc(zone: str) -> bool:
    """Whether a time zone is UTC, under any of Spark's names for it."""
    return zone.upper() in _UTC


def depends_on_zone(expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether an expression's value may depend on the time zone.

    Args:
        schemas: schemas of the columns; two for a merge.
    """
    if not _all(expression, _is_timeless):
        return True
    fields = {f.name.lower(): f.data_type for schema in schemas for f in schema}
    return any(name in fields and has_timestamps(fields[name]) for name in _names(expression))


def has_timestamps(data_type: DataType) -> bool:
    """Whether a type is or contains a timestamp with time zone semantics."""
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
    """Add the time zone to each timestamp in a condition that has none.

    Args:
        condition: SQL string.
        schema: schema of the columns.
        zone: the session's time zone, under any of Spark's names.
        name: name of the option, for the error.

    Raises:
        ArgumentError: the condition uses timestamp functions, or compares a string that looks like
            a timestamp with a column of another type, so that its value can't be converted.
    """
    try:
        expression = parse_predicate(condition)
    except PredicateError:
        return condition  # the caller reports the error with the table
    if is_utc(zone) or not depends_on_zone(expression, [schema]):
        return condition
    if not _all(expression, lambda e: isinstance(e, _COMPARISONS)):
        raise ArgumentError(
            f"{name}: {condition!r} depends on the session's time zone {zone}, but Bayou evaluates "
            "it in UTC. Compare the column with timestamps, such as "
            "ts >= TIMESTAMP'2024-01-05 00:00:00', or set the session's time zone to UTC.",
            argument=name,
        )
    datetime_types = {DATE, TIMESTAMP, TIMESTAMP_NTZ}
    types = {f.name.lower(): f.data_type for f in schema}
    only_datetimes = all(types.get(column) in datetime_types for column in _names(expression))
    zone_name = normalize_time_zone(zone)

    def add_zone(match: re.Match[str]) -> str:
        value = match["value"]
        if value is None or not _is_timestamp_without_zone(value):
            return match[0]
        typed = (match["typed"] or "").strip().upper()
        if typed in ("DATE", "TIMESTAMP_NTZ"):
            return match[0]
        if not typed.startswith("TIMESTAMP") and not only_datetimes:
            raise ArgumentError(
                f"{name}: the time zone of {value!r} in {condition!r} is ambiguous. Write "
                f"TIMESTAMP'{value}' for the session's time zone {zone}, or '{value}Z' for UTC.",
                argument=name,
            )
        quote = match["quote"]
        return f"{match['typed'] or ''}{quote}{value} {zone_name}{quote}"

    return _QUOTED.sub(add_zone, condition)


def _is_timestamp_without_zone(string: str) -> bool:
    try:
        return parse_timestamp(string).tzinfo is None
    except ValueError:
        return False


def _is_timeless(expression: Expression) -> bool:
    match expression:
        case Literal(data_type=data_type) | Cast(data_type=data_type):
            return data_type is None or not has_timestamps(data_type)
        case Function(name=name):
            return name.lower() not in _DATETIME_FUNCTIONS
        case _:
            return True


def _names(expression: Expression) -> set[str]:
    return {name.lower() for path in referenced_columns(expression) for name in path}


def _all(expression: Expression, condition: Callable[[Expression], bool]) -> bool:
    return condition(expression) and all(_all(o, condition) for o in operands_of(expression))


_ANSI_INDEPENDENT = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""Expressions with the same value in and out of ANSI mode, if their operands have the same type."""

_SPECIAL_COMPARISON = re.compile(
    r'"__COLLATIONS"|"__CHAR_VARCHAR_TYPE_STRING":"[^"]*\bchar\(', re.IGNORECASE
)
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", bytes: "binary"}
_TYPED_OPERANDS = (Comparison, In, StartsWith, Like)


def session_matches_kernel(spark: Any, schemas: Iterable[StructType] = ()) -> bool:
    """Whether the kernel evaluates every expression over these columns as the session does."""
    special = any(_has_special_comparison(field) for schema in schemas for field in schema)
    return not special and _is_ansi(spark) and _is_utc(spark)


def matches_session(spark: Any, expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether the kernel evaluates an expression as the session does.

    Args:
        schemas: schemas of the columns; two for a merge.
    """
    schemas = tuple(schemas)
    names = _names(expression)
    fields = [field for schema in schemas for field in schema]
    if any(_has_special_comparison(f) and f.name.lower() in names for f in fields):
        return False
    if not _is_ansi(spark) and not _is_ansi_independent(expression, schemas):
        return False
    if _is_utc(spark) or isinstance(expression, Column):
        return True
    return not depends_on_zone(expression, schemas)


def _has_special_comparison(field: StructField) -> bool:
    """Whether Spark compares a column's values by a collation, or as padded strings (CHAR)."""
    return _SPECIAL_COMPARISON.search(StructType((field,)).to_json()) is not None


def _is_ansi_independent(expression: Expression, schemas: Sequence[StructType]) -> bool:
    if not isinstance(expression, _ANSI_INDEPENDENT):
        return False
    if isinstance(expression, _TYPED_OPERANDS) and not _have_one_type(expression, schemas):
        return False  # ANSI mode has other rules to cast one operand to the other's type
    return all(_is_ansi_independent(operand, schemas) for operand in operands_of(expression))


def _have_one_type(expression: Expression, schemas: Sequence[StructType]) -> bool:
    kinds: set[str | None] = set()
    if isinstance(expression, StartsWith | Like):
        kinds.add("string")
    for operand in operands_of(expression):
        match operand:
            case Literal(value=None):
                continue
            case Literal(value=value, data_type=None):
                kinds.add(_KINDS.get(type(value)))
            case Literal(data_type=data_type):
                kinds.add(None if data_type is None else kind_of(data_type))
            case Column(path=path):
                kinds |= _kinds_of(path, schemas)
            case _:
                return False
    return len(kinds) <= 1 and None not in kinds


def _kinds_of(path: tuple[str, ...], schemas: Sequence[StructType]) -> set[str | None]:
    """Kinds of the columns that a path may refer to, with or without an alias."""
    kinds = {
        kind_of(field.data_type)
        for schema in schemas
        for names in (path, path[1:])
        if (field := _field(schema, names)) is not None
    }
    return kinds or {None}


def _field(schema: StructType, names: tuple[str, ...]) -> StructField | None:
    field = None
    within: DataType = schema
    for name in names:
        if not isinstance(within, StructType):
            return None
        field = next((f for f in within if f.name.lower() == name.lower()), None)
        if field is None:
            return None
        within = field.data_type
    return field


def _is_ansi(spark: Any) -> bool:
    return str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"


def _is_utc(spark: Any) -> bool:
    return is_utc(str(spark.conf.get("spark.sql.session.timeZone")))
