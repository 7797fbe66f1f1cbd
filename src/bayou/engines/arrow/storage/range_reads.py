"""Reads of byte ranges of remote files: a seekable input, and concurrent reads of many ranges."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange


class RangeInput(io.RawIOBase):
    """A seekable file of known size; each read requests one byte range.

    Seeking past the end of the file is allowed.
    """

    def __init__(self, size: int) -> None:
        self._size, self._position = size, 0

    @abstractmethod
    def read_range(self, start: int, end: int) -> bytes:
        """Read the bytes from `start` to `end` (exclusive); `end` is greater than `start`."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        start = self._position
        end = self._size if size is None or size < 0 else min(self._size, start + size)
        if end <= start:
            return b""
        data = self.read_range(start, end)
        self._position = start + len(data)
        return data

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self.read(-1)


@closeable
def read_ranges(
    read: Callable[[ByteRange], bytes], ranges: Iterable[ByteRange], concurrency: int
) -> Iterator[bytes]:
    """Read byte ranges in threads; yield their bytes in the order of `ranges`.

    Args:
        read: function that reads one range.
        concurrency: maximum number of ranges that are read at the same time.
    """
    pending = iter(ranges)
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="bayou-read")
    try:
        in_flight: deque[Future[bytes]] = deque(
            pool.submit(read, r) for r in islice(pending, concurrency)
        )
        while in_flight:
            data = in_flight.popleft().result()
            in_flight.extend(pool.submit(read, r) for r in islice(pending, 1))
            yield data
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
