"""What a clause sets, as Columns of Spark of the table's types.

Defaults of columns as literals of Spark.

The text of a default stands in the table's log, which others may have written. It never reaches
Spark's parser: `reflect('java.lang.System', 'exit', 1)` is an expression of Spark's, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.engines.arrow import ArrowEngine
from bayou.errors import PredicateError, SchemaError, UnsupportedFeatureError
from bayou.kernel.commands.merge.struct_by_name import Place, check_assignable
from bayou.kernel.expressions.model import Column, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.column_metadata import column_defaults
from bayou.protocol.schema import StructField, StructType
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.struct_by_name import has_structs, put_into
from bayou.spark.types import from_spark, to_spark

__all__ = ["assigned_columns", "assigned_names", "cast_to", "default_literal", "quoted"]


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


def assigned_columns(
    schema: StructType,
    known: StructType,
    values: Mapping[str, RowExpression],
    alias: str,
    *,
    table: str,
    rows: Any,
    growing: bool = False,
) -> dict[str, Any]:
    """Columns of new values by the table's columns; fields of a struct are put into the old one.

    Structs are put in by the names of their fields, everything else is cast.

    Args:
        schema: the table's, as it will be.
        known: the columns that rows of the table have.
        alias: the table's, in names and expressions.
        table: its path, for errors.
        rows: a DataFrame that has what the values name.
        growing: see `check_assignable`.

    Raises:
        SchemaError: an unknown column, or one that is set twice, or a struct that doesn't fit.
    """
    found: dict[str, Any] = {}
    whole: set[str] = set()
    for path, value in _paths(schema, values, alias):
        field = _field(schema, path[0], table)
        if field.name in whole or (len(path) == 1 and field.name in found):
            raise SchemaError(
                f"Column {field.name!r} of {table} is set twice.", table=table, column=field.name
            )
        if value.is_default:
            known_field = known.get(path[0]) if len(path) == 1 else None
            given: Any = (
                F.lit(None)
                if known_field is None
                else F.expr(default_literal(known, known_field, table=table))
            )
        else:
            given = value.column
        if len(path) == 1:
            whole.add(field.name)
            found[field.name] = _put_into(field, given, table, rows, growing=growing)
            continue
        before = found.get(field.name, F.col(f"{quoted(alias)}.{quoted(field.name)}"))
        inner = ".".join(quoted(name) for name in path[1:])
        found[field.name] = before.withField(inner, given)
    return {
        name: column if name in whole else cast_to(_field(schema, name, table), column)
        for name, column in found.items()
    }


def assigned_names(
    schema: StructType, values: Mapping[str, RowExpression], alias: str
) -> list[str]:
    """Top-level columns that are set, as the schema spells them where it has them."""
    names = (path[0] for path, _ in _paths(schema, values, alias))
    return list(dict.fromkeys(names))


def cast_to(field: StructField, column: Any) -> Any:
    """A Column as the table's column holds it; a value that doesn't go is Spark's error."""
    return column.cast(to_spark(StructType((field,))).fields[0].dataType)


def _put_into(field: StructField, value: Any, table: str, rows: Any, *, growing: bool) -> Any:
    if not has_structs(field.data_type):
        return cast_to(field, value)
    given = from_spark(rows.select(value.alias("value")).schema, table=table).fields[0].data_type
    place = Place(table, field.name, field.data_type)
    check_assignable(place, given, growing=growing)
    return put_into(field.data_type, value, given)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _paths(
    schema: StructType, values: Mapping[str, RowExpression], alias: str
) -> list[tuple[tuple[str, ...], RowExpression]]:
    found = []
    for name, value in values.items():
        path: tuple[str, ...] = (name,)
        if schema.get(name) is None:
            column = parse_expression(name)
            path = column.path if isinstance(column, Column) else path
        if len(path) > 1 and path[0].lower() == alias.lower() and schema.get(path[0]) is None:
            path = path[1:]
        known = schema.get(path[0])
        found.append(((path[0] if known is None else known.name, *path[1:]), value))
    return found


def _field(schema: StructType, name: str, table: str) -> StructField:
    field = schema.get(name)
    if field is None:
        raise SchemaError(
            f"{table} has no column {name!r} that could be set; it has {', '.join(schema.names)}.",
            table=table,
            column=name,
        )
    return field
