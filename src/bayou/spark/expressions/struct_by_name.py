"""Values put into columns as MERGE and UPDATE do it, as Columns of Spark: structs by name."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from bayou.spark.types import to_spark

__all__ = ["has_structs", "put_into"]


def has_structs(data_type: DataType) -> bool:
    """Whether values of a type have fields that have names."""
    match data_type:
        case StructType():
            return True
        case ArrayType():
            return has_structs(data_type.element_type)
        case MapType():
            return has_structs(data_type.key_type) or has_structs(data_type.value_type)
        case _:
            return False


def put_into(
    wanted: DataType, value: Any, given: DataType, before: tuple[Any, DataType] | None = None
) -> Any:
    """A value as a column of the table holds it; `check_assignable` has passed the types.

    Args:
        value: a Column of type `given`.
        before: what was in the column, whose fields stay that `given` doesn't have; None to make
            them NULL.
    """
    return _by_name(wanted, value, given, before).cast(_spark_type(wanted))


def _by_name(
    wanted: DataType, value: Any, given: DataType, before: tuple[Any, DataType] | None
) -> Any:
    match wanted, given:
        case StructType(), StructType():
            return _struct(wanted, value, given, before)
        case ArrayType(), ArrayType() if has_structs(wanted):
            one, other = wanted.element_type, given.element_type
            return F.transform(value, lambda element: put_into(one, element, other))
        case MapType(), MapType() if has_structs(wanted):
            keys, values = (wanted.key_type, given.key_type), (wanted.value_type, given.value_type)
            made = F.transform_values(value, lambda _, v: put_into(values[0], v, values[1]))
            return F.transform_keys(made, lambda k, _: put_into(keys[0], k, keys[1]))
        case _:
            return value


def _struct(
    wanted: StructType, value: Any, given: StructType, before: tuple[Any, DataType] | None
) -> Any:
    kept: Any = None
    kept_type: DataType | None = None
    if before is not None and isinstance(before[1], StructType):
        kept, kept_type = before
    children = []
    for field in wanted:
        source = given.get(field.name)
        had = kept_type.get(field.name) if isinstance(kept_type, StructType) else None
        old = None if had is None else (kept.getField(had.name), had.data_type)
        if source is not None:
            child = put_into(field.data_type, value.getField(source.name), source.data_type, old)
        elif old is not None:
            child = put_into(field.data_type, *old)
        else:
            child = F.lit(None).cast(_spark_type(field.data_type))
        children.append(child.alias(field.name))
    there = value.isNotNull()
    if isinstance(kept_type, StructType) and any(given.get(n) is None for n in kept_type.names):
        there = there | kept.isNotNull()
    return F.when(there, F.struct(*children))


def _spark_type(data_type: DataType) -> Any:
    field = StructField(name="value", data_type=data_type)
    return to_spark(StructType((field,))).fields[0].dataType
