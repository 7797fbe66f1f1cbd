"""Input of a remote Parquet file that prefetches column chunks concurrently."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import IO, NamedTuple

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine import ByteRange, FileSystemClient

_GAP = 512 << 10
"""Maximum gap between two column chunks, in bytes, for fetching both chunks with one request."""

_PART = 8 << 20
"""Maximum number of bytes of a request; the file system client limits concurrent requests."""

_MAGIC = 8
"""Number of bytes after a footer: the footer's length and the magic bytes `PAR1`."""

_WHOLE = 1 << 20
"""Maximum size in bytes of a file that is fetched with one request. Larger files need at least
three requests."""


class Chunk(NamedTuple):
    """A byte range of a file: a column chunk, or a range to request."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """Offset of the first byte after the range."""
        return self.offset + self.length


class RangedInput(io.RawIOBase):
    """Random access to a file with few, large requests.

    Chunks passed to `prefetch` are requested concurrently, and buffered until they are read. Other
    bytes are read on demand from `source`. Closing this input also closes `source`.
    """

    def __init__(
        self, source: IO[bytes], files: FileSystemClient, path: str, size: int | None
    ) -> None:
        self._source = source
        self._files = files
        self._path = path
        self._size = size
        self._position = 0
        self._whole: bytes | None = None
        self._footer: tuple[int, bytes] | None = None
        self._parts: list[Chunk] = []
        self._unread: list[int] = []
        self._buffered: dict[int, bytes] = {}
        self._arrived = 0
        self._arriving: CloseableIterator[bytes] | None = None

    def prefetch(self, groups: Iterable[Sequence[Chunk]]) -> None:
        """Start to fetch column chunks; each item of `groups` has the chunks of one row group."""
        if self._whole is not None:
            return
        for chunks in groups:
            for part, size in _parts(sorted(chunks)):
                if self._parts and part.offset < self._parts[-1].end:
                    continue  # row groups that overlap or aren't in order are read on demand
                self._parts.append(part)
                self._unread.append(size)
        if self._parts:
            ranges = (
                ByteRange(path=self._path, offset=part.offset, length=part.length)
                for part in self._parts
            )
            self._arriving = self._files.read_files(ranges)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        match whence:
            case io.SEEK_SET:
                self._position = max(0, offset)
            case io.SEEK_CUR:
                self._position = max(0, self._position + offset)
            case _:
                if self._size is None:
                    self._size = self._source.seek(0, io.SEEK_END)
                self._position = max(0, self._size + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        length = -1 if size is None else size
        data = self._read(self._position, length)
        self._position += len(data)
        return data

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self.read(-1)

    def close(self) -> None:
        if self.closed:
            return
        self._buffered.clear()
        try:
            if self._arriving is not None:
                self._arriving.close()
        finally:
            self._source.close()
            super().close()

    def _read(self, start: int, length: int) -> bytes:
        if self._size is not None and self._size <= _WHOLE and self._whole is None:
            self._source.seek(0)
            self._whole = self._source.read(self._size)
        if self._whole is not None:
            return self._whole[start:] if length < 0 else self._whole[start : start + length]
        if self._footer is not None and start >= self._footer[0] and length >= 0:
            first = start - self._footer[0]
            if first + length <= len(self._footer[1]):
                return self._footer[1][first : first + length]
        data = self._read_prefetched(start, length) if length > 0 else None
        if data is None:
            self._source.seek(start)
            data = self._source.read(length) if length >= 0 else self._source.read()
            if self._size is not None and start + len(data) >= self._size - _MAGIC:
                self._footer = self._with_footer(start, data)
        return data

    def _with_footer(self, start: int, data: bytes) -> tuple[int, bytes]:
        """Return the bytes to buffer after a read at the end of the file, as (offset, bytes).

        pyarrow reads the end of a file repeatedly, in growing ranges. If the new bytes adjoin or
        overlap the buffered bytes, the result joins both. Otherwise, the result is the new bytes.

        Args:
            start: offset of the new bytes in the file.
            data: the new bytes.
        """
        if self._footer is not None and start + len(data) >= self._footer[0] > start:
            return start, data[: self._footer[0] - start] + self._footer[1]
        return start, data

    def _read_prefetched(self, start: int, length: int) -> bytes | None:
        """Return prefetched bytes; None if they weren't prefetched, or have already been read."""
        first = bisect_right(self._parts, start, key=lambda part: part.offset) - 1
        if first < 0:
            return None
        pieces: list[bytes] = []
        end = start + length
        index, position = first, start
        while position < end:
            if index == len(self._parts) or self._parts[index].offset > position:
                return None
            part = self._parts[index]
            if part.end <= position or not self._pull(index):
                return None
            pieces.append(self._buffered[index][position - part.offset : end - part.offset])
            position = min(end, part.end)
            index += 1
        for done in range(first, index):
            part = self._parts[done]
            self._unread[done] -= min(end, part.end) - max(start, part.offset)
            if self._unread[done] <= 0:
                del self._buffered[done]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _pull(self, index: int) -> bool:
        """Wait until the range `_parts[index]` has arrived.

        Returns:
            Whether the bytes of the range are buffered. Bytes are released after they have been
            read, so the result is then False.
        """
        while self._arrived <= index and self._arriving is not None:
            data = next(self._arriving, None)
            if data is None:
                return False
            self._buffered[self._arrived] = bytes(data)
            self._arrived += 1
        return index in self._buffered


def _parts(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, int]]:
    """Yield the ranges to request, in ascending order, each with its number of chunk bytes.

    A range may include small gaps between chunks, to save requests. The number of chunk bytes
    doesn't include the bytes of these gaps.
    """
    runs: list[list[Chunk]] = [[chunks[0]]] if chunks else []
    for before, chunk in pairwise(chunks):
        if chunk.offset - before.end <= _GAP:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    for run in runs:
        for start in range(run[0].offset, run[-1].end, _PART):
            end = min(start + _PART, run[-1].end)
            chunk_bytes = sum(max(0, min(end, c.end) - max(start, c.offset)) for c in run)
            yield Chunk(start, end - start), chunk_bytes
