"""Rows that come from anywhere, by the Arrow PyCapsule interface.

Rows of a table as Python values, whatever their moments are.
"""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from bayou.errors import ArgumentError

__all__ = ["ArrowStream", "python_rows", "record_batches"]


class ArrowStream(Protocol):
    """Anything with the Arrow PyCapsule interface: pyarrow, polars, duckdb, pandas, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream."""
        ...


def record_batches(data: ArrowStream, argument: str) -> pa.RecordBatchReader:
    """The stream of some rows.

    Args:
        argument: what the rows were given as, for errors.

    Raises:
        ArgumentError: there is none, or it isn't one of a table.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        raise ArgumentError(
            f"{argument} is a {type(data).__name__}, which has no Arrow stream "
            "(__arrow_c_stream__). Give a pyarrow, polars, duckdb or pandas (2.2 or newer) table; "
            "pyarrow.Table.from_pylist makes one of dictionaries.",
            argument=argument,
        )
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as error:
        raise ArgumentError(
            f"{argument} is a {type(data).__name__} whose Arrow stream isn't one of a table: "
            f"{error}.",
            argument=argument,
        ) from error


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
