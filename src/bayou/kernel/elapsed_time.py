"""Elapsed time that includes time during which the machine was suspended."""

from __future__ import annotations

import time

__all__ = ["ElapsedTime"]


class ElapsedTime:
    """The time since this object was created.

    The longer time of two clocks: the monotonic clock stops while the machine is suspended, and
    the wall clock can be set back.
    """

    __slots__ = ("_monotonic", "_wall")

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    @property
    def seconds(self) -> float:
        """Seconds since creation. A change of the wall clock only makes it longer."""
        return max(time.monotonic() - self._monotonic, abs(time.time() - self._wall))
