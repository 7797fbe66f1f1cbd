"""Columns of a read: those that Spark asks for, and batches as it checks them."""

from __future__ import annotations

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.protocol.schema import StructType
from bayou.spark.types import same_type

__all__ = ["conform", "table_columns"]


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
