"""Deletion vectors: which rows of a data file don't count (PROTOCOL.md, Deletion Vectors)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.errors import CorruptTableError, DataFileError, FileMissingError, StorageError
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.scan.scan_file import vector_file_path
from bayou.protocol.actions import DeletionVectorDescriptor
from bayou.protocol.deletion_vectors import (
    DeletionVectorError,
    bitmap_of,
    check_bitmap,
    inline_data,
    stored_vector,
    unframe,
)

__all__ = ["VectorLocation", "decode", "load", "locate", "naming_vector_file", "selection"]

pc: Any = pyarrow.compute


class VectorLocation(NamedTuple):
    """Where a vector's frame is: absolute path of its file, first byte, number of bytes."""

    path: str
    offset: int
    length: int


def load(engine: Engine, table: str, descriptor: DeletionVectorDescriptor) -> BitMap64:
    """The positions of the deleted rows in the data file, counted from 0.

    Args:
        engine: its files are asked for the bytes of the vector and nothing else.
        table: the table's path, to which a relative vector belongs.
        descriptor: from an `add`, `remove` or `cdc` action.

    Raises:
        DataFileError: the vector's file is missing, can't be read, or is damaged; names it.
        CorruptTableError: the descriptor, or a vector that stands in the log, breaks the format.
    """
    if descriptor.storage_type == "i":
        try:
            return _bitmap(inline_data(descriptor), descriptor)
        except DeletionVectorError as error:
            raise CorruptTableError(
                f"A deletion vector in the log of {table} can't be read: {error}.", table=table
            ) from error
    place = locate(table, descriptor)
    wanted = ByteRange(path=place.path, offset=place.offset, length=place.length)
    with naming_vector_file(table, descriptor, place):
        data = b"".join(engine.files.read_files([wanted]))
    return decode(table, descriptor, place, data)


def locate(table: str, descriptor: DeletionVectorDescriptor) -> VectorLocation:
    """Where a vector is that stands in a file.

    Raises:
        CorruptTableError: the descriptor breaks the format.
    """
    try:
        stored = stored_vector(descriptor)
    except DeletionVectorError as error:
        raise CorruptTableError(
            f"The log of {table} describes a deletion vector ({descriptor.unique_id}) that can't "
            f"be found: {error}.",
            table=table,
        ) from error
    path = vector_file_path(table, descriptor)
    assert path is not None  # an inline vector has no stored one
    return VectorLocation(path, stored.offset, stored.length)


def decode(
    table: str, descriptor: DeletionVectorDescriptor, place: VectorLocation, data: bytes
) -> BitMap64:
    """The positions in a vector's frame, read from `place`.

    Raises:
        DataFileError: the frame is damaged or cut off; names its file.
    """
    with naming_vector_file(table, descriptor, place):
        return _bitmap(unframe(data, descriptor), descriptor)


@contextmanager
def naming_vector_file(
    table: str, descriptor: DeletionVectorDescriptor, place: VectorLocation
) -> Iterator[None]:
    """Turn errors at a vector's file into `DataFileError`s that name file and table."""
    try:
        yield
    except FileMissingError as error:
        raise DataFileError(
            f"Deletion vector file {place.path} of {table} is missing: the log names it, but it "
            "isn't there. VACUUM may have deleted it while this version was read, or it was "
            "deleted by hand; read a newer version, or restore the file.",
            table=table,
            file=place.path,
        ) from error
    except (StorageError, DeletionVectorError) as error:
        raise DataFileError(
            f"Deletion vector file {place.path} of {table} can't be read: the vector of "
            f"{descriptor.size_in_bytes} bytes at offset {place.offset}: {error}.",
            table=table,
            file=place.path,
        ) from error


def selection(deleted: BitMap64, row_indices: pa.Array[Any]) -> pa.BooleanArray | None:
    """Which rows of a batch are left; None where all are.

    Args:
        deleted: positions in the file.
        row_indices: positions of the batch's rows in their file, ascending, without nulls.
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
    found = window.to_array()
    gone = pa.Array.from_buffers(pa.uint64(), len(found), [None, pa.py_buffer(found)])
    positions = gone.cast(pa.int64())
    kept: Any
    if last - first + 1 == count:
        inside = pc.subtract(positions, first)
        kept = pc.is_null(pc.inverse_permutation(inside, max_index=count - 1))
    else:
        kept = pc.invert(pc.is_in(row_indices, value_set=positions))
    assert isinstance(kept, pa.BooleanArray)
    return kept


def _bitmap(body: bytes, descriptor: DeletionVectorDescriptor) -> BitMap64:
    serialized = bitmap_of(body)
    check_bitmap(serialized)
    try:
        bitmap = BitMap64.deserialize(serialized)
    except (ValueError, IndexError) as error:
        raise DeletionVectorError(f"its bitmap can't be read: {error}") from error
    if len(bitmap) != descriptor.cardinality:
        raise DeletionVectorError(
            f"it deletes {len(bitmap)} rows, the log says {descriptor.cardinality}"
        )
    return bitmap
