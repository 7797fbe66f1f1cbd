"""Translation of Catalyst filters into kernel predicates.

A filter is translated from the SQL that Catalyst generates for it. Columns have physical names,
which may be qualified. A filter that can't be translated, or could have another meaning in the
kernel, is ignored: more files are listed, and Spark filters the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from zoneinfo import ZoneInfo

from bayou.errors import PredicateError
from bayou.kernel.expressions.functions import inexact_function
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
from bayou.kernel.expressions.resolution import map_columns, map_literals, resolve
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.table_features.column_mapping import logical_path
from bayou.protocol.schema import StructType
from bayou.spark.jvm.expressions import CatalystFilter

_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""Expressions with the same meaning in all time zones, and with and without Spark's ANSI mode."""


def to_predicate(
    filters: Iterable[CatalystFilter],
    schema: StructType,
    *,
    time_zone: str = "UTC",
    ansi: bool = True,
    unusable: frozenset[str] = frozenset(),
) -> Predicate | None:
    """The conjunction of the filters that can be translated; None if no filter can.

    Args:
        filters: filters that must all be true.
        time_zone: time zone of the planning session, in which Catalyst formats timestamps.
        ansi: whether the planning session has Spark's ANSI mode on.
        unusable: physical names of columns with a collation; filters on them are ignored.
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
    """Raised for a filter that can't be translated."""


def _translate(
    catalyst: CatalystFilter, schema: StructType, time_zone: str, *, ansi: bool
) -> Predicate | None:
    try:
        predicate = parse_predicate(catalyst.text)
        if inexact_function(predicate) is not None:
            return None
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
    """Maps a filter's column paths, which have physical names, to paths of logical names."""

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
    """Reinterpret a timestamp literal, which was parsed as UTC, in `time_zone`."""
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
