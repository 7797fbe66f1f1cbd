"""Conversion of values that MERGE and UPDATE assign: structs by field name, others by cast."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from bayou.spark.expressions.store_assignment import CastFunction
from bayou.spark.jvm.expressions import ansi_cast
from bayou.spark.types import contains_type, to_spark


def has_structs(data_type: DataType) -> bool:
    """Whether a type is or contains a struct."""
    return contains_type(data_type, lambda t: isinstance(t, StructType))


def same_fields(one: DataType, other: DataType) -> bool:
    """Whether structs of two types have the same field names in the same order."""
    match one, other:
        case StructType(), StructType():
            return [n.lower() for n in one.names] == [n.lower() for n in other.names] and all(
                same_fields(a.data_type, b.data_type) for a, b in zip(one, other, strict=True)
            )
        case ArrayType(), ArrayType():
            return same_fields(one.element_type, other.element_type)
        case MapType(), MapType():
            keys = same_fields(one.key_type, other.key_type)
            return keys and same_fields(one.value_type, other.value_type)
        case _:
            return True


def assign_by_name(
    target: DataType,
    value: Any,
    source: DataType,
    before: tuple[Any, DataType] | None = None,
    cast: CastFunction = ansi_cast,
) -> Any:
    """Convert a value to a column's type: struct fields by name, and all other values by `cast`.

    Args:
        target: the column's type. The caller has checked the types with `check_assignable`.
        value: the value, a Column.
        source: the type of the value.
        before: the old value of the column (a Column) and its type. Struct fields that `source`
            lacks keep their old value. If None, these fields become NULL.
        cast: function that casts values.
    """
    return cast(_by_name(target, value, source, before, cast), _spark_type(target))


def _by_name(
    target: DataType,
    value: Any,
    source: DataType,
    before: tuple[Any, DataType] | None,
    cast: CastFunction,
) -> Any:
    match target, source:
        case StructType(), StructType():
            return _struct(target, value, source, before, cast)
        case ArrayType(), ArrayType() if has_structs(target):
            to, from_ = target.element_type, source.element_type
            return F.transform(value, lambda element: assign_by_name(to, element, from_, cast=cast))
        case MapType(), MapType() if has_structs(target):
            to_key, to_value = target.key_type, target.value_type
            from_key, from_value = source.key_type, source.value_type
            converted = F.transform_values(
                value, lambda _, v: assign_by_name(to_value, v, from_value, cast=cast)
            )
            return F.transform_keys(
                converted, lambda k, _: assign_by_name(to_key, k, from_key, cast=cast)
            )
        case _:
            return value


def _struct(
    target: StructType,
    value: Any,
    source: StructType,
    before: tuple[Any, DataType] | None,
    cast: CastFunction,
) -> Any:
    old: Any = None
    old_type: DataType | None = None
    if before is not None and isinstance(before[1], StructType):
        old, old_type = before
    children = []
    for field in target:
        new_field = source.get(field.name)
        old_field = old_type.get(field.name) if isinstance(old_type, StructType) else None
        old_child = None
        if old_field is not None:
            old_child = (old.getField(old_field.name), old_field.data_type)
        if new_field is not None:
            new_child = value.getField(new_field.name)
            child = assign_by_name(field.data_type, new_child, new_field.data_type, old_child, cast)
        elif old_child is not None:
            child = assign_by_name(field.data_type, *old_child)
        else:
            child = F.lit(None).cast(_spark_type(field.data_type))
        children.append(child.alias(field.name))
    not_null = value.isNotNull()
    if isinstance(old_type, StructType) and any(source.get(n) is None for n in old_type.names):
        not_null = not_null | old.isNotNull()
    return F.when(not_null, F.struct(*children))


def _spark_type(data_type: DataType) -> Any:
    field = StructField(name="value", data_type=data_type)
    return to_spark(StructType((field,))).fields[0].dataType
