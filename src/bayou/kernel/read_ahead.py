"""Items made by a thread while the ones before them are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bayou.kernel.closeable import CloseableIterator, closeable

__all__ = ["read_ahead"]

_T = TypeVar("_T")


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
