"""Expressions and predicates, as values.

Built from SQL text by `bayou.kernel.predicates.sql` or by hand:

    col("day") == "2024-01-05"
    (col("id") > 10) & col("name").is_not_null()

Logic is SQL's, with three values. Names are logical column names; a path of several names reaches
into structs. `==` on an expression builds a `Comparison`, so expressions are compared with `is` or
`repr`, never with `==`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from bayou.protocol.schema import DataType

__all__ = [
    "And",
    "Column",
    "Comparison",
    "Expression",
    "In",
    "IsNull",
    "Literal",
    "LiteralValue",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "col",
    "lit",
    "referenced_columns",
]

LiteralValue: TypeAlias = None | bool | int | float | str | bytes | Decimal | dt.date | dt.datetime


class Expression:
    """A value per row. Operators build predicates; see the module."""

    __slots__ = ()

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("=", self, lit(other))

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("<>", self, lit(other))

    def __lt__(self, other: object) -> Comparison:
        return Comparison("<", self, lit(other))

    def __le__(self, other: object) -> Comparison:
        return Comparison("<=", self, lit(other))

    def __gt__(self, other: object) -> Comparison:
        return Comparison(">", self, lit(other))

    def __ge__(self, other: object) -> Comparison:
        return Comparison(">=", self, lit(other))

    def __hash__(self) -> int:
        return hash(repr(self))

    def eq_null_safe(self, other: object) -> Comparison:
        """`<=>`: TRUE where both are NULL, never NULL."""
        return Comparison("<=>", self, lit(other))

    def is_null(self) -> IsNull:
        """`IS NULL`."""
        return IsNull(self)

    def is_not_null(self) -> Not:
        """`IS NOT NULL`."""
        return Not(IsNull(self))

    def is_in(self, *values: object) -> In:
        """`IN (...)`."""
        return In(self, tuple(v if isinstance(v, Literal) else _literal(v) for v in values))

    def starts_with(self, prefix: str) -> StartsWith:
        """`LIKE 'prefix%'` for a prefix without wildcards."""
        return StartsWith(self, prefix)


class Predicate(Expression):
    """An expression of type boolean: TRUE, FALSE or NULL per row."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> And:
        return And((self, other))

    def __or__(self, other: Predicate) -> Or:
        return Or((self, other))

    def __invert__(self) -> Not:
        return Not(self)


@dataclass(frozen=True, slots=True, eq=False)
class Column(Predicate):
    """A column by its logical path; as a predicate, a boolean column."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Predicate):
    """A constant.

    `data_type` is None where the text leaves it open (an untyped NULL, a bare number or string):
    the evaluator takes the type of the other side, by Spark's rules.
    """

    value: LiteralValue
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Predicate):
    """`=`, `<>`, `<`, `<=`, `>`, `>=` or `<=>`. NaN equals itself and is above all (Spark)."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class And(Predicate):
    """Conjunction of two or more."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Or(Predicate):
    """Disjunction of two or more."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not(Predicate):
    """Negation; NULL stays NULL."""

    operand: Predicate


@dataclass(frozen=True, slots=True, eq=False)
class IsNull(Predicate):
    """`IS NULL`, never NULL itself."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class In(Predicate):
    """`IN` a list of constants; NULL where there is no match and the list holds a NULL."""

    operand: Expression
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StartsWith(Predicate):
    """The string begins with `prefix`."""

    operand: Expression
    prefix: str


def col(*path: str) -> Column:
    """A column: `col("day")`, `col("address", "city")`. Dots in a name are part of the name."""
    return Column(path)


def lit(value: object) -> Expression:
    """A constant; an expression is given back as it is."""
    return value if isinstance(value, Expression) else _literal(value)


def _literal(value: object) -> Literal:
    if value is None or isinstance(
        value, bool | int | float | str | bytes | Decimal | dt.date | dt.datetime
    ):
        return Literal(value)
    raise TypeError(f"{value!r} can't be a literal in a predicate")


def referenced_columns(expression: Expression) -> Iterator[tuple[str, ...]]:
    """Paths of all columns in an expression, in order, repeats included."""
    match expression:
        case Column(path):
            yield path
        case Comparison(_, left, right):
            yield from referenced_columns(left)
            yield from referenced_columns(right)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from referenced_columns(operand)
        case Not(operand) | IsNull(operand) | In(operand, _) | StartsWith(operand, _):
            yield from referenced_columns(operand)
        case _:
            pass
