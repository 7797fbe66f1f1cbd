"""Translation of Catalyst filters into kernel predicates.

Catalyst converts a filter to SQL, which the kernel parses. Columns have physical names, which may
be qualified. A filter is ignored if it can't be translated, or if it could have another meaning in
the kernel. In this case fewer files are skipped, and Spark filters the rows.
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
    conjunction,
    operands_of,
)
from bayou.kernel.expressions.resolution import map_columns, map_literals, resolve
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.table_features.column_mapping import logical_path
from bayou.protocol.schema import StructType
from bayou.spark.expressions.session_semantics import is_nan_test
from bayou.spark.jvm.expressions import CatalystFilter

_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""Expressions whose meaning depends neither on the time zone nor on ANSI mode."""


def to_predicate(
    filters: Iterable[CatalystFilter],
    schema: StructType,
    *,
    time_zone: str = "UTC",
    ansi: bool = True,
    ignored_columns: frozenset[str] = frozenset(),
) -> Predicate | None:
    """Return the AND of the translated filters; None if no filter can be translated.

    Filters that can't be translated are omitted.

    Args:
        filters: the filters of a scan.
        time_zone: the session's time zone, in which Catalyst formats timestamps.
        ansi: whether the session is in ANSI mode.
        ignored_columns: physical names of columns with a collation. Filters over these columns
            aren't translated.
    """
    names: dict[tuple[tuple[str, str], ...], _ColumnNames] = {}
    predicates = []
    for catalyst in filters:
        columns = tuple(catalyst.columns)
        if columns not in names:
            names[columns] = _ColumnNames(columns, schema, ignored_columns)
        predicate = _translate(catalyst.sql, names[columns], schema, time_zone, ansi=ansi)
        if predicate is not None:
            predicates.append(predicate)
    return conjunction(predicates)


class _UntranslatableError(Exception):
    """Raised for a filter that can't be translated."""


def _translate(
    sql: str, names: _ColumnNames, schema: StructType, time_zone: str, *, ansi: bool
) -> Predicate | None:
    try:
        predicate = parse_predicate(sql)
        if inexact_function(predicate) is not None:
            return None
        if (not ansi or time_zone != "UTC") and not _is_plain(predicate):
            return None
        predicate = map_columns(predicate, names.logical)
        if time_zone != "UTC":
            predicate = map_literals(predicate, lambda literal: _in_zone(literal, time_zone))
        return resolve(predicate, schema)
    except (PredicateError, _UntranslatableError):
        return None


def _is_plain(expression: Expression) -> bool:
    # `isnan` takes a float or double. Catalyst casts operands of other types, and a cast isn't
    # plain.
    plain = isinstance(expression, _PLAIN) or is_nan_test(expression)
    return plain and all(map(_is_plain, operands_of(expression)))


class _ColumnNames:
    """Converts the column paths of filters from physical names to logical names."""

    def __init__(
        self, columns: Iterable[tuple[str, str]], schema: StructType, ignored: frozenset[str]
    ) -> None:
        self._schema = schema
        self._ignored = ignored
        self._known: dict[tuple[str, ...], str] = {}
        for text, name in columns:
            column = _parsed_column(text)
            if column is not None:
                self._known[column.path] = name

    def logical(self, path: tuple[str, ...]) -> tuple[str, ...]:
        matches = [
            (name, *path[len(known) :])
            for known, name in self._known.items()
            if path[: len(known)] == known
        ]
        if len(matches) != 1 or matches[0][0] in self._ignored:
            # Two matches: the first name of the path is both a qualifier and a struct column.
            raise _UntranslatableError(".".join(path))
        try:
            return logical_path(self._schema, matches[0])
        except KeyError as error:
            raise _UntranslatableError(".".join(path)) from error


def _parsed_column(text: str) -> Column | None:
    try:
        column = parse_expression(text)
    except PredicateError:
        return None
    return column if isinstance(column, Column) else None


def _in_zone(literal: Literal, time_zone: str) -> Literal:
    """Correct a timestamp literal: a local time in `time_zone` was parsed as a time in UTC."""
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
