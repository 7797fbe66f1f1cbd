"""Catalyst's filters as predicates of the kernel.

A filter comes as the SQL text that Catalyst itself writes for it. Whatever can't be translated, or
might mean something else there, isn't used: then more files are listed than need be, and Spark
decides. The columns are those of data files, so their names are physical, and may be qualified.
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
from bayou.kernel.expressions.resolution import with_literals, with_paths
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.table_features.column_mapping import logical_path
from bayou.protocol.schema import StructType
from bayou.spark.jvm.classes import scala_items

__all__ = ["CatalystFilter", "to_predicate"]

_PLAIN = (Column, Literal, Comparison, In, IsNull, And, Or, Not, StartsWith, Like)
"""What means the same in every time zone, and with and without Spark's ANSI mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalystFilter:
    """One filter.

    Attributes:
        text: `Expression.sql()`.
        columns: for each column in it, its `sql()`, qualified perhaps, and its name.
    """

    text: str
    columns: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, jvm: Any, expression: Any) -> CatalystFilter:
        """That of a Catalyst `Expression`."""
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
    """What can be used of filters that must all be true; None for nothing.

    Args:
        schema: the table's.
        time_zone: of the session that plans, in which Catalyst writes timestamps.
        ansi: whether that session has Spark's ANSI mode on.
        unusable: physical names of columns that compare by rules of their own (collations).
    """
    usable = [
        predicate
        for one in filters
        if not unusable.intersection(name for _, name in one.columns)
        and (predicate := _translated(one, schema, time_zone, ansi=ansi)) is not None
    ]
    if not usable:
        return None
    return usable[0] if len(usable) == 1 else And(tuple(usable))


class _UntranslatableError(Exception):
    """A part of a filter that isn't used."""


def _translated(
    one: CatalystFilter, schema: StructType, time_zone: str, *, ansi: bool
) -> Predicate | None:
    try:
        predicate = parse_predicate(one.text)
        if (not ansi or time_zone != "UTC") and not _is_plain(predicate):
            return None
        names = _Names(one.columns, schema)
        predicate = with_paths(predicate, names.logical)
        if time_zone != "UTC":
            predicate = with_literals(predicate, lambda literal: _in_zone(literal, time_zone))
        return resolve(predicate, schema)
    except (PredicateError, _UntranslatableError):
        return None


def _is_plain(expression: Expression) -> bool:
    return isinstance(expression, _PLAIN) and all(map(_is_plain, operands_of(expression)))


class _Names:
    """From the paths in a text to logical ones."""

    def __init__(self, columns: Iterable[tuple[str, str]], schema: StructType) -> None:
        self._schema = schema
        self._known: dict[tuple[str, ...], str] = {}
        for text, name in columns:
            column = parse_expression(text)
            if not isinstance(column, Column):
                raise _UntranslatableError(text)
            self._known[column.path] = name

    def logical(self, path: tuple[str, ...]) -> tuple[str, ...]:
        found = [
            (name, *path[len(known) :])
            for known, name in self._known.items()
            if path[: len(known)] == known
        ]
        if len(found) != 1:  # a qualifier that is also a column's name
            raise _UntranslatableError(".".join(path))
        try:
            return logical_path(self._schema, found[0])
        except KeyError as error:
            raise _UntranslatableError(".".join(path)) from error


def _in_zone(literal: Literal, time_zone: str) -> Literal:
    """A timestamp that was read as one of UTC, in the zone in which it was written."""
    value = literal.value
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return literal
    try:
        written = value.replace(tzinfo=ZoneInfo(time_zone))
    except (KeyError, ValueError) as error:  # an offset, or a name that only Java knows
        raise _UntranslatableError(time_zone) from error
    if written.utcoffset() != written.replace(fold=1).utcoffset():
        raise _UntranslatableError(str(value))  # it is twice, or never, on that day's clock
    return Literal(written.astimezone(dt.UTC), literal.data_type)
