"""Deletion vectors of many files read before the files are: few requests instead of one a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from pyroaring import BitMap64

from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.read import VectorLocation
from bayou.kernel.engine import ByteRange, Engine
from bayou.protocol.actions import DeletionVectorDescriptor

__all__ = ["LoadedVectors", "with_vectors"]

LoadedVectors: TypeAlias = Mapping[DeletionVectorDescriptor, BitMap64]
"""Deleted positions by the descriptor that stands in the log."""

_T = TypeVar("_T")

_FILES = 64
"""Files whose vectors are read together, at most."""

_BYTES = 16 << 20
"""Bytes of vectors that are read together; the last one may overshoot."""

_GAP = 64 << 10
"""Bytes between two vectors of a file that cost less than a request of their own."""

_RANGE = 8 << 20
"""Bytes from which a request is worth its own."""


@closeable
def with_vectors(
    engine: Engine,
    table: str,
    items: Iterable[_T],
    vectors_of: Callable[[_T], Iterable[DeletionVectorDescriptor | None]],
) -> Iterator[tuple[_T, LoadedVectors]]:
    """Each item with the vectors that it needs, in order; closing it closes `items`.

    A few items are taken ahead, so that vectors that stand near each other in one file come in one
    range, and all ranges in one call of `FileSystemClient.read_files`.

    Args:
        vectors_of: the vectors of an item; those that stand in the log itself aren't looked at.

    Raises:
        DataFileError, CorruptTableError: as `read.load`.
    """
    with CloseableIterator(items) as source:
        for chunk in _chunks(source, vectors_of):
            wanted = {v for _, vectors in chunk for v in vectors}
            loaded = _load(engine, table, wanted) if wanted else {}
            for item, vectors in chunk:
                yield item, {v: loaded[v] for v in vectors}


def _chunks(
    items: Iterable[_T], vectors_of: Callable[[_T], Iterable[DeletionVectorDescriptor | None]]
) -> Iterator[list[tuple[_T, Sequence[DeletionVectorDescriptor]]]]:
    chunk: list[tuple[_T, Sequence[DeletionVectorDescriptor]]] = []
    size = 0
    for item in items:
        vectors = [v for v in vectors_of(item) if v is not None and v.storage_type != "i"]
        chunk.append((item, vectors))
        size += sum(v.size_in_bytes for v in vectors)
        if len(chunk) == _FILES or size >= _BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Range(NamedTuple):
    """Bytes of a file, and the vectors in them."""

    path: str
    offset: int
    end: int
    vectors: list[tuple[DeletionVectorDescriptor, VectorLocation]]


def _load(engine: Engine, table: str, vectors: Iterable[DeletionVectorDescriptor]) -> LoadedVectors:
    located = [(v, read.locate(table, v)) for v in vectors]
    ranges = list(_ranges(sorted(located, key=lambda pair: (pair[1].path, pair[1].offset))))
    loaded: dict[DeletionVectorDescriptor, BitMap64] = {}
    wanted = (ByteRange(path=r.path, offset=r.offset, length=r.end - r.offset) for r in ranges)
    with engine.files.read_files(wanted) as contents:
        for found in ranges:
            first, location = found.vectors[0]
            with read.naming_vector_file(table, first, location):
                data = next(contents)
            for vector, place in found.vectors:
                start = place.offset - found.offset
                frame = data[start : start + place.length]
                loaded[vector] = read.decode(table, vector, place, frame)
    return loaded


def _ranges(
    located: Iterable[tuple[DeletionVectorDescriptor, VectorLocation]],
) -> Iterator[_Range]:
    """Vectors in the order of files and offsets, neighbours together."""
    current: _Range | None = None
    for vector, place in located:
        end = place.offset + place.length
        near = (
            current is not None
            and place.path == current.path
            and place.offset - current.end <= _GAP
            and end - current.offset <= _RANGE
        )
        if current is not None and near:
            current.vectors.append((vector, place))
            current = current._replace(end=max(current.end, end))
            continue
        if current is not None:
            yield current
        current = _Range(place.path, place.offset, end, [(vector, place)])
    if current is not None:
        yield current
