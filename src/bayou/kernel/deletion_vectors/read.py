"""Reading deletion vectors: the deleted rows of a data file (PROTOCOL.md, Deletion Vectors)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
from pyroaring import BitMap64

from bayou.errors import CorruptTableError, DataFileError, FileMissingError, StorageError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.scan.scan_file import vector_file_path
from bayou.protocol.actions import DeletionVectorDescriptor
from bayou.protocol.deletion_vectors import (
    DeletionVectorError,
    check_bitmap,
    decode_bitmap,
    inline_data,
    stored_vector,
    unframe,
)


class VectorLocation(NamedTuple):
    """Location of a deletion vector in a file: absolute path, offset and length in bytes.

    The range includes the size field and the checksum of the vector (PROTOCOL.md, Deletion Vector
    File Storage Format).
    """

    path: str
    offset: int
    length: int


def load(engine: Engine, table: str, descriptor: DeletionVectorDescriptor) -> BitMap64:
    """Load a deletion vector: return the row indexes (from 0) of the deleted rows in the data file.

    A vector that is stored in a file is read with a single range request.

    Raises:
        DataFileError: the vector's file is missing, can't be read or is corrupt. The message names
            the file.
        CorruptTableError: the descriptor or an inline vector is invalid.
    """
    if descriptor.storage_type == "i":
        try:
            return _bitmap(inline_data(descriptor), descriptor)
        except DeletionVectorError as error:
            raise CorruptTableError(
                f"{table}: an inline deletion vector in the log can't be read: {error}. Restore "
                "an earlier version of the table.",
                table=table,
            ) from error
    location = locate(table, descriptor)
    byte_range = ByteRange(path=location.path, offset=location.offset, length=location.length)
    with vector_file_errors(table, descriptor, location):
        data = b"".join(engine.files.read_files([byte_range]))
    return decode(table, descriptor, location, data)


def locate(table: str, descriptor: DeletionVectorDescriptor) -> VectorLocation:
    """Return the location of a vector that is stored in a file."""
    try:
        stored = stored_vector(descriptor)
    except DeletionVectorError as error:
        raise CorruptTableError(
            f"{table}: the descriptor of deletion vector {descriptor.unique_id} in the log is "
            f"invalid: {error}. Restore an earlier version of the table.",
            table=table,
        ) from error
    path = vector_file_path(table, descriptor)
    assert path is not None  # `stored_vector` rejects inline vectors
    return VectorLocation(path, stored.offset, stored.length)


def decode(
    table: str, descriptor: DeletionVectorDescriptor, location: VectorLocation, data: bytes
) -> BitMap64:
    """Decode `data`, the bytes at `location`, to the row indexes of the deleted rows."""
    with vector_file_errors(table, descriptor, location):
        return _bitmap(unframe(data, descriptor), descriptor)


@contextmanager
def vector_file_errors(
    table: str, descriptor: DeletionVectorDescriptor, location: VectorLocation
) -> Iterator[None]:
    """Context manager that converts errors of reading a vector to `DataFileError`."""
    try:
        yield
    except FileMissingError as error:
        raise DataFileError(
            f"{table}: deletion vector file {location.path} is missing, although the log "
            "references it. VACUUM deleted it while this version was read, or it was deleted "
            "manually. Read a newer version, or restore the file.",
            table=table,
            file=location.path,
        ) from error
    except (StorageError, DeletionVectorError) as error:
        raise DataFileError(
            f"{table}: deletion vector file {location.path}: the deletion vector of "
            f"{descriptor.size_in_bytes} bytes at offset {location.offset} can't be read: "
            f"{str(error).rstrip('.')}. Restore the file, or an earlier version of the table.",
            table=table,
            file=location.path,
        ) from error


def selection_vector(deleted: BitMap64, row_indices: pa.Array[Any]) -> pa.BooleanArray | None:
    """Return a mask that is False for the deleted rows of a batch; None if no row is deleted.

    Args:
        deleted: row indexes of the deleted rows in the file.
        row_indices: row indexes of the batch's rows in the file, ascending, without nulls.
    """
    count = len(row_indices)
    if count == 0:
        return None
    first, last = row_indices[0].as_py(), row_indices[-1].as_py()
    window = BitMap64()
    window.add_range(first, last + 1)
    window &= deleted
    if not window:
        return None
    buffer = window.to_array()
    unsigned = pa.Array.from_buffers(pa.uint64(), len(buffer), [None, pa.py_buffer(buffer)])
    positions = unsigned.cast(pa.int64())
    retained: Any
    if last - first + 1 == count:
        indices = pc.subtract(positions, first)
        retained = pc.is_null(pc.inverse_permutation(indices, max_index=count - 1))
    else:
        retained = pc.invert(pc.is_in(row_indices, value_set=positions))
    assert isinstance(retained, pa.BooleanArray)
    return retained


def _bitmap(body: bytes, descriptor: DeletionVectorDescriptor) -> BitMap64:
    serialized = decode_bitmap(body)
    check_bitmap(serialized)
    try:
        bitmap = BitMap64.deserialize(serialized)
    except (ValueError, IndexError) as error:
        raise DeletionVectorError(f"the bitmap can't be read: {error}") from error
    if len(bitmap) != descriptor.cardinality:
        raise DeletionVectorError(
            f"the vector deletes {len(bitmap)} rows, but the cardinality in the log is "
            f"{descriptor.cardinality}"
        )
    return bitmap
