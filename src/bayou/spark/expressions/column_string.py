"""A Column of Spark as SQL text.

Catalyst writes operators of Columns as calls of functions that it has no names for in SQL
(`` `>`(id, 3) ``), so they are put into words here; what is inside of them is Catalyst's text.

A Column of Spark Connect as SQL text: its client keeps what it is made of.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Any

from bayou.spark.jvm.classes import scala_items

__all__ = ["called", "cases", "column_text", "conjunct_texts", "connect_column_text"]


_BINARY = ("=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "and", "or")
_WORDS: dict[str, Callable[[list[str]], str]] = {
    "!": lambda a: f"(NOT {a[0]})",
    "not": lambda a: f"(NOT {a[0]})",
    "negative": lambda a: f"(- {a[0]})",
    "in": lambda a: f"({a[0]} IN ({', '.join(a[1:])}))",
    "isnull": lambda a: f"({a[0]} IS NULL)",
    "isnotnull": lambda a: f"({a[0]} IS NOT NULL)",
    "like": lambda a: f"({a[0]} LIKE {a[1]}" + (f" ESCAPE {a[2]})" if len(a) > 2 else ")"),
    "rlike": lambda a: f"({a[0]} RLIKE {a[1]})",
}
_SUBQUERIES = ("ListQuery", "ScalarSubquery", "Exists", "LazyExpression")
_OPAQUE = (
    "PythonUDF",
    "PythonUDAF",
    "ScalaUDF",
    "UserDefinedExpression",
    "LambdaFunction",
    *_SUBQUERIES,
)


class _OpaqueError(Exception):
    """A part that has no SQL text, or one that means nothing elsewhere."""


def column_text(spark: Any, column: Any) -> str | None:
    """The SQL text of a Column; None where it has a part that only Spark can run.

    Args:
        spark: a classic session.
        column: a classic `Column`.
    """
    session = spark._jsparkSession  # noqa: SLF001  # Catalyst's expressions are published nowhere
    try:
        return _Writer(spark._jvm).text(session.expression(column._jc))  # noqa: SLF001
    except _OpaqueError:
        return None


def conjunct_texts(spark: Any, column: Any) -> list[str]:
    """SQL texts of the operands of a Column's ANDs, of those that have one.

    None where a subquery is among them: it may read the very rows that are asked for.

    Args:
        spark, column: see `column_text`.
    """
    session = spark._jsparkSession  # noqa: SLF001  # as above
    try:
        return list(_Writer(spark._jvm).conjuncts(session.expression(column._jc)))  # noqa: SLF001
    except _OpaqueError:
        return []


def called(name: str, arguments: list[str]) -> str:
    """A call, or an operator between its arguments where Spark names that like a function."""
    folded = name.lower()
    if folded in _BINARY and len(arguments) == 2:
        return f"({arguments[0]} {folded.upper()} {arguments[1]})"
    if folded in _WORDS:
        return _WORDS[folded](arguments)
    return f"{name}({', '.join(arguments)})"


def cases(parts: list[str]) -> str:
    """CASE of conditions and values by turns, and the last value where there is one."""
    pairs = [f"WHEN {parts[i]} THEN {parts[i + 1]}" for i in range(0, len(parts) - 1, 2)]
    last = [f"ELSE {parts[-1]}"] if len(parts) % 2 else []
    return f"CASE {' '.join([*pairs, *last])} END"


class _Writer:
    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def conjuncts(self, expression: Any) -> Iterator[str]:
        if str(expression.getClass().getSimpleName()) == "UnresolvedFunction":
            name = [str(part).lower() for part in self._list(expression.nameParts())]
            if name == ["and"]:
                for child in self._list(expression.children()):
                    yield from self.conjuncts(child)
                return
        try:
            yield self.text(expression)
        except _OpaqueError as error:
            if str(error) in _SUBQUERIES:
                raise

    def text(self, expression: Any) -> str:
        kind = str(expression.getClass().getSimpleName())
        if kind in _OPAQUE:
            raise _OpaqueError(kind)
        parts = [self.text(child) for child in self._list(expression.children())]
        match kind:
            case "UnresolvedFunction":
                name = ".".join(str(part) for part in self._list(expression.nameParts()))
                return called(name, parts)
            case "CaseWhen":
                return cases(parts)
            case "Cast":
                return f"CAST({parts[0]} AS {expression.dataType().sql()})"
            case "Alias":
                return parts[0]
            case "UnresolvedExtractValue":
                return f"{parts[0]}[{parts[1]}]"
            case _:
                return str(expression.sql())

    def _list(self, sequence: Any) -> list[Any]:
        return scala_items(self._jvm, sequence)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LITERALS: dict[str, Callable[[Any], str]] = {
    "BooleanType": lambda value: str(bool(value)).lower(),
    "ByteType": lambda value: f"{value}Y",
    "ShortType": lambda value: f"{value}S",
    "IntegerType": str,
    "LongType": lambda value: f"{value}L",
    "FloatType": lambda value: f"CAST({_floating(value)} AS FLOAT)",
    "DoubleType": lambda value: _floating(value),
    "DecimalType": lambda value: f"{value:f}BD",
    "StringType": lambda value: _quoted(value),
    "BinaryType": lambda value: f"X'{bytes(value).hex()}'",
    "DateType": lambda value: f"DATE '{(_EPOCH + dt.timedelta(days=value)).date().isoformat()}'",
    "TimestampType": lambda value: f"TIMESTAMP '{_moment(value)}+00:00'",
    "TimestampNTZType": lambda value: f"TIMESTAMP_NTZ '{_moment(value)}'",
}


def connect_column_text(column: Any) -> str | None:
    """The SQL text of a Column; None where it has a part that only the server can run.

    A column that was taken from a DataFrame (`frame["id"]`) is such a part, too: which side's it is
    the server finds out. `F.col("t.id")` says it.

    Args:
        column: of Spark Connect.
    """
    try:
        return _text(column._expr)  # noqa: SLF001  # published nowhere
    except _OpaqueError:
        return None


def _text(expression: Any) -> str:
    match type(expression).__name__, vars(expression):
        case "ColumnReference", {"_plan_id": None, "_unparsed_identifier": name}:
            return str(name)
        case "SQLExpression", {"_expr": text}:
            return f"({text})"
        case "LiteralExpression", {"_value": value, "_dataType": kind}:
            return _literal(value, kind)
        case "ColumnAlias", {"_child": child}:
            return _text(child)
        case "CastExpression", {"_expr": child, "_data_type": kind, "_eval_mode": mode}:
            name = kind if isinstance(kind, str) else kind.simpleString()
            return f"{'TRY_CAST' if mode == 'try' else 'CAST'}({_text(child)} AS {name})"
        case "UnresolvedFunction", {"_name": name, "_args": arguments, "_is_distinct": False}:
            return called("=" if name == "==" else name, [_text(part) for part in arguments])
        case "CallFunction", {"_name": name, "_args": arguments}:
            return called(name, [_text(part) for part in arguments])
        case "UnresolvedExtractValue", {"_child": child, "_extraction": key}:
            return f"{_text(child)}[{_text(key)}]"
        case "CaseWhen", _:
            return cases([_text(part) for part in expression.children])
        case other, _:
            raise _OpaqueError(other)


def _literal(value: Any, kind: Any) -> str:
    if value is None:
        name = kind.simpleString()
        return "NULL" if name == "void" else f"CAST(NULL AS {name})"
    written = _LITERALS.get(type(kind).__name__)
    if written is None:
        raise _OpaqueError(type(kind).__name__)
    return written(value)


def _floating(value: float) -> str:
    if math.isfinite(value):
        return f"{value!r}D"
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS DOUBLE)"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _moment(microseconds: int) -> str:
    moment = (_EPOCH + dt.timedelta(microseconds=microseconds)).replace(tzinfo=None)
    return moment.isoformat(" ", "microseconds")
