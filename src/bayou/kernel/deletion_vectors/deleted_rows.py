"""Lists the deleted rows of many files, and the row groups that contain given rows.

A deleted row is identified by two integers: a number that the caller chooses for the file, and the
row index in the file. A reader that doesn't support deletion vectors can exclude the deleted rows
with an anti-join.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.prefetch import prefetch_vectors
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import DELETION_VECTOR_TYPE, ScanFile
from bayou.kernel.scan.transform import data_file_errors
from bayou.protocol.actions import DeletionVectorDescriptor

VECTOR_SCHEMA = pa.schema([pa.field("file", pa.int32()), *DELETION_VECTOR_TYPE])
"""Columns: `file`, a number that the caller chooses for a file, and the fields of its vector."""

DELETED_ROW_SCHEMA = pa.schema([("file", pa.int32()), ("position", pa.int32())])
"""Columns: `file` as in `VECTOR_SCHEMA`, and `position`, the row index of a deleted row."""


def vector_batch(numbers: pa.Array[Any], vectors: Any) -> pa.RecordBatch:
    """Combine the columns of `VECTOR_SCHEMA` into a batch.

    Args:
        numbers: int32 number of each file (column `file`).
        vectors: structs from the column `deletionVector` of scan files, without nulls.
    """
    return pa.RecordBatch.from_arrays([numbers, *vectors.flatten()], schema=VECTOR_SCHEMA)


def deleted_rows(
    engine: Engine, table: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read deletion vectors, and yield the deleted rows of each vector as a batch.

    Args:
        batches: deletion vectors with the schema `VECTOR_SCHEMA`.

    Returns:
        Batches with the schema `DELETED_ROW_SCHEMA`.
    """
    descriptors = (row for batch in batches for row in _rows(batch))
    with prefetch_vectors(engine, table, descriptors, lambda row: [row[1]]) as loaded:
        for (number, descriptor), vectors in loaded:
            positions = vectors.get(descriptor)
            if positions is None:
                positions = read.load(engine, table, descriptor)
            buffer = positions.to_array()
            count = len(buffer)
            wide: Any = pa.Array.from_buffers(pa.uint64(), count, [None, pa.py_buffer(buffer)])
            yield pa.RecordBatch.from_arrays(
                [pa.repeat(to_scalar(number, pa.int32()), count), wide.cast(pa.int32())],
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


def to_bitmap(positions: pa.Array[Any]) -> BitMap64:
    """Convert row indexes, which must be unique and not null, to a bitmap."""
    if len(positions) == 0:
        return BitMap64()
    first, last = pc.min_max(positions).values()
    if last.as_py() - first.as_py() == len(positions) - 1:  # positions are unique
        return BitMap64(range(first.as_py(), last.as_py() + 1))
    numbers = array("Q")
    numbers.frombytes(
        pc.add(pc.cast(positions, pa.uint64()), to_scalar(0, pa.uint64())).buffers()[1]
    )
    return BitMap64(numbers)


def num_rows(engine: Engine, file: ScanFile) -> int:
    """Return the number of a file's rows, including deleted rows, from its footer."""
    with data_file_errors(file.table_root, file.status.path):
        return sum(group.num_rows for group in engine.parquet.read_row_groups(file.status))


def row_group_ranges(
    engine: Engine,
    file: ScanFile,
    only: BitMap64 | None,
    first: int = 0,
    end: int | None = None,
) -> Iterator[tuple[int, int | None]]:
    """Select the row groups that contain certain rows, and yield them as ranges.

    A range of adjacent row groups is a tuple: index of the first row group, index after the last.

    Args:
        only: row indexes of the rows whose row groups are selected. If None, the whole range from
            `first` to `end` is yielded.
        first: index of the first row group to consider.
        end: index after the last row group to consider; None for the end of the file.
    """
    if only is None:
        yield first, end
        return
    begin: int | None = None
    position = number = 0
    with data_file_errors(file.table_root, file.status.path):
        groups = engine.parquet.read_row_groups(file.status)
    for number, group in enumerate(groups):
        next_position = position + group.num_rows
        in_range = number >= first and (end is None or number < end)
        if in_range and only.range_cardinality(position, next_position) > 0:
            begin = number if begin is None else begin
        elif begin is not None:
            yield begin, number
            begin = None
        position = next_position
    if begin is not None:
        yield begin, number + 1
