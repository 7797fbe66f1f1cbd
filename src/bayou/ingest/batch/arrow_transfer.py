"""Encodes the rows of an upsert as compressed Arrow IPC streams, for transfer between processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc

from bayou.spark.session.settings import ROW_OPERATIONS_SOURCE_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bayou.ingest.batch.startup_session import StartupSession

_OPTIONS: Any = pyarrow.ipc.IpcWriteOptions(compression="zstd")

_CHUNK_BYTES = 8 << 20
_DRIVER_BYTES = 64 << 20


class TooManyRowsError(Exception):
    """The rows of one task exceed `max_bytes`, the memory that the driver reserves for the task."""


def driver_bytes(spark: SparkSession | StartupSession) -> int:
    """Return the maximum size in bytes of the rows of an upsert that the driver may merge."""
    limit = ROW_OPERATIONS_SOURCE_BYTES.integer(spark=spark)
    return _DRIVER_BYTES if limit is None else limit


def encode_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Group batches into chunks of a few megabytes; yield each chunk as an IPC stream."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield encode_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield encode_batches(waiting)


def encode_batches(batches: Iterable[pa.RecordBatch], max_bytes: int | None = None) -> bytes:
    """Encode batches of one schema as an Arrow IPC stream; empty bytes if there are no batches.

    Raises:
        TooManyRowsError: the batches exceed `max_bytes` in memory.
    """
    size = 0
    sink = pa.BufferOutputStream()
    writer: Any = None
    for batch in batches:
        size += batch.nbytes
        if max_bytes is not None and size > max_bytes:
            raise TooManyRowsError
        if writer is None:
            writer = pyarrow.ipc.new_stream(sink, batch.schema, options=_OPTIONS)
        writer.write_batch(batch)
    if writer is None:
        return b""
    writer.close()
    return sink.getvalue().to_pybytes()


def decode_rows(parts: Iterable[bytes]) -> pa.Table | None:
    """Decode the results of `encode_batches` to one Arrow table; None if all results are empty."""
    tables = [pyarrow.ipc.open_stream(part).read_all() for part in parts if part]
    return pa.concat_tables(tables) if tables else None
