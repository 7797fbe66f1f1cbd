"""What a command can print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from bayou.ingest.events import Reporter

if TYPE_CHECKING:
    from bayou.ingest.monitoring import Monitor

__all__ = ["Output", "Row", "UnreadError"]

Row = Mapping[str, Any]


class UnreadError(BrokenPipeError):
    """Whoever read the output has gone away; no other pipe's end, such as that of Spark's JVM."""


class Output(Protocol):
    """Results go to stdout; notices, progress and errors of the console form to stderr or stdout
    as suits people, of the JSON form as one object a line.
    """

    def step(self, text: str) -> None:
        """Something begins that takes a while."""
        ...

    def notice(self, text: str) -> None:
        """A side remark, one line."""
        ...

    def error(self, message: str, *, kind: str) -> None:
        """What went wrong and what to do; `kind` is the error's type."""
        ...

    def facts(self, title: str, facts: Mapping[str, Any], *, event: str) -> None:
        """A few named values; `event` is what machines know them by."""
        ...

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        """A table; all rows have the keys of the first. `empty` is said where there are none."""
        ...

    def text(self, title: str, text: str) -> None:
        """Something to read or to copy, printed as it stands."""
        ...

    def run(self) -> AbstractContextManager[Reporter]:
        """Progress of a pipeline that ends."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether `watch` shows a status that moves, for which the pipeline is to be watched."""
        ...

    def watch(self, monitor: Monitor) -> AbstractContextManager[Reporter]:
        """What a pipeline does that goes on until it is stopped."""
        ...
