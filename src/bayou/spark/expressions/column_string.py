"""Conversion of Columns, classic or Connect, to SQL strings.

Catalyst formats operators of Columns as function calls that aren't valid SQL (`` `>`(id, 3) ``), so
they are formatted here; their operands are formatted by Catalyst. The Connect client has the
expression tree of a Column in Python.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Any

from bayou.spark.jvm.classes import scala_items

__all__ = ["case_sql", "column_sql", "conjunct_sqls", "connect_column_sql", "function_call_sql"]


_BINARY = ("=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "and", "or")
_OPERATORS: dict[str, Callable[[list[str]], str]] = {
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
    """A part of a Column that has no SQL string, or one that is only valid in its plan."""


def column_sql(spark: Any, column: Any) -> str | None:
    """The SQL string of a Column; None if it has a part that only Spark can run.

    Args:
        spark: a classic session.
        column: a classic `Column`.
    """
    session = spark._jsparkSession  # noqa: SLF001  # no public API for Catalyst expressions
    try:
        return _Formatter(spark._jvm).sql(session.expression(column._jc))  # noqa: SLF001
    except _OpaqueError:
        return None


def conjunct_sqls(spark: Any, column: Any) -> list[str]:
    """SQL strings of a Column's conjuncts; conjuncts without one are omitted.

    Empty if a conjunct is a subquery, which may read the rows of the same table.

    Args:
        spark, column: see `column_sql`.
    """
    session = spark._jsparkSession  # noqa: SLF001  # as above
    try:
        return list(_Formatter(spark._jvm).conjuncts(session.expression(column._jc)))  # noqa: SLF001
    except _OpaqueError:
        return []


def function_call_sql(name: str, arguments: list[str]) -> str:
    """The SQL of a function call, or of an operator that Spark represents as a function."""
    folded = name.lower()
    if folded in _BINARY and len(arguments) == 2:
        return f"({arguments[0]} {folded.upper()} {arguments[1]})"
    if folded in _OPERATORS:
        return _OPERATORS[folded](arguments)
    return f"{name}({', '.join(arguments)})"


def case_sql(parts: list[str]) -> str:
    """The SQL of a CASE from alternating conditions and values, and an optional ELSE value."""
    pairs = [f"WHEN {parts[i]} THEN {parts[i + 1]}" for i in range(0, len(parts) - 1, 2)]
    last = [f"ELSE {parts[-1]}"] if len(parts) % 2 else []
    return f"CASE {' '.join([*pairs, *last])} END"


class _Formatter:
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
            yield self.sql(expression)
        except _OpaqueError as error:
            if str(error) in _SUBQUERIES:
                raise

    def sql(self, expression: Any) -> str:
        class_name = str(expression.getClass().getSimpleName())
        if class_name in _OPAQUE:
            raise _OpaqueError(class_name)
        parts = [self.sql(child) for child in self._list(expression.children())]
        match class_name:
            case "UnresolvedFunction":
                name = ".".join(str(part) for part in self._list(expression.nameParts()))
                return function_call_sql(name, parts)
            case "CaseWhen":
                return case_sql(parts)
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
    "FloatType": lambda value: f"CAST({_double(value)} AS FLOAT)",
    "DoubleType": lambda value: _double(value),
    "DecimalType": lambda value: f"{value:f}BD",
    "StringType": lambda value: _quoted(value),
    "BinaryType": lambda value: f"X'{bytes(value).hex()}'",
    "DateType": lambda value: f"DATE '{(_EPOCH + dt.timedelta(days=value)).date().isoformat()}'",
    "TimestampType": lambda value: f"TIMESTAMP '{_timestamp(value)}+00:00'",
    "TimestampNTZType": lambda value: f"TIMESTAMP_NTZ '{_timestamp(value)}'",
}


def connect_column_sql(column: Any) -> str | None:
    """The SQL string of a Connect Column; None if it has a part that only the server can run.

    Columns of a DataFrame (`frame["id"]`) are among these, because only the server resolves which
    side they belong to. `F.col("t.id")` has an SQL string.

    Args:
        column: a Column of Spark Connect.
    """
    try:
        return _sql(column._expr)  # noqa: SLF001  # no public API
    except _OpaqueError:
        return None


def _sql(expression: Any) -> str:
    match type(expression).__name__, vars(expression):
        case "ColumnReference", {"_plan_id": None, "_unparsed_identifier": name}:
            return str(name)
        case "SQLExpression", {"_expr": sql}:
            return f"({sql})"
        case "LiteralExpression", {"_value": value, "_dataType": data_type}:
            return _literal(value, data_type)
        case "ColumnAlias", {"_child": child}:
            return _sql(child)
        case "CastExpression", {"_expr": child, "_data_type": data_type, "_eval_mode": mode}:
            name = data_type if isinstance(data_type, str) else data_type.simpleString()
            return f"{'TRY_CAST' if mode == 'try' else 'CAST'}({_sql(child)} AS {name})"
        case "UnresolvedFunction", {"_name": name, "_args": arguments, "_is_distinct": False}:
            return function_call_sql(
                "=" if name == "==" else name, [_sql(part) for part in arguments]
            )
        case "CallFunction", {"_name": name, "_args": arguments}:
            return function_call_sql(name, [_sql(part) for part in arguments])
        case "UnresolvedExtractValue", {"_child": child, "_extraction": key}:
            return f"{_sql(child)}[{_sql(key)}]"
        case "CaseWhen", _:
            return case_sql([_sql(part) for part in expression.children])
        case other, _:
            raise _OpaqueError(other)


def _literal(value: Any, data_type: Any) -> str:
    if value is None:
        name = data_type.simpleString()
        return "NULL" if name == "void" else f"CAST(NULL AS {name})"
    format_literal = _LITERALS.get(type(data_type).__name__)
    if format_literal is None:
        raise _OpaqueError(type(data_type).__name__)
    return format_literal(value)


def _double(value: float) -> str:
    if math.isfinite(value):
        return f"{value!r}D"
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS DOUBLE)"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _timestamp(microseconds: int) -> str:
    timestamp = (_EPOCH + dt.timedelta(microseconds=microseconds)).replace(tzinfo=None)
    return timestamp.isoformat(" ", "microseconds")
