"""Reads several iterators in threads with bounded memory, and groups small files."""

from __future__ import annotations

import atexit
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from bayou.kernel import CloseableIterator, closeable

_T = TypeVar("_T")

_MAX_THREADS = 16


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def reader_threads(table: str) -> int:
    """Return how many threads read a table's files.

    A local table has one thread per core. A table in a remote store has two threads per core,
    because a thread that waits for a response doesn't use its core. The maximum is `_MAX_THREADS`.
    """
    return min((2 if "://" in table else 1) * available_cores(), _MAX_THREADS)


@closeable
def interleaved(
    sources: Iterator[Callable[[], CloseableIterator[_T]]],
    *,
    workers: int,
    ahead: int,
    in_order: bool = False,
) -> Iterator[tuple[int, _T]]:
    """Read iterators in threads; yield pairs of a source's index and an item of this source.

    Items of one source keep their order. At most `workers` sources are open at a time.

    Args:
        sources: functions that open an iterator. Each function is called in the thread that reads
            its iterator.
        ahead: maximum number of buffered items: per source if `in_order` is True, else in total.
        in_order: whether to yield the items in the order of the sources.
    """
    first = list(islice(sources, 2))
    if len(first) < 2 or workers < 2:
        yield from _sequential(first, sources)
        return
    pool = _ReaderPool(first, sources, ahead, in_order=in_order)
    threads = [
        threading.Thread(target=pool.read_sources, name=f"bayou-read-{i}", daemon=True)
        for i in range(workers)
    ]

    def stop() -> None:
        pool.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()

    # Python aborts the process if a daemon thread returns from pyarrow during the exit.
    atexit.register(stop)
    try:
        for thread in threads:
            thread.start()
        yield from pool.items()
    finally:
        atexit.unregister(stop)
        stop()


def _sequential(
    first: list[Callable[[], CloseableIterator[_T]]],
    rest: Iterator[Callable[[], CloseableIterator[_T]]],
) -> Iterator[tuple[int, _T]]:
    number = 0
    while True:
        source = first.pop(0) if first else next(rest, None)
        if source is None:
            return
        with source() as items:
            for item in items:
                yield number, item
        number += 1


class _ReaderPool(Generic[_T]):
    """State that the reader threads share: remaining sources, item queues, the first error."""

    def __init__(
        self,
        first: list[Callable[[], CloseableIterator[_T]]],
        rest: Iterator[Callable[[], CloseableIterator[_T]]],
        ahead: int,
        *,
        in_order: bool,
    ) -> None:
        self._first = first
        self._rest = rest
        self._ahead = ahead
        self._in_order = in_order
        self._taking = threading.Lock()
        self._taken = 0
        self._changed = threading.Condition()
        # One queue for each source if `in_order` is True, otherwise one queue for all sources.
        self._queues: defaultdict[int, deque[tuple[int, _T]]] = defaultdict(deque)
        self._finished: set[int] = set()
        self._error: BaseException | None = None
        self._stopped = False
        self._exhausted = False
        self._reading = 0

    def read_sources(self) -> None:
        """Read sources until none is left or the pool is stopped. All threads run this method."""
        try:
            while (taken := self._take()) is not None:
                number, source = taken
                try:
                    with source() as items:
                        for item in items:
                            if not self._put(number, item):
                                return
                finally:
                    with self._changed:
                        self._reading -= 1
                        self._finished.add(number)
                        self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  # `items` raises it
            with self._changed:
                self._error = self._error or error
                self._stopped = True
                self._changed.notify_all()

    def items(self) -> Iterator[tuple[int, _T]]:
        """Yield the items of all sources. The first error of a reader thread is raised immediately.

        Raises:
            RuntimeError: the process is ending, so the reader threads were stopped. Without this
                error, a consumer such as a thread of DuckDB would wait forever for the next item.
        """
        queue = 0
        while True:
            with self._changed:
                while not (
                    self._error or self._stopped or self._queues[queue] or self._is_complete(queue)
                ):
                    self._changed.wait()
                if self._error is not None:
                    raise self._error
                if self._stopped:
                    raise RuntimeError("The process is ending, so no more rows are read.")
                if self._queues[queue]:
                    item = self._queues[queue].popleft()
                    self._changed.notify_all()
                elif self._is_done() and (not self._in_order or queue >= self._taken - 1):
                    return
                else:
                    del self._queues[queue]
                    queue += 1
                    continue
            yield item

    def stop(self) -> None:
        """End all threads after their current items."""
        with self._changed:
            self._stopped = True
            self._queues.clear()
            self._changed.notify_all()

    def _is_complete(self, queue: int) -> bool:
        return self._is_done() or (self._in_order and queue in self._finished)

    def _is_done(self) -> bool:
        return self._exhausted and self._reading == 0

    def _take(self) -> tuple[int, Callable[[], CloseableIterator[_T]]] | None:
        with self._taking:
            with self._changed:
                if self._stopped or self._exhausted:
                    return None
                # Incremented first, because `_is_done` must be false until the source is read.
                self._reading += 1
            source = None
            try:
                source = self._first.pop(0) if self._first else next(self._rest, None)
            finally:
                if source is None:
                    with self._changed:
                        self._exhausted = True
                        self._reading -= 1
                        self._changed.notify_all()
            if source is None:
                return None
            number = self._taken
            self._taken += 1
            return number, source

    def _put(self, number: int, item: _T) -> bool:
        """Add an item to its queue, and wait while the queue is full.

        Returns False, without adding the item, if the pool is stopped.

        Args:
            number: index of the source that yielded the item.
        """
        queue = number if self._in_order else 0
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._queues[queue]) < self._ahead)
            if self._stopped:
                return False
            self._queues[queue].append((number, item))
            self._changed.notify_all()
            return True


_File = TypeVar("_File")

_SMALL_FILE_BYTES = 1 << 20
"""Maximum size in bytes of files that are grouped."""

_MAX_GROUP_FILES = 64


@closeable
def grouped_files(
    files: Iterable[_File], workers: int, size: Callable[[_File], int]
) -> Iterator[list[_File]]:
    """Yield the files in order: small consecutive files in groups, large files separately.

    The first groups have few files, because all workers should start early. Closing the result
    closes `files`.

    Args:
        workers: number of threads that read the groups.
        size: function that returns the size of a file in bytes.
    """
    with CloseableIterator(files) as source:
        yield from _grouped(source, workers, size)


def _grouped(
    files: Iterable[_File], workers: int, size: Callable[[_File], int]
) -> Iterator[list[_File]]:
    count = 0
    group: list[_File] = []
    for file in files:
        large = size(file) > _SMALL_FILE_BYTES
        if group and (large or len(group) > min(count // workers, _MAX_GROUP_FILES - 1)):
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
