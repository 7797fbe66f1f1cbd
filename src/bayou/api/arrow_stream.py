"""Rows that come from anywhere, by the Arrow PyCapsule interface."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from bayou.errors import ArgumentError

__all__ = ["ArrowStream", "record_batches"]


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
