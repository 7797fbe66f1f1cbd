"""Whether an expression means to the kernel what it means to Spark in a session.

The kernel evaluates as Spark does in ANSI mode and in UTC. In other sessions whatever depends on
either is Spark's.

Conditions in SQL text whose meaning depends on the session's time zone.

The kernel evaluates in UTC. A condition of an overwrite goes to it as text, so times in it that
name no zone get the session's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.expressions.functions.registry import ALL
from bayou.kernel.expressions.literals import checked_time_zone, parse_timestamp
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
    "is_plain_session",
    "is_utc",
    "means_the_same",
    "with_zone",
]


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


_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""What means the same with and without ANSI mode, of operands of one kind."""

_OWN_RULES = re.compile(
    r'"__COLLATIONS"|"__CHAR_VARCHAR_TYPE_STRING":"[^"]*\bchar\(', re.IGNORECASE
)
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", bytes: "binary"}
_COMPARING = (Comparison, In, StartsWith, Like)


def is_plain_session(spark: Any, schemas: Iterable[StructType] = ()) -> bool:
    """Whether the session is one in which every expression over columns means the same."""
    own_rules = any(_has_own_rules(field) for schema in schemas for field in schema)
    return not own_rules and _is_ansi(spark) and _is_utc(spark)


def means_the_same(spark: Any, expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether the kernel may evaluate an expression for a session.

    Args:
        schemas: of the columns; those of a merge's two sides.
    """
    known = tuple(schemas)
    named = {name.lower() for path in referenced_columns(expression) for name in path}
    if any(_has_own_rules(f) and f.name.lower() in named for schema in known for f in schema):
        return False
    if not _is_ansi(spark) and not _is_plain(expression, known):
        return False
    if _is_utc(spark) or isinstance(expression, Column):
        return True
    return not depends_on_zone(expression, known)


def _has_own_rules(field: StructField) -> bool:
    """Whether Spark compares a column's values by a collation, or as padded texts (CHAR)."""
    return _OWN_RULES.search(StructType((field,)).to_json()) is not None


def _is_plain(expression: Expression, schemas: Sequence[StructType]) -> bool:
    if not isinstance(expression, _PLAIN):
        return False
    if isinstance(expression, _COMPARING) and not _of_one_kind(expression, schemas):
        return False  # ANSI mode casts one to the other's type by rules of its own
    return all(_is_plain(operand, schemas) for operand in operands_of(expression))


def _of_one_kind(expression: Expression, schemas: Sequence[StructType]) -> bool:
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
    """Kinds of the columns that a path may name, behind an alias perhaps."""
    found = {
        kind_of(field.data_type)
        for schema in schemas
        for names in (path, path[1:])
        if (field := _field(schema, names)) is not None
    }
    return found or {None}


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
