"""Conversions between Spark and the kernel: pushed filters, requested columns, and batches."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, TypeGuard

import pyarrow as pa
from pyspark.sql import datasource as spark

from bayou.errors import SchemaError
from bayou.kernel.expressions.model import (
    Comparison,
    In,
    IsNull,
    Literal,
    LiteralValue,
    Not,
    Predicate,
    StartsWith,
    col,
)
from bayou.protocol.schema import StructType
from bayou.spark.expressions.session_semantics import check_kernel_compares, with_zone
from bayou.spark.geospatial import to_spark_values
from bayou.spark.read.options import SourceOptions
from bayou.spark.types import same_type


def session_filter(options: SourceOptions, schema: StructType) -> str | None:
    """Return the SQL of the option `filter`; None if the option isn't set.

    The session's time zone is added to timestamp strings that don't contain a time zone.

    Raises:
        ArgumentError: the kernel can't evaluate the filter as Spark does.
    """
    if options.filter is None:
        return None
    check_kernel_compares(options.filter, schema, name="filter")
    return with_zone(options.filter, schema, options.time_zone, name="filter")


def to_predicate(pushed: spark.Filter) -> Predicate | None:
    """Convert a pushed filter to a predicate; None if the kernel doesn't support the filter."""
    match pushed:
        case spark.EqualTo(path, value) if _is_literal(value):
            return Comparison("=", col(*path), Literal(value))
        case spark.EqualNullSafe(path, value) if _is_literal(value):
            return Comparison("<=>", col(*path), Literal(value))
        case spark.GreaterThan(path, value) if _is_literal(value):
            return Comparison(">", col(*path), Literal(value))
        case spark.GreaterThanOrEqual(path, value) if _is_literal(value):
            return Comparison(">=", col(*path), Literal(value))
        case spark.LessThan(path, value) if _is_literal(value):
            return Comparison("<", col(*path), Literal(value))
        case spark.LessThanOrEqual(path, value) if _is_literal(value):
            return Comparison("<=", col(*path), Literal(value))
        case spark.In(path, values) if all(_is_literal(v) for v in values):
            return In(col(*path), tuple(Literal(v) for v in values))
        case spark.IsNull(path):
            return IsNull(col(*path))
        case spark.IsNotNull(path):
            return Not(IsNull(col(*path)))
        case spark.StringStartsWith(path, value) if isinstance(value, str):
            return StartsWith(col(*path), value)
        case spark.Not(child):
            inner = to_predicate(child)
            return None if inner is None else Not(inner)
        case _:
            return None


def _is_literal(value: Any) -> TypeGuard[LiteralValue]:
    types = (bool, int, float, str, bytes, Decimal, dt.date, dt.datetime)
    return value is None or isinstance(value, types)


def table_columns(requested: StructType, table_schema: StructType, table: str) -> StructType:
    """Return the table's columns that `requested` names, in the order of `requested`.

    Raises:
        SchemaError: a column in `requested` doesn't exist in the table, or has another type there.
    """
    columns = []
    for field in requested:
        column = table_schema.get(field.name)
        if column is None:
            raise SchemaError(
                f"{table}: the reader's schema has a column {field.name!r}, but the table doesn't. "
                f"Use columns of the table: {', '.join(table_schema.names)}.",
                table=table,
                column=field.name,
            )
        if not same_type(column.data_type, field.data_type):
            raise SchemaError(
                f"{table}: column {column.name!r} has the type {column.data_type}, but the "
                f"reader's schema has {field.data_type}. Cast the column after load().",
                table=table,
                column=field.name,
            )
        columns.append(column)
    return StructType(tuple(columns))


def cast_to_schema(batch: pa.RecordBatch, expected: pa.Schema) -> pa.RecordBatch:
    """Cast the columns of a batch to the types of `expected`, by position.

    Columns beyond the last field of `expected` are dropped.
    """
    if batch.schema.equals(expected):
        return batch
    columns = [
        to_spark_values(column, field.type)
        for column, field in zip(batch.columns, expected, strict=False)
    ]
    if not columns:
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=expected)
