"""Iterators that can be closed: what every handler and every scan gives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

__all__ = ["CloseableIterator", "closeable"]

_T_co = TypeVar("_T_co", covariant=True)
_T = TypeVar("_T")
_U = TypeVar("_U")
_P = ParamSpec("_P")


class CloseableIterator(Iterator[_T_co]):
    """An iterator that gives back what it holds: open files, requests under way, threads.

    It does so by itself at its end, at an error, and when nobody refers to it any more. Who stops
    early says when, by `close` or a `with` block:

        with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
            first = next(files)

    Not for several threads at once.

    Args:
        items: what to iterate over. Where it can be closed (a generator, a `CloseableIterator`), it
            is closed with this one.
        sources: what is closed after it, in this order: iterators that `items` takes from, which a
            generator that hasn't begun wouldn't close.
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
        """Give back what is held; there is no next item then. Closing again does nothing."""
        iterator, self._iterator = self._iterator, None
        sources, self._sources = self._sources, ()
        _close_all([iterator, *sources])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def map(self, function: Callable[[_T_co], _U]) -> CloseableIterator[_U]:
        """What the function makes of each item; closing the result closes this one."""
        return CloseableIterator(map(function, self), self)

    def filter(self, predicate: Callable[[_T_co], object]) -> CloseableIterator[_T_co]:
        """The items for which the predicate is true; closing the result closes this one."""
        return CloseableIterator(filter(predicate, self), self)

    def flat_map(self, function: Callable[[_T_co], Iterable[_U]]) -> CloseableIterator[_U]:
        """The items of what the function makes of each item, one after another.

        Closing the result closes what is being iterated over, and this one.
        """
        return CloseableIterator(_flattened(self, function), self)


def closeable(function: Callable[_P, Iterable[_T]]) -> Callable[_P, CloseableIterator[_T]]:
    """Decorator: what a generator function gives is a `CloseableIterator`."""

    @functools.wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> CloseableIterator[_T]:
        return CloseableIterator(function(*args, **kwargs))

    return wrapped


def _flattened(items: Iterable[_T], function: Callable[[_T], Iterable[_U]]) -> Iterator[_U]:
    for item in items:
        with CloseableIterator(function(item)) as inner:
            yield from inner


def _close_all(held: list[object]) -> None:
    """Close each that can be closed, also where one before it fails."""
    if not held:
        return
    try:
        close = getattr(held[0], "close", None)
        if close is not None:
            close()
    finally:
        _close_all(held[1:])
