"""Conversion of Columns, classic or Connect, to SQL strings.

Catalyst formats an operator of a Column as a function call, which isn't valid SQL
(`` `>`(id, 3) ``). Therefore, in a classic session, this module formats the operators, and Catalyst
formats only names and literals. Under Connect, this module formats everything.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from bayou.protocol.sql import quote_identifier, string_literal
from bayou.spark.jvm.expressions import CatalystExpression

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
_UNQUOTED_KEYWORDS = ("null", "true", "false", "all", "as", "distinct")
"""Names of columns that Catalyst doesn't quote, although they are SQL keywords."""

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
    """Raised if a part of a Column has no SQL string, such as a Python UDF."""


def column_sql(spark: Any, column: Any) -> str | None:
    """Return the SQL of a classic Column; None if a part has no SQL, such as a Python UDF."""
    try:
        return _classic_sql(CatalystExpression.of(spark, column))
    except _OpaqueError:
        return None


def conjunct_sqls(spark: Any, column: Any) -> list[str]:
    """Return the SQL of each conjunct of a classic Column; conjuncts without SQL are omitted.

    Callers derive from the conjuncts which rows of the target table a command reads. If a conjunct
    contains a subquery, the list is empty, because the subquery may read other rows of that table.
    """
    try:
        return list(_conjuncts(CatalystExpression.of(spark, column)))
    except _OpaqueError:
        return []


def function_call_sql(name: str, arguments: list[str]) -> str:
    """Return the SQL of a function call, or of an operator that Spark represents as a function."""
    lower_case = name.lower()
    if lower_case in _BINARY and len(arguments) == 2:
        return f"({arguments[0]} {lower_case.upper()} {arguments[1]})"
    if lower_case in _OPERATORS:
        return _OPERATORS[lower_case](arguments)
    return f"{name}({', '.join(arguments)})"


def case_sql(parts: list[str]) -> str:
    """Return the SQL of a CASE expression.

    Args:
        parts: the SQL of condition, value, condition, value, ... and an optional ELSE value.
    """
    pairs = [f"WHEN {parts[i]} THEN {parts[i + 1]}" for i in range(0, len(parts) - 1, 2)]
    last = [f"ELSE {parts[-1]}"] if len(parts) % 2 else []
    return f"CASE {' '.join([*pairs, *last])} END"


def _conjuncts(expression: CatalystExpression) -> Iterator[str]:
    if expression.class_name == "UnresolvedFunction" and [
        part.lower() for part in expression.name_parts
    ] == ["and"]:
        for child in expression.children:
            yield from _conjuncts(child)
        return
    try:
        yield _classic_sql(expression)
    except _OpaqueError as error:
        if str(error) in _SUBQUERIES:
            raise


def _classic_sql(expression: CatalystExpression) -> str:
    if expression.class_name in _OPAQUE:
        raise _OpaqueError(expression.class_name)
    parts = [_classic_sql(child) for child in expression.children]
    match expression.class_name:
        case "UnresolvedFunction":
            return function_call_sql(".".join(expression.name_parts), parts)
        case "CaseWhen":
            return case_sql(parts)
        case "Cast":
            return f"{_cast_name(expression)}({parts[0]} AS {expression.cast_type})"
        case "UnresolvedAttribute" if expression.sql.lower() in _UNQUOTED_KEYWORDS:
            return quote_identifier(expression.sql)
        case "Alias":
            return parts[0]
        case "UnresolvedExtractValue":
            return f"{parts[0]}[{parts[1]}]"
        case _:
            return expression.sql


_NAME_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_ATTRIBUTE = re.compile(rf"(?:{_NAME_PART.pattern})(?:\.(?:{_NAME_PART.pattern}))*")


def _cast_name(expression: CatalystExpression) -> str:
    return "TRY_CAST" if expression.sql.startswith("TRY_CAST(") else "CAST"


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
    "StringType": string_literal,
    "BinaryType": lambda value: f"X'{bytes(value).hex()}'",
    "DateType": lambda value: f"DATE '{(_EPOCH + dt.timedelta(days=value)).date().isoformat()}'",
    "TimestampType": lambda value: f"TIMESTAMP '{_timestamp(value)}+00:00'",
    "TimestampNTZType": lambda value: f"TIMESTAMP_NTZ '{_timestamp(value)}'",
}


def connect_column_sql(column: Any) -> str | None:
    """Return the SQL of a Connect Column; None if a part has no SQL.

    `F.col("t.id")` has SQL. `frame["id"]` has none, because only the server knows whether the
    column belongs to the target or the source.
    """
    try:
        return _sql(column._expr)  # noqa: SLF001  # no public API
    except _OpaqueError:
        return None


def _sql(expression: Any) -> str:
    match type(expression).__name__, vars(expression):
        case "ColumnReference", {"_plan_id": None, "_unparsed_identifier": name}:
            return _attribute(str(name))
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


def _attribute(name: str) -> str:
    """Return the SQL of a column name such as `s.x`, with every part quoted.

    Without quotes, the column `2024` would be a number, and `a-b` a subtraction.
    """
    if name.upper() == "DEFAULT":
        return name  # the keyword DEFAULT, which Spark represents as a column
    if not _ATTRIBUTE.fullmatch(name):
        raise _OpaqueError(name)
    parts = (match[1] or match[2] for match in _NAME_PART.finditer(name))
    return ".".join(quote_identifier(part.replace("``", "`")) for part in parts)


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


def _timestamp(microseconds: int) -> str:
    timestamp = (_EPOCH + dt.timedelta(microseconds=microseconds)).replace(tzinfo=None)
    return timestamp.isoformat(" ", "microseconds")
