"""Many small files read with the calls, threads and batches of few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from bayou.kernel import CloseableIterator, closeable

__all__ = ["groups", "joined"]

_File = TypeVar("_File")

_pa: Any = pa

_SMALL = 1 << 20
"""Bytes of a file that isn't read alone."""

_LARGEST_GROUP = 64
"""Files."""

_ROWS = 65_536
"""Of a batch that is large enough."""


@closeable
def groups(
    files: Iterable[_File], workers: int, size: Callable[[_File], int]
) -> Iterator[list[_File]]:
    """Files in the order given; small ones that follow each other together.

    The first groups are small, because all workers want one, and nobody knows how many files come.
    Closing the result closes `files`.

    Args:
        size: bytes of a file.
    """
    with CloseableIterator(files) as source:
        yield from _grouped(source, workers, size)


def joined(batches: Iterable[pa.RecordBatch]) -> CloseableIterator[pa.RecordBatch]:
    """The same rows; batches that are small and follow each other become one.

    Closing the result closes `batches`.
    """
    return CloseableIterator(_joined(batches), batches)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if rows + batch.num_rows > _ROWS:
            yield from _one(waiting)
            waiting, rows = [], 0
        if batch.num_rows > _ROWS // 2:
            yield from _one(waiting)
            yield batch
            waiting, rows = [], 0
        else:
            waiting.append(batch)
            rows += batch.num_rows
    yield from _one(waiting)


def _grouped(
    files: Iterable[_File], workers: int, size: Callable[[_File], int]
) -> Iterator[list[_File]]:
    count = 0
    group: list[_File] = []
    for file in files:
        large = size(file) > _SMALL
        if group and (large or len(group) > min(count // workers, _LARGEST_GROUP - 1)):
            yield group
            count += 1
            group = []
        if large:
            yield [file]
            count += 1
        else:
            group.append(file)
    if group:
        yield group


def _one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [_pa.concat_batches(batches)] if len(batches) > 1 else batches
