"""Closeable iterators, such as the results of scans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, Self, TypeVar

_T_co = TypeVar("_T_co", covariant=True)
_T = TypeVar("_T")
_U = TypeVar("_U")
_P = ParamSpec("_P")


class CloseableIterator(Iterator[_T_co]):
    """An iterator that releases its resources on close: open files, pending requests, threads.

    Resources are also released at the end of the iteration, after an error, and on garbage
    collection. To stop early, call `close` or use a `with` block:

        with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
            first = next(files)

    Not thread-safe.

    Args:
        items: the iterable. Closing this object calls the `close` method of the iterable's
            iterator if there is one.
        sources: iterators that `items` reads from. They are closed in order, after `items`. Pass
            them if `items` is a generator: closing a generator that hasn't started doesn't run
            its `finally` blocks.

    Examples:
        >>> with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        ...     print(sum(file.size for file in files))
    """

    __slots__ = ("_iterator", "_sources")

    def __init__(self, items: Iterable[_T_co], *sources: object) -> None:
        self._iterator: Iterator[_T_co] | None = iter(items)
        self._sources = sources

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _T_co:
        if self._iterator is None:
            raise StopIteration
        return next(self._iterator)

    def close(self) -> None:
        """Release the resources and end the iteration. Closing again has no effect."""
        iterator, self._iterator = self._iterator, None
        sources, self._sources = self._sources, ()
        _close_all([iterator, *sources])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map(self, function: Callable[[_T_co], _U]) -> CloseableIterator[_U]:
        """Apply a function to each item; closing the result closes this iterator."""
        return CloseableIterator(map(function, self), self)

    def filter(self, predicate: Callable[[_T_co], object]) -> CloseableIterator[_T_co]:
        """Keep the items that match the predicate; closing the result closes this iterator."""
        return CloseableIterator(filter(predicate, self), self)

    def flat_map(self, function: Callable[[_T_co], Iterable[_U]]) -> CloseableIterator[_U]:
        """Call a function with each item, and concatenate the iterables that it returns.

        Closing the result closes the current iterable and this iterator.
        """
        return CloseableIterator(_flattened(self, function), self)


def closeable(function: Callable[_P, Iterable[_T]]) -> Callable[_P, CloseableIterator[_T]]:
    """Decorator: make a generator function return a `CloseableIterator`.

    Examples:
        >>> @closeable
        ... def numbers():
        ...     yield from range(3)
        >>> with numbers() as items:
        ...     print(next(items))
    """

    @functools.wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> CloseableIterator[_T]:
        return CloseableIterator(function(*args, **kwargs))

    return wrapped


def _flattened(items: Iterable[_T], function: Callable[[_T], Iterable[_U]]) -> Iterator[_U]:
    for item in items:
        with CloseableIterator(function(item)) as inner:
            yield from inner


def _close_all(resources: list[object]) -> None:
    """Close each object that has a method `close`, even if closing an earlier object fails."""
    if not resources:
        return
    try:
        close = getattr(resources[0], "close", None)
        if close is not None:
            close()
    finally:
        _close_all(resources[1:])
