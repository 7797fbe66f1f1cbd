"""Rows that tasks hand to the driver, as compressed bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.ipc

__all__ = ["gathered_bytes", "gathered_rows"]

_OPTIONS: Any = pyarrow.ipc.IpcWriteOptions(compression="zstd")


def gathered_bytes(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Batches of one schema; empty for none."""
    sink = pa.BufferOutputStream()
    writer: Any = None
    for batch in batches:
        if writer is None:
            writer = pyarrow.ipc.new_stream(sink, batch.schema, options=_OPTIONS)
        writer.write_batch(batch)
    if writer is None:
        return b""
    writer.close()
    return sink.getvalue().to_pybytes()


def gathered_rows(parts: Iterable[bytes]) -> pa.Table | None:
    """The rows of all tasks; None for none."""
    tables = [pyarrow.ipc.open_stream(part).read_all() for part in parts if part]
    return pa.concat_tables(tables) if tables else None
