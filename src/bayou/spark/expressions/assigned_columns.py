"""Converts the new values of UPDATE and MERGE to the types of the assigned columns.

Also evaluates column defaults. The SQL of a default comes from the table's log, which another
program may have written. Spark never parses this SQL, because the SQL could run any Java method,
for example with `reflect('java.lang.System', 'exit', 1)`. The kernel evaluates the SQL, and Spark
gets the value as a literal.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.engines.arrow import ArrowEngine
from bayou.errors import PredicateError, UnsupportedFeatureError
from bayou.kernel.commands.merge.struct_by_name import TargetColumn, check_assignable
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.column_metadata import column_defaults
from bayou.protocol.schema import TIMESTAMP, DataType, StructField, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.store_assignment import (
    assignment_cast,
    check_assignment,
    row_operation_policy,
    structs_by_name,
)
from bayou.spark.expressions.struct_by_name import assign_by_name, has_structs
from bayou.spark.jvm.expressions import ansi_cast
from bayou.spark.types import from_spark, to_spark

_TypedColumn: TypeAlias = tuple[Any, DataType]
"""A Column and the type of its values."""


def default_literal(schema: StructType, field: StructField, *, table: str) -> str:
    """Return a column's default as a SQL literal in parentheses; `(NULL)` without a default."""
    default = column_defaults(schema).get(field.name)
    if default is None:
        return "(NULL)"
    row = pa.RecordBatch.from_arrays([pa.nulls(1)], ["row"])
    try:
        expression = parse_expression(default)
        if any(referenced_columns(expression)):
            raise _unsupported(field, table, "the expression refers to a column")
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
    if isinstance(value, str):
        return sql
    # The meaning of `TIMESTAMP` depends on spark.sql.timestampType.
    data_type = "TIMESTAMP_LTZ" if field.data_type == TIMESTAMP else field.data_type
    return f"CAST({sql} AS {data_type})"


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
    values: Iterable[tuple[tuple[str, ...], RowExpression]],
    alias: str,
    *,
    table: str,
    rows: Any,
    schema_evolution: bool = False,
    hidden: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the new values of the assigned top-level columns, as Columns by column name.

    If only some fields of a struct are assigned, the other fields keep their values. If the struct
    was NULL, the other fields become NULL. If a whole struct is assigned, its fields are matched by
    name, or by position if `structs_by_name` returns False for the session. All other values are
    cast to the column's type.

    Args:
        schema: the table's schema after the command.
        before: the table's schema before the command.
        values: pairs of a path in `schema` (a column or nested field) and the value to assign. No
            path occurs twice.
        alias: the target's alias.
        rows: a DataFrame with the columns that the values refer to.
        hidden: maps names of the table's columns to their names in `rows`, where the two names
            differ (see `TargetView.hidden_columns`).
    """
    by_column: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
    for path, value in values:
        column = value.column if not value.is_default else _default(before, path, table)
        by_column.setdefault(path[0].lower(), []).append((path[1:], column))

    def new_value(
        target: TargetColumn,
        assigned: Sequence[tuple[tuple[str, ...], Any]],
        old: _TypedColumn | None,
    ) -> Any:
        if not assigned[0][0]:
            return _assigned(target, assigned[0][1], rows, schema_evolution=schema_evolution)
        assert isinstance(target.data_type, StructType)  # the path is in the schema
        children = []
        for field in target.data_type:
            inner = target.inside(field.name, field.data_type)
            field_values = [(p[1:], v) for p, v in assigned if p[0].lower() == field.name.lower()]
            old_field = _struct_field(old, field.name)
            if field_values:
                child = new_value(inner, field_values, old_field)
            elif old_field is not None:
                child = assign_by_name(field.data_type, *old_field)
            else:
                child = cast_to(field, F.lit(None))
            children.append(child.alias(field.name))
        return F.struct(*children)

    columns: dict[str, Any] = {}
    for field in schema:
        assigned = by_column.get(field.name.lower())
        if assigned is not None:
            known, name = before.get(field.name), (hidden or {}).get(field.name, field.name)
            column = F.col(f"{quote_identifier(alias)}.{quote_identifier(name)}")
            old = None if known is None else (column, known.data_type)
            target = TargetColumn(table, field.name, field.data_type)
            columns[field.name] = new_value(target, assigned, old)
    return columns


def _default(schema: StructType, path: tuple[str, ...], table: str) -> Any:
    field = schema.get(path[0]) if len(path) == 1 else None
    return F.lit(None) if field is None else F.expr(default_literal(schema, field, table=table))


def _struct_field(struct: _TypedColumn | None, name: str) -> _TypedColumn | None:
    """Return a field of a struct as a Column, and its type; None if the field doesn't exist."""
    data_type = None if struct is None else struct[1]
    field = data_type.get(name) if isinstance(data_type, StructType) else None
    if struct is None or field is None:
        return None
    return struct[0].getField(field.name), field.data_type


def cast_to(field: StructField, column: Any) -> Any:
    """Cast a Column to the type of a table's column; values that don't fit raise an error."""
    return ansi_cast(column, to_spark(StructType((field,))).fields[0].dataType)


def _assigned(target: TargetColumn, value: Any, rows: Any, *, schema_evolution: bool) -> Any:
    spark = rows.sparkSession
    policy = row_operation_policy(spark)
    cast = assignment_cast(policy)
    plain = not has_structs(target.data_type) or not structs_by_name(spark)
    if plain and policy != "STRICT":
        return cast(value, _spark_type(target))
    value_schema = from_spark(rows.select(value.alias("value")).schema, table=target.table)
    value_type = value_schema.fields[0].data_type
    check_assignment(policy, value_type, target.data_type, column=target.column, table=target.table)
    if plain:
        return cast(value, _spark_type(target))
    check_assignable(target, value_type, schema_evolution=schema_evolution)
    return assign_by_name(target.data_type, value, value_type, cast=cast)


def _spark_type(target: TargetColumn) -> Any:
    field = StructField(name=target.column, data_type=target.data_type)
    return to_spark(StructType((field,))).fields[0].dataType
