"""The classes of expressions and predicates.

Module `bayou.kernel.expressions.sql.parser` creates expressions from SQL. In Python, they are
created with operators:

    col("day") == "2024-01-05"
    (col("id") > 10) & col("name").is_not_null()

Predicates use SQL's three-valued logic. Names are logical column names; a path of several names
refers to a nested field. `==` on an expression creates a `Comparison`. To test whether two
expressions are equal, use `is` or compare their `repr`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from bayou.errors import ArgumentError
from bayou.protocol.schema import DataType

__all__ = [
    "And",
    "Cast",
    "Column",
    "Comparison",
    "Expression",
    "Function",
    "In",
    "InExpressions",
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
    "conjunction",
    "conjuncts",
    "lit",
    "operands_of",
    "referenced_columns",
]

LiteralValue: TypeAlias = None | bool | int | float | str | bytes | Decimal | dt.date | dt.datetime


class Expression:
    """An expression, which has one value for each row. Operators such as `==` create predicates."""

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
        """`<=>`: equality that is never NULL. Two NULLs are equal."""
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
        """`CAST(... AS data_type)`; a value that can't be cast is an error."""
        return Cast(self, data_type)

    def like(self, pattern: str, escape: str = "\\") -> Like:
        """`LIKE`: `%` matches any string, `_` matches any character.

        After the character `escape`, each of the characters `%`, `_` and `escape` matches itself.
        """
        return Like(self, pattern, escape)

    def starts_with(self, prefix: str) -> StartsWith:
        """Whether the string starts with the prefix, in which `%` and `_` are normal characters."""
        return StartsWith(self, prefix)


class Predicate(Expression):
    """A boolean expression: TRUE, FALSE or NULL for each row.

    Examples:
        >>> condition = (col("country") == "NZ") & (col("price") > 10)
        >>> isinstance(condition, Predicate)
    """

    __slots__ = ()

    def __and__(self, other: Predicate) -> And:
        return And((self, other))

    def __or__(self, other: Predicate) -> Or:
        return Or((self, other))

    def __invert__(self) -> Not:
        return Not(self)


@dataclass(frozen=True, slots=True, eq=False)
class Column(Predicate):
    """A column or nested field by its logical path. A boolean column is a predicate."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Predicate):
    """A constant.

    `data_type` is None if the literal has no explicit type, as for NULL, 1 and 'a' in SQL.
    As in Spark, the type of such a literal follows from the operand with which it is compared.
    """

    value: LiteralValue
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Predicate):
    """`=`, `<>`, `<`, `<=`, `>`, `>=` or `<=>`. As in Spark, NaN equals NaN and is the maximum."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class And(Predicate):
    """Conjunction of two or more predicates."""

    operands: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check_operands("And", self.operands)


def conjunction(predicates: Iterable[Predicate]) -> Predicate | None:
    """Combine predicates with AND; None if there are no predicates."""
    operands = tuple(predicates)
    if len(operands) < 2:
        return operands[0] if operands else None
    return And(operands)


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the operands of AND, including nested ANDs; a predicate without AND is one operand."""
    if isinstance(predicate, And):
        for operand in predicate.operands:
            yield from conjuncts(operand)
    else:
        yield predicate


@dataclass(frozen=True, slots=True, eq=False)
class Or(Predicate):
    """Disjunction of two or more predicates."""

    operands: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check_operands("Or", self.operands)


def _check_operands(name: str, operands: tuple[Predicate, ...]) -> None:
    """Reject an AND or OR without operands; such an AND would be true for every row."""
    if not operands:
        raise ArgumentError(
            f"{name}: the predicate has no operands. Use at least one.", argument="operands"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Not(Predicate):
    """Negation; the negation of NULL is NULL."""

    operand: Predicate


@dataclass(frozen=True, slots=True, eq=False)
class IsNull(Predicate):
    """`IS NULL`; the result is never NULL."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class In(Predicate):
    """`IN` with a list of constants.

    If the operand is NULL, the result is NULL. If no constant matches, the result is NULL if the
    list contains NULL, and FALSE otherwise.
    """

    operand: Expression
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True, eq=False)
class InExpressions(Predicate):
    """`IN` with a list of expressions. `resolve` replaces it by an `In` or by comparisons."""

    operand: Expression
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StartsWith(Predicate):
    """Whether a string starts with `prefix`."""

    operand: Expression
    prefix: str


@dataclass(frozen=True, slots=True, eq=False)
class Like(Predicate):
    """Whether a string matches a LIKE pattern.

    After the character `escape`, each of the characters `%`, `_` and `escape` matches itself.
    """

    operand: Expression
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Predicate):
    """A cast of the operand as in Spark's ANSI mode.

    A value that can't be cast is an error. If `safe` is True (`TRY_CAST`), it becomes NULL.
    """

    operand: Expression
    data_type: DataType
    safe: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Function(Predicate):
    """A call of a function or operator by its SQL name.

    `docs/reference/expressions.md` lists the functions and operators. Some have special names:

    - `+ - * / % div`: arithmetic operators.
    - `negative`: unary minus.
    - `[]`: access to an element of an array or map, as in `a[0]`.
    - `.`: access to a struct field of an expression.
    - `case`: CASE. The arguments are a condition and a value for each WHEN, then the value of ELSE
      if there is an ELSE.
    """

    name: str
    arguments: tuple[Expression, ...]


def call(name: str, *arguments: object) -> Function:
    """Return a function call: `call("year", col("ts"))`. Python values become constants."""
    return Function(name, tuple(map(lit, arguments)))


def col(*path: str) -> Column:
    """Return a column: `col("day")`, `col("address", "city")`. Dots in a name are part of the name.

    Examples:
        >>> condition = (col("price") > 10) & col("address", "city").is_not_null()
        >>> print(condition)
    """
    return Column(path)


def lit(value: object) -> Expression:
    """Return a constant of a Python value; if `value` is an expression, it is returned unchanged.

    Examples:
        >>> condition = col("price") * lit(2) > 20
        >>> print(condition)
    """
    return value if isinstance(value, Expression) else _literal(value)


def _literal(value: object) -> Literal:
    if value is None or isinstance(
        value, bool | int | float | str | bytes | Decimal | dt.date | dt.datetime
    ):
        return Literal(value)
    raise TypeError(
        f"{value!r}: values of type {type(value).__name__} can't be literals. Use a number, bool, "
        "string, bytes, date, datetime or None."
    )


def operands_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of an expression, in order; columns and constants have no operands."""
    match expression:
        case Comparison(_, left, right):
            return (left, right)
        case And(operands) | Or(operands):
            return operands
        case In(operand, values):
            return (operand, *values)
        case InExpressions(operand, expressions):
            return (operand, *expressions)
        case Not(operand) | IsNull(operand) | StartsWith(operand, _):
            return (operand,)
        case Like(operand, _, _) | Cast(operand, _, _):
            return (operand,)
        case Function(_, arguments):
            return arguments
        case _:
            return ()


def referenced_columns(expression: Expression) -> Iterator[tuple[str, ...]]:
    """Return the paths of all columns in an expression, in order, with duplicates."""
    if isinstance(expression, Column):
        yield expression.path
    for operand in operands_of(expression):
        yield from referenced_columns(operand)
