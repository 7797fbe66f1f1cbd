"""Iterators whose items are read or computed ahead, in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bayou.kernel.arrow.closeable import CloseableIterator, closeable

_T = TypeVar("_T")
_U = TypeVar("_U")


@closeable
def read_ahead(items: Iterable[_T], depth: int) -> Iterator[_T]:
    """Iterate items in order, while a thread reads up to `depth` items ahead.

    An exception of `items` is raised when the caller requests the item. Closing the result closes
    `items`.
    """
    with (
        CloseableIterator(items, items) as source,
        ThreadPoolExecutor(1, "bayou-read-ahead") as pool,
    ):
        pending: deque[Future[tuple[_T] | None]] = deque()

        def fetch() -> tuple[_T] | None:
            for item in source:
                return (item,)
            return None

        try:
            while True:
                while len(pending) <= depth:
                    pending.append(pool.submit(fetch))
                fetched = pending.popleft().result()
                if fetched is None:
                    return
                yield fetched[0]
        finally:
            for future in pending:
                future.cancel()


@closeable
def map_ahead(function: Callable[[_T], _U], items: Iterable[_T], threads: int) -> Iterator[_U]:
    """Apply a function to items in a thread pool and return the results in order.

    The caller's thread iterates `items`. At most one result per thread is buffered. An exception of
    the function is raised when the caller requests the item's result. Closing the result closes
    `items`.
    """
    with (
        CloseableIterator(items, items) as source,
        ThreadPoolExecutor(threads, "bayou-map-ahead") as pool,
    ):
        pending: deque[Future[_U]] = deque()
        is_single = True
        previous: _T | None = None
        try:
            for item in source:
                if previous is not None:
                    is_single = False
                    pending.append(pool.submit(function, previous))
                previous = item
                if len(pending) > threads:
                    yield pending.popleft().result()
            if previous is not None and is_single:
                yield function(previous)
            elif previous is not None:
                pending.append(pool.submit(function, previous))
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
