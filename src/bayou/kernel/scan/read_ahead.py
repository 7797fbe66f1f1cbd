"""Items made by threads while the ones before them are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bayou.kernel.arrow.closeable import CloseableIterator, closeable

__all__ = ["mapped_ahead", "read_ahead"]

_T = TypeVar("_T")
_U = TypeVar("_U")


@closeable
def read_ahead(items: Iterable[_T], depth: int) -> Iterator[_T]:
    """The same items, in their order; up to `depth` of them wait.

    An error comes where its item would have. Closing the result closes `items`.
    """
    with (
        CloseableIterator(items, items) as source,
        ThreadPoolExecutor(1, "bayou-read-ahead") as pool,
    ):
        waiting: deque[Future[tuple[_T] | None]] = deque()

        def fetch() -> tuple[_T] | None:
            for item in source:
                return (item,)
            return None

        try:
            while True:
                while len(waiting) <= depth:
                    waiting.append(pool.submit(fetch))
                found = waiting.popleft().result()
                if found is None:
                    return
                yield found[0]
        finally:
            for future in waiting:
                future.cancel()


@closeable
def mapped_ahead(function: Callable[[_T], _U], items: Iterable[_T], threads: int) -> Iterator[_U]:
    """What the function makes of each item, in their order, by so many threads.

    Items are taken by the caller's thread. No more than one a thread waits, and a lone item needs
    no thread. An error comes where its item would have. Closing the result closes `items`.
    """
    with (
        CloseableIterator(items, items) as source,
        ThreadPoolExecutor(threads, "bayou-map-ahead") as pool,
    ):
        waiting: deque[Future[_U]] = deque()
        lone = True
        before: _T | None = None
        try:
            for item in source:
                if before is not None:
                    lone = False
                    waiting.append(pool.submit(function, before))
                before = item
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            if before is not None and lone:
                yield function(before)
            elif before is not None:
                waiting.append(pool.submit(function, before))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
