"""A Column of Spark Connect as SQL text: its client keeps what it is made of."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from bayou.spark.expressions.column_string import called, cases

__all__ = ["connect_column_text"]

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


class _OpaqueError(Exception):
    """A part that has no SQL text, or one that means nothing elsewhere."""


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
