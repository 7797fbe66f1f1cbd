"""Defaults of columns as literals of Spark.

The text of a default stands in the table's log, which others may have written. It never reaches
Spark's parser: `reflect('java.lang.System', 'exit', 1)` is an expression of Spark's, too.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

from bayou.engines.arrow import ArrowEngine
from bayou.errors import PredicateError, UnsupportedFeatureError
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.column_metadata import column_defaults
from bayou.protocol.schema import StructField, StructType

__all__ = ["default_literal"]


def default_literal(schema: StructType, field: StructField, *, table: str) -> str:
    """SQL of a literal, in parentheses, that is the default of a column; `(NULL)` for none.

    Args:
        schema: of the table, as its log has it.
        field: the column.
        table: its path, for errors.

    Raises:
        UnsupportedFeatureError: the kernel can't evaluate the default.
    """
    text = column_defaults(schema).get(field.name)
    if text is None:
        return "(NULL)"
    row = pa.RecordBatch.from_arrays([pa.nulls(1)], ["row"])
    try:
        expression = parse_expression(text)
        if any(referenced_columns(expression)):
            raise _unsupported(field, table, "it names a column")
        evaluator = ArrowEngine().expressions.evaluator(StructType(), expression, field.data_type)
        (value,) = evaluator.eval(row).to_pylist()
    except PredicateError as error:
        raise _unsupported(field, table, str(error)) from error
    return f"({_literal(value, field, table)})"


def _literal(value: Any, field: StructField, table: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime() | dt.date():
            shown = value.isoformat()
        case int() | float() | Decimal() | str():
            shown = str(value)
        case _:
            raise _unsupported(field, table, "only values without fields or elements are")
    # In hexadecimal no character ends the text or escapes another.
    text = f"CAST(X'{shown.encode().hex()}' AS STRING)"
    return text if isinstance(value, str) else f"CAST({text} AS {field.data_type})"


def _unsupported(field: StructField, table: str, reason: str) -> UnsupportedFeatureError:
    what = f"default of column {field.name}"
    return UnsupportedFeatureError(
        f"{table}: the {what} isn't supported: {reason}. Write the value instead of DEFAULT.",
        table=table,
        features=[what],
    )
