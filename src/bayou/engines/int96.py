"""INT96 timestamps of Parquet files: instants, whatever Arrow's type for them says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["int96_leaves", "with_instants"]

_INSTANT = pa.timestamp("us", "UTC")


def int96_leaves(footer: pq.FileMetaData) -> frozenset[int]:
    """Indices of the leaf columns that hold INT96."""
    columns: Any = footer.schema
    return frozenset(
        i for i in range(footer.num_columns) if columns.column(i).physical_type == "INT96"
    )


def with_instants(schema: pa.Schema, leaves: frozenset[int]) -> pa.Schema:
    """A file's Arrow schema where these leaf columns are timestamps with a zone."""
    if not leaves:
        return schema
    numbers = iter(range(1 << 30))
    return pa.schema([_field(f, leaves, numbers) for f in schema])


def _field(field: pa.Field[Any], leaves: frozenset[int], numbers: Iterator[int]) -> pa.Field[Any]:
    return field.with_type(_type(field.type, leaves, numbers))


def _type(kind: Any, leaves: frozenset[int], numbers: Iterator[int]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_field(f, leaves, numbers) for f in kind])
    if pa.types.is_map(kind):
        key = _field(kind.key_field, leaves, numbers)
        item: Any = _field(kind.item_field, leaves, numbers)
        return pa.map_(key.type, item)
    if pa.types.is_list(kind):
        element: Any = _field(kind.value_field, leaves, numbers)
        return pa.list_(element)
    leaf: pa.DataType = _INSTANT if next(numbers) in leaves else kind
    return leaf
