"""A Column of Spark as SQL text.

Catalyst writes operators of Columns as calls of functions that it has no names for in SQL
(`` `>`(id, 3) ``), so they are put into words here; what is inside of them is Catalyst's text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["column_text"]

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
_OPAQUE = (
    "PythonUDF",
    "PythonUDAF",
    "ScalaUDF",
    "UserDefinedExpression",
    "ListQuery",
    "ScalarSubquery",
    "Exists",
    "LambdaFunction",
    "LazyExpression",
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
    converters = spark._jvm.scala.jdk.javaapi.CollectionConverters  # noqa: SLF001
    try:
        return _Writer(converters).text(session.expression(column._jc))  # noqa: SLF001
    except _OpaqueError:
        return None


class _Writer:
    def __init__(self, converters: Any) -> None:
        self._converters = converters

    def text(self, expression: Any) -> str:
        kind = str(expression.getClass().getSimpleName())
        if kind in _OPAQUE:
            raise _OpaqueError(kind)
        parts = [self.text(child) for child in self._list(expression.children())]
        match kind:
            case "UnresolvedFunction":
                name = ".".join(str(part) for part in self._list(expression.nameParts()))
                return _called(name, parts)
            case "CaseWhen":
                return _case(parts)
            case "Cast":
                return f"CAST({parts[0]} AS {expression.dataType().sql()})"
            case "Alias":
                return parts[0]
            case "UnresolvedExtractValue":
                return f"{parts[0]}[{parts[1]}]"
            case _:
                return str(expression.sql())

    def _list(self, sequence: Any) -> list[Any]:
        return list(self._converters.asJava(sequence))


def _called(name: str, arguments: list[str]) -> str:
    folded = name.lower()
    if folded in _BINARY and len(arguments) == 2:
        return f"({arguments[0]} {folded.upper()} {arguments[1]})"
    if folded in _WORDS:
        return _WORDS[folded](arguments)
    return f"{name}({', '.join(arguments)})"


def _case(parts: list[str]) -> str:
    pairs = [f"WHEN {parts[i]} THEN {parts[i + 1]}" for i in range(0, len(parts) - 1, 2)]
    last = [f"ELSE {parts[-1]}"] if len(parts) % 2 else []
    return f"CASE {' '.join([*pairs, *last])} END"
