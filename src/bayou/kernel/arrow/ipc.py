"""Record batches as bytes, in Arrow's IPC stream format."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["array_from_bytes", "array_to_bytes", "batch_from_bytes", "batch_to_bytes"]


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch with its schema; only the rows that the batch shows, were it a slice."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch_from_bytes(data: bytes) -> pa.RecordBatch:
    """The inverse of `batch_to_bytes`.

    Raises:
        pyarrow.ArrowInvalid: not such bytes.
    """
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    batch.validate(full=True)  # whoever reads values of a batch trusts its offsets
    return batch


def array_to_bytes(array: pa.Array[Any]) -> bytes:
    """One column, with its type; only the rows that the array shows, were it a slice."""
    return batch_to_bytes(pa.RecordBatch.from_arrays([array], names=[""]))


def array_from_bytes(data: bytes) -> Any:
    """The inverse of `array_to_bytes`.

    Raises:
        pyarrow.ArrowInvalid: not such bytes.
    """
    return batch_from_bytes(data).column(0)
