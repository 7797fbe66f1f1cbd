"""Rows of a table as Python values, whatever their moments are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["python_rows"]


def python_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """A dictionary for each row.

    Python has no date outside of the years 1 to 9999, Delta has. Where there is one, dates and
    timestamps of these rows are texts.
    """
    try:
        return rows.to_pylist()
    except (OverflowError, ValueError):
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        told = pa.schema([field.with_type(_told(field.type)) for field in table.schema])
        return table.cast(told).to_pylist()


def _told(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.string()
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_told(field.type)) for field in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_told(kind.value_type)))
    if isinstance(kind, pa.MapType):
        return pa.map_(_told(kind.key_type), _told(kind.item_type))
    return kind
