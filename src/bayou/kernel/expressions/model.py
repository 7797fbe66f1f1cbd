"""Expressions and predicates, as values.

Built from SQL text by `bayou.kernel.expressions.sql.parser` or by hand:

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
    "Cast",
    "Column",
    "Comparison",
    "Expression",
    "Function",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "LiteralValue",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "call",
    "col",
    "lit",
    "operands_of",
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

    def __add__(self, other: object) -> Function:
        return Function("+", (self, lit(other)))

    def __radd__(self, other: object) -> Function:
        return Function("+", (lit(other), self))

    def __sub__(self, other: object) -> Function:
        return Function("-", (self, lit(other)))

    def __rsub__(self, other: object) -> Function:
        return Function("-", (lit(other), self))

    def __mul__(self, other: object) -> Function:
        return Function("*", (self, lit(other)))

    def __rmul__(self, other: object) -> Function:
        return Function("*", (lit(other), self))

    def __truediv__(self, other: object) -> Function:
        return Function("/", (self, lit(other)))

    def __rtruediv__(self, other: object) -> Function:
        return Function("/", (lit(other), self))

    def __mod__(self, other: object) -> Function:
        return Function("%", (self, lit(other)))

    def __rmod__(self, other: object) -> Function:
        return Function("%", (lit(other), self))

    def __neg__(self) -> Function:
        return Function("negative", (self,))

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

    def cast(self, data_type: DataType) -> Cast:
        """`CAST(... AS data_type)`; a value that doesn't go is an error."""
        return Cast(self, data_type)

    def like(self, pattern: str, escape: str = "\\") -> Like:
        """`LIKE`: `%` stands for any text, `_` for one character, `escape` takes their meaning."""
        return Like(self, pattern, escape)

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


@dataclass(frozen=True, slots=True, eq=False)
class Like(Predicate):
    """The string matches a pattern: `%` any text, `_` one character, `escape` before either."""

    operand: Expression
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Predicate):
    """The operand as another type, as Spark's ANSI mode casts.

    A value that doesn't go is an error or, where `safe`, NULL (`TRY_CAST`).
    """

    operand: Expression
    data_type: DataType
    safe: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Function(Predicate):
    """A function or operator by its SQL name; `docs/reference/expressions.md` lists them.

    Binary operators are `+ - * / % div`, unary minus is `negative`, an index in brackets is `[]`,
    a field of what isn't a column `.`; `case` takes conditions and values in turn, then the value
    of ELSE if there is one.
    """

    name: str
    arguments: tuple[Expression, ...]


def call(name: str, *arguments: object) -> Function:
    """A function: `call("year", col("ts"))`. Arguments that aren't expressions are constants."""
    return Function(name, tuple(map(lit, arguments)))


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


def operands_of(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is made of, in order; nothing for a column or constant."""
    match expression:
        case Comparison(_, left, right):
            return (left, right)
        case And(operands) | Or(operands):
            return operands
        case In(operand, values):
            return (operand, *values)
        case Not(operand) | IsNull(operand) | StartsWith(operand, _):
            return (operand,)
        case Like(operand, _, _) | Cast(operand, _, _):
            return (operand,)
        case Function(_, arguments):
            return arguments
        case _:
            return ()


def referenced_columns(expression: Expression) -> Iterator[tuple[str, ...]]:
    """Paths of all columns in an expression, in order, repeats included."""
    if isinstance(expression, Column):
        yield expression.path
    for operand in operands_of(expression):
        yield from referenced_columns(operand)
