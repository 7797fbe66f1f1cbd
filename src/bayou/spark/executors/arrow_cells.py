"""Arrow batches in binary cells of a DataFrame: what executors and driver send each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

__all__ = ["from_cell", "to_cell"]

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def to_cell(batch: pa.RecordBatch) -> bytes:
    """A batch with its schema, compressed; only the rows that it shows, were it a slice."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_cell(data: bytes) -> pa.RecordBatch:
    """The inverse of `to_cell`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def in_one(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of several batches of one schema, at least one, in one batch."""
    table: Any = pa.Table.from_batches(list(batches)).combine_chunks()
    found: pa.RecordBatch = table.to_batches(max_chunksize=max(1, table.num_rows))[0]
    return found
