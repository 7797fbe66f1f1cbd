"""Assigned values of UPDATE and MERGE as Columns of the table's types, and column defaults.

The SQL of a column default comes from the table's log, which other programs may have written. It
never reaches Spark's parser, which would accept `reflect('java.lang.System', 'exit', 1)`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.engines.arrow import ArrowEngine
from bayou.errors import PredicateError, SchemaError, UnsupportedFeatureError
from bayou.kernel.commands.merge.struct_by_name import TargetColumn, check_assignable
from bayou.kernel.expressions.model import Column, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.column_metadata import column_defaults
from bayou.protocol.identifiers import quote_identifier
from bayou.protocol.schema import StructField, StructType
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.struct_by_name import assign_by_name, has_structs
from bayou.spark.types import from_spark, to_spark

__all__ = ["assigned_columns", "assigned_names", "cast_to", "default_literal"]


def default_literal(schema: StructType, field: StructField, *, table: str) -> str:
    """A column's default as an SQL literal in parentheses; `(NULL)` for a column without default.

    Args:
        schema: the table's schema from its log.
        field: the column.
        table: the table's path, for errors.

    Raises:
        UnsupportedFeatureError: the kernel can't evaluate the default.
    """
    default = column_defaults(schema).get(field.name)
    if default is None:
        return "(NULL)"
    row = pa.RecordBatch.from_arrays([pa.nulls(1)], ["row"])
    try:
        expression = parse_expression(default)
        if any(referenced_columns(expression)):
            raise _unsupported(field, table, "it refers to a column")
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
            string = value.isoformat()
        case int() | float() | Decimal() | str():
            string = str(value)
        case _:
            raise _unsupported(field, table, "its type is a struct, an array or a map")
    # Hexadecimal, so that no character needs to be escaped.
    sql = f"CAST(X'{string.encode().hex()}' AS STRING)"
    return sql if isinstance(value, str) else f"CAST({sql} AS {field.data_type})"


def _unsupported(field: StructField, table: str, reason: str) -> UnsupportedFeatureError:
    feature = f"default of column {field.name}"
    return UnsupportedFeatureError(
        f"{table}: the {feature} isn't supported: {reason}. Write the value instead of DEFAULT.",
        table=table,
        features=[feature],
    )


def assigned_columns(
    schema: StructType,
    before: StructType,
    values: Mapping[str, RowExpression],
    alias: str,
    *,
    table: str,
    rows: Any,
    schema_evolution: bool = False,
) -> dict[str, Any]:
    """The assigned values as Columns, by top-level column of the table.

    An assigned struct field replaces that field of the existing struct. Structs are assigned by
    field name, other values are cast.

    Args:
        schema: the table's schema after the command.
        before: the table's schema before the command.
        alias: the table's alias in names and expressions.
        table: the table's path, for errors.
        rows: a DataFrame with the columns that the values refer to.
        schema_evolution: see `check_assignable`.

    Raises:
        SchemaError: a column doesn't exist, is assigned twice, or a struct isn't assignable.
    """
    columns: dict[str, Any] = {}
    assigned_whole: set[str] = set()
    for path, value in _paths(schema, values, alias):
        field = _field(schema, path[0], table)
        if field.name in assigned_whole or (len(path) == 1 and field.name in columns):
            raise SchemaError(
                f"{table}: column {field.name!r} is set twice. Set it once.",
                table=table,
                column=field.name,
            )
        if value.is_default:
            known_field = before.get(path[0]) if len(path) == 1 else None
            new_value: Any = (
                F.lit(None)
                if known_field is None
                else F.expr(default_literal(before, known_field, table=table))
            )
        else:
            new_value = value.column
        if len(path) == 1:
            assigned_whole.add(field.name)
            columns[field.name] = _assigned(field, new_value, table, rows, growing=schema_evolution)
            continue
        current = columns.get(
            field.name, F.col(f"{quote_identifier(alias)}.{quote_identifier(field.name)}")
        )
        inner = ".".join(quote_identifier(name) for name in path[1:])
        columns[field.name] = current.withField(inner, new_value)
    return {
        name: column if name in assigned_whole else cast_to(_field(schema, name, table), column)
        for name, column in columns.items()
    }


def assigned_names(
    schema: StructType, values: Mapping[str, RowExpression], alias: str
) -> list[str]:
    """Top-level columns that are assigned, in the schema's spelling if the schema has them."""
    names = (path[0] for path, _ in _paths(schema, values, alias))
    return list(dict.fromkeys(names))


def cast_to(field: StructField, column: Any) -> Any:
    """Cast a Column to a table column's type; Spark raises an error for values that don't fit."""
    return column.cast(to_spark(StructType((field,))).fields[0].dataType)


def _assigned(field: StructField, value: Any, table: str, rows: Any, *, growing: bool) -> Any:
    if not has_structs(field.data_type):
        return cast_to(field, value)
    value_schema = from_spark(rows.select(value.alias("value")).schema, table=table)
    value_type = value_schema.fields[0].data_type
    check_assignable(
        TargetColumn(table, field.name, field.data_type), value_type, schema_evolution=growing
    )
    return assign_by_name(field.data_type, value, value_type)


def _paths(
    schema: StructType, values: Mapping[str, RowExpression], alias: str
) -> list[tuple[tuple[str, ...], RowExpression]]:
    paths = []
    for name, value in values.items():
        path: tuple[str, ...] = (name,)
        if schema.get(name) is None:
            column = parse_expression(name)
            path = column.path if isinstance(column, Column) else path
        if len(path) > 1 and path[0].lower() == alias.lower() and schema.get(path[0]) is None:
            path = path[1:]
        known = schema.get(path[0])
        paths.append(((path[0] if known is None else known.name, *path[1:]), value))
    return paths


def _field(schema: StructType, name: str, table: str) -> StructField:
    field = schema.get(name)
    if field is None:
        raise SchemaError(
            f"{table}: there is no column {name!r} to set. The columns are "
            f"{', '.join(schema.names)}.",
            table=table,
            column=name,
        )
    return field
