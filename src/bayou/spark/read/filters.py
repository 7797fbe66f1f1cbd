"""Filters that Spark pushes into a Python data source, as predicates of the kernel.

Columns of a read: those that Spark asks for, and batches as it checks them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeGuard

import pyarrow as pa
from pyspark.sql import datasource as spark

from bayou.errors import SchemaError
from bayou.kernel.expressions.model import (
    And,
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
from bayou.spark.types import same_type

__all__ = ["conform", "conjunction", "table_columns", "to_predicate"]


def to_predicate(pushed: spark.Filter) -> Predicate | None:
    """The predicate of a filter; None for a kind that can't skip anything."""
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


def conjunction(predicates: Iterable[Predicate]) -> Predicate | None:
    """All of them at once; None for none."""
    operands = tuple(predicates)
    if not operands:
        return None
    return operands[0] if len(operands) == 1 else And(operands)


def _is_literal(value: Any) -> TypeGuard[LiteralValue]:
    kinds = (bool, int, float, str, bytes, Decimal, dt.date, dt.datetime)
    return value is None or isinstance(value, kinds)


def table_columns(wanted: StructType, table_schema: StructType, table: str) -> StructType:
    """The table's columns for those that Spark asks for, which the user may have narrowed."""
    columns = []
    for field in wanted:
        known = table_schema.get(field.name)
        if known is None:
            raise SchemaError(
                f"{table} has no column {field.name!r}; it has {', '.join(table_schema.names)}. "
                "A schema given to the reader selects columns, it can't add any.",
                table=table,
                column=field.name,
            )
        if not same_type(known.data_type, field.data_type):
            raise SchemaError(
                f"Column {known.name!r} of {table} has the type {known.data_type}, not "
                f"{field.data_type}. A schema given to the reader selects columns as they are; "
                "cast them after load().",
                table=table,
                column=field.name,
            )
        columns.append(known)
    return StructType(tuple(columns))


def conform(batch: pa.RecordBatch, expected: pa.Schema) -> pa.RecordBatch:
    """The first columns, under the names and with the exact types that Spark checks for."""
    if batch.schema.equals(expected):
        return batch
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, expected, strict=False)
    ]
    if not columns:
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=expected)
