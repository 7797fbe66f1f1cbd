"""Encodes the rows of an upsert as compressed Arrow IPC streams, for transfer between processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc

from bayou.ingest.upsert_order import key_buckets
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.protocol.schema import DataType, StructType
from bayou.spark.session.settings import ROW_OPERATIONS_SOURCE_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bayou.ingest.batch.startup_session import StartupSession

_OPTIONS: Any = pyarrow.ipc.IpcWriteOptions(compression="zstd")

_CHUNK_BYTES = 8 << 20
_SPLIT_BYTES = 32 << 20
_DRIVER_BYTES = 64 << 20
_VARIABLE_WIDTH_BYTES = 20
"""Estimated size of a string or of another value of variable width."""


class TooManyRowsError(Exception):
    """The rows of one task exceed `max_bytes`, the memory that the driver reserves for the task."""


def driver_bytes(spark: SparkSession | StartupSession) -> int:
    """Return the maximum size in bytes of the rows of an upsert that the driver may merge."""
    limit = ROW_OPERATIONS_SOURCE_BYTES.integer(spark=spark)
    return _DRIVER_BYTES if limit is None else limit


def estimated_row_bytes(columns: StructType) -> int:
    """Estimate the size of a row in memory in bytes, from the types of its columns."""
    return sum(_value_bytes(column.data_type) for column in columns)


def _value_bytes(data_type: DataType) -> int:
    if isinstance(data_type, StructType):
        return estimated_row_bytes(data_type)
    arrow_type = to_arrow_type(data_type)
    try:
        return max(1, arrow_type.bit_width // 8)
    except ValueError:  # has no fixed width
        return _VARIABLE_WIDTH_BYTES


def encode_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Group batches into chunks of a few megabytes; yield each chunk as an IPC stream."""
    return map(encode_batches, _grouped(batches, _CHUNK_BYTES))


def encode_buckets(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str], count: int
) -> Iterator[tuple[int, bytes]]:
    """Distribute rows over `count` buckets; all rows with the same key are in the same bucket.

    Yields the rows of a bucket in one or more IPC streams, each with the number of the bucket.

    Args:
        keys: names of the key columns.
    """
    for group in _grouped(batches, _SPLIT_BYTES):
        rows = pa.Table.from_batches(group).combine_chunks()
        buckets = key_buckets([rows.column(name).combine_chunks() for name in keys], count)
        rows = rows.take(pc.sort_indices(buckets))
        start = 0
        for size in sorted(pc.value_counts(buckets).to_pylist(), key=lambda size: size["values"]):
            part = rows.slice(start, size["counts"])
            start += size["counts"]
            yield size["values"], encode_batches(part.to_batches())


def _grouped(batches: Iterable[pa.RecordBatch], max_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= max_bytes:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


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
