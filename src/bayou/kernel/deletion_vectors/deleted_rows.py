"""Deleted rows as pairs (file, position), for a reader that leaves them out by a join.

Rows of a data file by their positions in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.prefetch import with_vectors
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import DELETION_VECTOR_TYPE, ScanFile
from bayou.kernel.scan.transform import naming_data_file
from bayou.protocol.actions import DeletionVectorDescriptor

__all__ = [
    "DELETED_ROW_SCHEMA",
    "VECTOR_SCHEMA",
    "bitmap",
    "deleted_rows",
    "num_rows",
    "row_group_ranges",
    "vector_batch",
]


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


pc: Any = pyarrow.compute


def bitmap(positions: pa.Array[Any]) -> BitMap64:
    """A set of positions; integers without nulls."""
    if len(positions) == 0:
        return BitMap64()
    first, last = pc.min_max(positions).values()
    if last.as_py() - first.as_py() == len(positions) - 1:  # no position comes twice
        return BitMap64(range(first.as_py(), last.as_py() + 1))
    numbers = array("Q")
    numbers.frombytes(
        pc.add(pc.cast(positions, pa.uint64()), pa.scalar(0, pa.uint64())).buffers()[1]
    )
    return BitMap64(numbers)


def num_rows(engine: Engine, file: ScanFile) -> int:
    """Rows in the file, deleted ones included; from its statistics, else from its footer.

    Raises:
        DataFileError: the file is missing or can't be read.
    """
    if file.num_records is not None:
        return file.num_records
    with naming_data_file(file.table_root, file.status.path):
        return sum(group.num_rows for group in engine.parquet.read_row_groups(file.status))


def row_group_ranges(
    engine: Engine,
    file: ScanFile,
    only: BitMap64 | None,
    first: int = 0,
    end: int | None = None,
) -> Iterator[tuple[int, int | None]]:
    """Runs of row groups, first and end, that hold a row of `only`; all of them where it is None.

    Args:
        first, end: looked at are row groups from the first to before the end one, None: all.
    """
    if only is None:
        yield first, end
        return
    begin: int | None = None
    position = number = 0
    with naming_data_file(file.table_root, file.status.path):
        groups = engine.parquet.read_row_groups(file.status)
    for number, group in enumerate(groups):
        next_position = position + group.num_rows
        inside = number >= first and (end is None or number < end)
        if inside and only.range_cardinality(position, next_position) > 0:
            begin = number if begin is None else begin
        elif begin is not None:
            yield begin, number
            begin = None
        position = next_position
    if begin is not None:
        yield begin, number + 1
