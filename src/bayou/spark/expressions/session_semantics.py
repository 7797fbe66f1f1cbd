"""Whether an expression means to the kernel what it means to Spark in a session.

The kernel evaluates as Spark does in ANSI mode and in UTC. In other sessions whatever depends on
either is Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from bayou.kernel.expressions.model import (
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
    referenced_columns,
)
from bayou.kernel.expressions.types import kind_of
from bayou.protocol.schema import DataType, StructField, StructType
from bayou.spark.expressions.session_time_zone import depends_on_zone, is_utc

__all__ = ["is_plain_session", "means_the_same"]

_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""What means the same with and without ANSI mode, of operands of one kind."""

_OWN_RULES = re.compile(
    r'"__COLLATIONS"|"__CHAR_VARCHAR_TYPE_STRING":"[^"]*\bchar\(', re.IGNORECASE
)
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", bytes: "binary"}
_COMPARES = (Comparison, In, StartsWith, Like)


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
    if isinstance(expression, _COMPARES) and not _of_one_kind(expression, schemas):
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
