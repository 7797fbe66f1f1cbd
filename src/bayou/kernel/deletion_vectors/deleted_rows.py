"""Deleted rows as pairs (file, position), for a reader that leaves them out by a join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.prefetch import with_vectors
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import DELETION_VECTOR_TYPE
from bayou.protocol.actions import DeletionVectorDescriptor

__all__ = ["DELETED_ROW_SCHEMA", "VECTOR_SCHEMA", "deleted_rows", "vector_batch"]

VECTOR_SCHEMA = pa.schema([pa.field("file", pa.int32()), *DELETION_VECTOR_TYPE])
"""A file's number as the caller counts, and its deletion vector as in an `add`."""

DELETED_ROW_SCHEMA = pa.schema([("file", pa.int32()), ("position", pa.int32())])
"""A file's number, and the position in the file of a row that is deleted, from 0 on."""


def vector_batch(numbers: pa.Array[Any], vectors: Any) -> pa.RecordBatch:
    """A batch in `VECTOR_SCHEMA`.

    Args:
        numbers: int32.
        vectors: structs of a scan file's `deletionVector`, none of them null.
    """
    return pa.RecordBatch.from_arrays([numbers, *vectors.flatten()], schema=VECTOR_SCHEMA)


def deleted_rows(
    engine: Engine, table: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows that some vectors delete.

    Args:
        table: path of the table.
        batches: in `VECTOR_SCHEMA`.

    Returns:
        Batches in `DELETED_ROW_SCHEMA`, one for each vector.

    Raises:
        DataFileError, CorruptTableError: a vector is missing or damaged.
    """
    described = (row for batch in batches for row in _rows(batch))
    with with_vectors(engine, table, described, lambda row: [row[1]]) as loaded:
        for (number, descriptor), vectors in loaded:
            positions = vectors.get(descriptor)
            if positions is None:
                positions = read.load(engine, table, descriptor)
            found = positions.to_array()
            wide: Any = pa.Array.from_buffers(pa.uint64(), len(found), [None, pa.py_buffer(found)])
            yield pa.RecordBatch.from_arrays(
                [pa.repeat(pa.scalar(number, pa.int32()), len(found)), wide.cast(pa.int32())],
                schema=DELETED_ROW_SCHEMA,
            )


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, DeletionVectorDescriptor]]:
    for row in batch.to_pylist():
        yield (
            row["file"],
            DeletionVectorDescriptor(
                storage_type=row["storageType"],
                path_or_inline_dv=row["pathOrInlineDv"],
                offset=row["offset"],
                size_in_bytes=row["sizeInBytes"],
                cardinality=row["cardinality"],
            ),
        )
