"""Translation of Catalyst filters into kernel predicates.

A filter is translated from the SQL that Catalyst generates for it. A filter that can't be
translated, or could have another meaning in the kernel, is ignored: more files are listed, and
Spark filters the rows. Columns have physical names, which may be qualified.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from bayou.errors import PredicateError
from bayou.kernel.expressions.evaluation import resolve
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
    Predicate,
    StartsWith,
    operands_of,
)
from bayou.kernel.expressions.resolution import map_columns, map_literals
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.table_features.column_mapping import logical_path
from bayou.protocol.schema import StructType
from bayou.spark.jvm.classes import scala_items

__all__ = ["CatalystFilter", "to_predicate"]

_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""Expressions with the same meaning in all time zones, and with and without Spark's ANSI mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalystFilter:
    """A filter of Catalyst.

    Attributes:
        text: the result of `Expression.sql()`.
        columns: for each column, its `sql()`, which may be qualified, and its name.
    """

    text: str
    columns: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, jvm: Any, expression: Any) -> CatalystFilter:
        """The filter of a Catalyst `Expression`."""
        references = expression.references().toSeq()
        columns = scala_items(jvm, references)
        return cls(
            text=expression.sql(), columns=tuple((str(c.sql()), str(c.name())) for c in columns)
        )


def to_predicate(
    filters: Iterable[CatalystFilter],
    schema: StructType,
    *,
    time_zone: str = "UTC",
    ansi: bool = True,
    unusable: frozenset[str] = frozenset(),
) -> Predicate | None:
    """The conjunction of the filters that can be translated; None if there are none.

    Args:
        filters: filters that must all be true.
        schema: the table's schema.
        time_zone: time zone of the planning session, in which Catalyst formats timestamps.
        ansi: whether the planning session has Spark's ANSI mode on.
        unusable: physical names of columns with a collation.
    """
    usable = [
        predicate
        for catalyst in filters
        if not unusable.intersection(name for _, name in catalyst.columns)
        and (predicate := _translate(catalyst, schema, time_zone, ansi=ansi)) is not None
    ]
    if not usable:
        return None
    return usable[0] if len(usable) == 1 else And(tuple(usable))


class _UntranslatableError(Exception):
    """The filter can't be translated."""


def _translate(
    catalyst: CatalystFilter, schema: StructType, time_zone: str, *, ansi: bool
) -> Predicate | None:
    try:
        predicate = parse_predicate(catalyst.text)
        if (not ansi or time_zone != "UTC") and not _is_plain(predicate):
            return None
        names = _ColumnNames(catalyst.columns, schema)
        predicate = map_columns(predicate, names.logical)
        if time_zone != "UTC":
            predicate = map_literals(predicate, lambda literal: _in_zone(literal, time_zone))
        return resolve(predicate, schema)
    except (PredicateError, _UntranslatableError):
        return None


def _is_plain(expression: Expression) -> bool:
    return isinstance(expression, _PLAIN) and all(map(_is_plain, operands_of(expression)))


class _ColumnNames:
    """Maps the physical, perhaps qualified paths of a filter to logical paths."""

    def __init__(self, columns: Iterable[tuple[str, str]], schema: StructType) -> None:
        self._schema = schema
        self._known: dict[tuple[str, ...], str] = {}
        for text, name in columns:
            column = parse_expression(text)
            if not isinstance(column, Column):
                raise _UntranslatableError(text)
            self._known[column.path] = name

    def logical(self, path: tuple[str, ...]) -> tuple[str, ...]:
        matches = [
            (name, *path[len(known) :])
            for known, name in self._known.items()
            if path[: len(known)] == known
        ]
        if len(matches) != 1:  # a qualifier that is also a column's name
            raise _UntranslatableError(".".join(path))
        try:
            return logical_path(self._schema, matches[0])
        except KeyError as error:
            raise _UntranslatableError(".".join(path)) from error


def _in_zone(literal: Literal, time_zone: str) -> Literal:
    """A timestamp literal of the session's time zone, which was parsed as UTC."""
    value = literal.value
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return literal
    try:
        local = value.replace(tzinfo=ZoneInfo(time_zone))
    except (KeyError, ValueError) as error:  # an offset, or a zone that only Java supports
        raise _UntranslatableError(time_zone) from error
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        raise _UntranslatableError(str(value))  # a clock change: the local time is ambiguous
    return Literal(local.astimezone(dt.UTC), literal.data_type)
