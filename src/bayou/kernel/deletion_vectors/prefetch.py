"""Prefetching of the deletion vectors of many data files with few requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from pyroaring import BitMap64

from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.read import VectorLocation
from bayou.kernel.engine import ByteRange, Engine
from bayou.protocol.actions import DeletionVectorDescriptor

LoadedVectors: TypeAlias = Mapping[DeletionVectorDescriptor, BitMap64]
"""Row indexes of the deleted rows, by deletion vector descriptor."""

_T = TypeVar("_T")

_MAX_CHUNK_FILES = 64
"""Maximum number of data files in a chunk; the vectors of a chunk are read together."""

_MAX_CHUNK_BYTES = 16 << 20
"""Total size in bytes of a chunk's vectors at which the chunk is complete."""

_MAX_GAP_BYTES = 64 << 10
"""Maximum distance in bytes between two vectors of a file that are read with one request."""

_MAX_RANGE_BYTES = 8 << 20
"""Maximum size in bytes of a request for several vectors."""


@closeable
def prefetch_vectors(
    engine: Engine,
    table: str,
    items: Iterable[_T],
    vectors_of: Callable[[_T], Iterable[DeletionVectorDescriptor | None]],
) -> Iterator[tuple[_T, LoadedVectors]]:
    """Read the deletion vectors of items, such as scan files, and yield each item with its vectors.

    The vectors of many items are read with one call of `FileSystemClient.read_files`. Vectors that
    are close to each other in a file are read as one range. Closing the result closes `items`.

    Args:
        vectors_of: function that returns the descriptors of an item's deletion vectors. None and
            descriptors of inline vectors are ignored.

    Returns:
        Pairs of an item and its loaded vectors: a mapping from descriptor to the row indexes of the
        deleted rows.

    Raises:
        DataFileError, CorruptTableError: see `read.load`.

    Examples:
        >>> files = [file]
        >>> with prefetch_vectors(engine, path, files, lambda f: [f.deletion_vector]) as prefetched:
        ...     for item, vectors in prefetched:
        ...         batches = list(read_scan_file(engine, state, item, vectors=vectors))
    """
    with CloseableIterator(items) as source:
        for chunk in _chunks(source, vectors_of):
            needed = {v for _, vectors in chunk for v in vectors}
            loaded = _load(engine, table, needed) if needed else {}
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
        if len(chunk) == _MAX_CHUNK_FILES or size >= _MAX_CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Range(NamedTuple):
    """A byte range of a deletion vector file, and the vectors in it."""

    path: str
    offset: int
    end: int
    vectors: list[tuple[DeletionVectorDescriptor, VectorLocation]]


def _load(engine: Engine, table: str, vectors: Iterable[DeletionVectorDescriptor]) -> LoadedVectors:
    located = [(v, read.locate(table, v)) for v in vectors]
    ranges = list(_ranges(sorted(located, key=lambda pair: (pair[1].path, pair[1].offset))))
    loaded: dict[DeletionVectorDescriptor, BitMap64] = {}
    requests = (ByteRange(path=r.path, offset=r.offset, length=r.end - r.offset) for r in ranges)
    with engine.files.read_files(requests) as contents:
        for byte_range in ranges:
            first, first_location = byte_range.vectors[0]
            with read.vector_file_errors(table, first, first_location):
                data = next(contents)
            for vector, location in byte_range.vectors:
                start = location.offset - byte_range.offset
                frame = data[start : start + location.length]
                loaded[vector] = read.decode(table, vector, location, frame)
    return loaded


def _ranges(
    located: Iterable[tuple[DeletionVectorDescriptor, VectorLocation]],
) -> Iterator[_Range]:
    """Merge adjacent vectors into ranges; `located` is sorted by file and offset."""
    current: _Range | None = None
    for vector, location in located:
        end = location.offset + location.length
        adjacent = (
            current is not None
            and location.path == current.path
            and location.offset - current.end <= _MAX_GAP_BYTES
            and end - current.offset <= _MAX_RANGE_BYTES
        )
        if current is not None and adjacent:
            current.vectors.append((vector, location))
            current = current._replace(end=max(current.end, end))
            continue
        if current is not None:
            yield current
        current = _Range(location.path, location.offset, end, [(vector, location)])
    if current is not None:
        yield current
