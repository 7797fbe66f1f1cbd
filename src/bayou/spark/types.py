"""Conversion of schemas between Delta and Spark. Both use almost the same JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyspark.sql.types as spark_types
from pyspark.errors import IllegalArgumentException

from bayou.errors import SchemaError
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import (
    BINARY,
    VARIANT,
    ArrayType,
    DataType,
    GeographyType,
    GeometryType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
    nested_types,
)
from bayou.spark import geospatial

_INTERNAL_METADATA = "delta."


def to_spark(schema: StructType) -> spark_types.StructType:
    """Convert a table's schema to a Spark schema.

    Delta's internal column metadata, such as `delta.columnMapping.id`, is removed. Otherwise Spark
    would copy the metadata to a new table when a DataFrame of this table is written.
    """
    public_schema = _map_schema(schema, _without_internal_metadata)
    try:
        return spark_types.StructType.fromJson(json.loads(public_schema.to_json()))
    except IllegalArgumentException as error:
        raise SchemaError(
            f"Schema: this version of Spark doesn't support a type of the table: {error}. Read "
            "the table with bayou.table.",
            table="",
        ) from error


def from_spark(schema: spark_types.StructType, *, table: str) -> StructType:
    """Convert a DataFrame's schema to a Delta schema.

    Raises:
        SchemaError: a column has a type that Delta doesn't have (interval, time, user-defined).
    """
    fields: list[StructField] = []
    for field in schema.fields:
        try:
            fields.extend(StructType.from_json(spark_types.StructType([field]).json()).fields)
        except SchemaJsonError as error:
            raise SchemaError(
                f"{table}: Delta doesn't support the type {field.dataType.simpleString()} of "
                f"column {field.name!r}. Cast the column before writing.",
                table=table,
                column=field.name,
            ) from error
    return StructType(tuple(fields))


def to_spark_arrow(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for rows of a table.

    The schema differs from the kernel's Arrow schema in two ways. The fields `value` and `metadata`
    of a variant have the opposite order. Geometries and geographies are structs of `srid` and
    `wkb`, and not binary.
    """
    arrow_schema = to_arrow_schema(_map_schema(schema, _spark_variant))
    fields = [
        field.with_type(_with_spark_geometries(field.type, known.data_type))
        for field, known in zip(arrow_schema, schema, strict=True)
    ]
    return pa.schema(fields)


def as_nullable(schema: StructType) -> StructType:
    """Make all columns and fields nullable, as delta-spark does when it creates a table.

    A DataFrame's column is `NOT NULL` if its current values can't be null, for example a literal.
    Rows that are appended later may have nulls.
    """
    return _map_schema(schema, _nullable_type)


def same_type(left: DataType, right: DataType) -> bool:
    """Whether two types are equal, ignoring nullability, metadata and the case of field names."""
    match left, right:
        case StructType(), StructType():
            return len(left) == len(right) and all(
                a.name.lower() == b.name.lower() and same_type(a.data_type, b.data_type)
                for a, b in zip(left, right, strict=True)
            )
        case ArrayType(), ArrayType():
            return same_type(left.element_type, right.element_type)
        case MapType(), MapType():
            return same_type(left.key_type, right.key_type) and same_type(
                left.value_type, right.value_type
            )
        case _:
            return left == right


def contains_type(data_type: DataType, condition: Callable[[DataType], bool]) -> bool:
    """Whether a type, or a type nested in it at any level, satisfies a condition."""
    return condition(data_type) or any(condition(inner) for _, inner, _ in nested_types(data_type))


def unused_name(name: str, names: Iterable[str]) -> str:
    """Return a name that isn't in `names`: `name`, if necessary with underscores before it.

    Names are compared without regard to case.
    """
    used = {n.lower() for n in names}
    while name.lower() in used:
        name = f"_{name}"
    return name


def _map_schema(schema: StructType, function: Callable[[DataType], DataType]) -> StructType:
    result = _map_types(schema, function)
    assert isinstance(result, StructType)  # no `function` replaces structs
    return result


def _map_types(data_type: DataType, function: Callable[[DataType], DataType]) -> DataType:
    """Apply a function to a type and to all types nested in it, from the inside out."""
    match data_type:
        case StructType(fields):
            data_type = StructType(
                tuple(f.with_data_type(_map_types(f.data_type, function)) for f in fields)
            )
        case ArrayType():
            data_type = replace(
                data_type, element_type=_map_types(data_type.element_type, function)
            )
        case MapType():
            data_type = replace(
                data_type,
                key_type=_map_types(data_type.key_type, function),
                value_type=_map_types(data_type.value_type, function),
            )
    return function(data_type)


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(replace(field, nullable=True) for field in fields))
        case ArrayType():
            return replace(data_type, contains_null=True)
        case MapType():
            return replace(data_type, value_contains_null=True)
        case _:
            return data_type


def _without_internal_metadata(data_type: DataType) -> DataType:
    if not isinstance(data_type, StructType):
        return data_type
    return StructType(
        tuple(
            replace(
                field,
                metadata={
                    k: v for k, v in field.metadata.items() if not k.startswith(_INTERNAL_METADATA)
                },
            )
            for field in data_type
        )
    )


_SPARK_VARIANT = StructType(
    (
        StructField(name="value", data_type=BINARY, nullable=False),
        StructField(name="metadata", data_type=BINARY, nullable=False),
    )
)


def _spark_variant(data_type: DataType) -> DataType:
    return _SPARK_VARIANT if data_type == VARIANT else data_type


def _with_spark_geometries(arrow_type: Any, data_type: DataType) -> Any:
    """Replace the binary Arrow type of geometries and geographies by Spark's structs."""
    match data_type:
        case GeometryType() | GeographyType():
            return geospatial.arrow_type(data_type)
        case StructType(fields):
            inner = [
                arrow_type.field(i).with_type(
                    _with_spark_geometries(arrow_type.field(i).type, field.data_type)
                )
                for i, field in enumerate(fields)
            ]
            return pa.struct(inner)
        case ArrayType():
            element = arrow_type.value_field
            inner_type = _with_spark_geometries(element.type, data_type.element_type)
            return pa.list_(element.with_type(inner_type))
        case MapType():
            item = arrow_type.item_field
            inner_type = _with_spark_geometries(item.type, data_type.value_type)
            return pa.map_(arrow_type.key_field, item.with_type(inner_type))
        case _:
            return arrow_type
