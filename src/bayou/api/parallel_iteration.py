"""Several iterators read at once, by threads, with bounded memory.

Many small files read with the calls, threads and batches of few.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

import pyarrow as pa

from bayou.kernel import CloseableIterator, closeable

__all__ = ["available_cores", "groups", "interleaved", "joined"]


_T = TypeVar("_T")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@closeable
def interleaved(
    sources: Iterator[Callable[[], CloseableIterator[_T]]],
    *,
    workers: int,
    ahead: int,
    in_order: bool = False,
) -> Iterator[tuple[int, _T]]:
    """The items of all sources, each with the number of its source, as they come.

    The items of one source keep their order; at most `workers` sources are open at a time. One
    source alone is read in the caller's thread.

    Args:
        sources: called in a thread of its own each; taken one after another as threads get free,
            never by two threads at once.
        workers: number of threads.
        ahead: most items that wait for the caller.
        in_order: give the items of a source after those of all sources before it; then `ahead` is
            the most items of one source that wait.

    Raises:
        Exception: the first that a source raises; the others are closed then.
    """
    first = list(islice(sources, 2))
    if len(first) < 2 or workers < 2:
        yield from _one_after_another(first, sources)
        return
    crew = _Crew(first, sources, ahead, in_order=in_order)
    threads = [
        threading.Thread(target=crew.work, name=f"bayou-read-{i}", daemon=True)
        for i in range(workers)
    ]
    try:
        for thread in threads:
            thread.start()
        yield from crew.items()
    finally:
        crew.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _one_after_another(
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


class _Crew(Generic[_T]):
    """What the threads share: the sources to read, the items read, and whether to go on."""

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
        # One queue for each source in order, else one for all.
        self._queues: defaultdict[int, deque[tuple[int, _T]]] = defaultdict(deque)
        self._finished: set[int] = set()
        self._error: BaseException | None = None
        self._stopped = False
        self._exhausted = False
        self._reading = 0

    def work(self) -> None:
        """Read source after source, until there are none or somebody says stop."""
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
        except BaseException as error:  # noqa: BLE001  # it is raised where the items are wanted
            with self._changed:
                self._error = self._error or error
                self._stopped = True
                self._changed.notify_all()

    def items(self) -> Iterator[tuple[int, _T]]:
        """What is read, until all of it is; the error that a thread met comes at once."""
        turn = 0
        while True:
            with self._changed:
                while not (self._error or self._queues[turn] or self._is_over(turn)):
                    self._changed.wait()
                if self._error is not None:
                    raise self._error
                if self._queues[turn]:
                    found = self._queues[turn].popleft()
                    self._changed.notify_all()
                elif self._is_done() and (not self._in_order or turn >= self._taken - 1):
                    return
                else:
                    del self._queues[turn]
                    turn += 1
                    continue
            yield found

    def stop(self) -> None:
        """Let every thread come to its end."""
        with self._changed:
            self._stopped = True
            self._queues.clear()
            self._changed.notify_all()

    def _is_over(self, turn: int) -> bool:
        """Whether nothing more comes into a queue."""
        return self._is_done() or (self._in_order and turn in self._finished)

    def _is_done(self) -> bool:
        return self._exhausted and self._reading == 0

    def _take(self) -> tuple[int, Callable[[], CloseableIterator[_T]]] | None:
        with self._taking:
            with self._changed:
                if self._stopped or self._exhausted:
                    return None
                # Before the source is known: meanwhile nobody may think that all is read.
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
        """Hand over an item when there is room; False where nobody wants it any more."""
        turn = number if self._in_order else 0
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._queues[turn]) < self._ahead)
            if self._stopped:
                return False
            self._queues[turn].append((number, item))
            self._changed.notify_all()
            return True


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
