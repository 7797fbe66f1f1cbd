"""Rows that tasks hand on, to the driver or to other tasks, as compressed bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc

from bayou.spark.session.settings import ROW_OPERATIONS_SOURCE_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "TooManyRowsError",
    "driver_bytes",
    "gathered_bytes",
    "gathered_pieces",
    "gathered_rows",
]

_OPTIONS: Any = pyarrow.ipc.IpcWriteOptions(compression="zstd")

_PIECE_BYTES = 8 << 20
_DRIVER_BYTES = 64 << 20


class TooManyRowsError(Exception):
    """Rows take more than their share of the driver's memory."""


def driver_bytes(spark: SparkSession) -> int:
    """What the rows of an upsert's batch may take in the driver's process, all in all."""
    limit = ROW_OPERATIONS_SOURCE_BYTES.integer(spark=spark)
    return _DRIVER_BYTES if limit is None else limit


def gathered_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Batches of one schema in pieces of some megabytes, each as of `gathered_bytes`."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _PIECE_BYTES:
            yield gathered_bytes(waiting)
            waiting, size = [], 0
    if waiting:
        yield gathered_bytes(waiting)


def gathered_bytes(batches: Iterable[pa.RecordBatch], most: int | None = None) -> bytes:
    """Batches of one schema; empty for none.

    Args:
        most: bytes that they may take in memory; None for any number.

    Raises:
        TooManyRowsError: they take more.
    """
    size = 0
    sink = pa.BufferOutputStream()
    writer: Any = None
    for batch in batches:
        size += batch.nbytes
        if most is not None and size > most:
            raise TooManyRowsError
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
