"""Time since a moment, for a process that may have been suspended meanwhile."""

from __future__ import annotations

import time

__all__ = ["Age"]


class Age:
    """Runs from the moment in which it is made.

    The monotonic clock stands still while a machine is suspended, and the wall clock can be set
    back. Of both the longer time counts.
    """

    __slots__ = ("_monotonic", "_wall")

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    @property
    def seconds(self) -> float:
        """Seconds since then. A wall clock that was set makes them more, never less."""
        return max(time.monotonic() - self._monotonic, abs(time.time() - self._wall))
