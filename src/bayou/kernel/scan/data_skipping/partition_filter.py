"""Partitions by their values, and the filter that finds the files of some of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from bayou.kernel.expressions.model import And, Column, In, IsNull, Literal, Or, Predicate
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol import partition_values
from bayou.protocol.partition_values import PartitionValue
from bayou.protocol.schema import StructField

__all__ = ["PartitionKey", "of_partitions", "partition_key"]

PartitionKey: TypeAlias = tuple[PartitionValue, ...]


def partition_key(
    values: Mapping[str, str | None], columns: Sequence[StructField], time_zone: str = "UTC"
) -> PartitionKey:
    """A file's partition, the same for values that are written differently.

    Args:
        values: `partitionValues` of the file's action.
        columns: the table's partition columns.
        time_zone: of timestamps that are written without one.

    Raises:
        ValueError: a text that isn't a value of its column's type.
    """
    return tuple(
        _equal_to_itself(
            partition_values.parse(values.get(physical_name(field)), field.data_type, time_zone)
        )
        for field in columns
    )


def _equal_to_itself(value: PartitionValue) -> PartitionValue:
    """Python's NaN equals itself only where it is the same object."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def of_partitions(columns: Sequence[StructField], keys: Collection[PartitionKey]) -> Predicate:
    """True of rows of the partitions; with several columns, of some others, too.

    Args:
        columns: the table's partition columns, at least one.
        keys: at least one.
    """
    each: list[Predicate] = []
    for index, field in enumerate(columns):
        column = Column((field.name,))
        values = {key[index] for key in keys}
        known = tuple(Literal(v, field.data_type) for v in values if v is not None)
        options: list[Predicate] = [In(column, known)] if known else []
        if None in values:
            options.append(IsNull(column))
        each.append(options[0] if len(options) == 1 else Or(tuple(options)))
    return each[0] if len(each) == 1 else And(tuple(each))
