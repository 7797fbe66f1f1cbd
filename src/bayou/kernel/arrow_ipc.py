"""Record batches as bytes, in Arrow's IPC stream format."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["array_from_bytes", "array_to_bytes"]


def array_to_bytes(array: pa.Array[Any]) -> bytes:
    """One column, with its type; only the rows that the array shows, were it a slice."""
    batch = pa.RecordBatch.from_arrays([array], names=[""])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def array_from_bytes(data: bytes) -> Any:
    """The inverse of `array_to_bytes`.

    Raises:
        pyarrow.ArrowInvalid: not such bytes.
    """
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch().column(0)
