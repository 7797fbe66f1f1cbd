"""Casts of inserted structs. Their fields are matched by name or by position.

A field that isn't in the table isn't cast: the write can add the field with its type to the table.
A value for a column of type void isn't cast either: the write can change the column to the value's
type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.errors import SchemaError
from bayou.protocol.schema import VOID, ArrayType, DataType, StructField, StructType
from bayou.spark.types import same_type, to_spark

Cast = Callable[[Any, Any], Any]
"""A function that casts a Column to a Spark type."""


def needs_cast(source: DataType, target: DataType) -> bool:
    """Whether a value of type `source` must be cast to be stored as `target`.

    Fields that exist in only one of two structs are ignored.
    """
    match source, target:
        case StructType(), StructType():
            pairs = ((field.data_type, target.get(field.name)) for field in source)
            return any(known and needs_cast(type_, known.data_type) for type_, known in pairs)
        case ArrayType(), ArrayType():
            return needs_cast(source.element_type, target.element_type)
        case _:
            return target != VOID and not same_type(source, target)


def cast_structs(
    column: Any,
    source: DataType,
    target: StructField,
    cast: Cast,
    *,
    by_name: bool,
    allow_missing: bool,
    table: str,
) -> Any:
    """Cast a Column to the type of a table's column.

    Values for columns of type void, and fields that aren't in the table, aren't cast.

    Args:
        source: the type of the Column.
        target: the table's column.
        cast: function that casts values other than structs and arrays of structs.
        by_name: whether fields of structs are matched by name. If False, they are matched by
            position.
        allow_missing: whether structs can lack fields that the table has.

    Raises:
        SchemaError: a struct lacks a field that the table has, and `allow_missing` is False.
    """
    data_type = target.data_type
    if data_type == VOID or same_type(source, data_type):
        return column
    match source, data_type:
        case StructType(), StructType():
            return _struct(
                column,
                source,
                StructField(name=target.name, data_type=data_type),
                cast,
                by_name=by_name,
                allow_missing=allow_missing,
                table=table,
            )
        case ArrayType(), ArrayType() if isinstance(source.element_type, StructType):
            element = StructField(name=f"{target.name}.element", data_type=data_type.element_type)
            inner = source.element_type

            def cast_element(value: Any) -> Any:
                return cast_structs(
                    value,
                    inner,
                    element,
                    cast,
                    by_name=by_name,
                    allow_missing=allow_missing,
                    table=table,
                )

            return F.transform(column, cast_element)
        case _:
            return cast(column, to_spark(StructType((target,))).fields[0].dataType)


def _struct(
    column: Any,
    source: StructType,
    target: StructField,
    cast: Cast,
    *,
    by_name: bool,
    allow_missing: bool,
    table: str,
) -> Any:
    assert isinstance(target.data_type, StructType)
    fields = target.data_type.fields
    if by_name:
        pairs = [(source.get(field.name), field) for field in fields]
        extra = [field for field in source if target.data_type.get(field.name) is None]
    else:
        pairs = list(zip((*source.fields, *[None] * len(fields)), fields, strict=False))
        extra = list(source.fields[len(fields) :])
    if not allow_missing and any(given is None for given, _ in pairs):
        raise SchemaError(
            f"{table}: not enough nested fields in {target.name}: the column has {len(fields)} "
            f"({', '.join(field.name for field in fields)}), and the rows have {len(source)} "
            f"({', '.join(source.names)}) (DELTA_INSERT_COLUMN_ARITY_MISMATCH). Provide all "
            "fields, or append with saveAsTable or writeTo, which set missing fields to NULL.",
            table=table,
            column=target.name,
        )
    children = [
        cast_structs(
            column.getField(given.name),
            given.data_type,
            StructField(name=f"{target.name}.{field.name}", data_type=field.data_type),
            cast,
            by_name=by_name,
            allow_missing=allow_missing,
            table=table,
        ).alias(field.name)
        for given, field in pairs
        if given is not None
    ]
    children += [column.getField(field.name).alias(field.name) for field in extra]
    return F.when(column.isNotNull(), F.struct(*children))
