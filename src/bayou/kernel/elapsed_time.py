"""Elapsed time that includes time during which the machine was suspended."""

from __future__ import annotations

import time


class ElapsedTime:
    """The time since this object was created, including time in which the machine was suspended.

    Two clocks measure the time, and the longer time is used. The monotonic clock may stop while the
    machine is suspended. The wall clock doesn't stop, but it can be changed.
    """

    __slots__ = ("_monotonic", "_wall")

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    @property
    def seconds(self) -> float:
        """Number of seconds since this object was created.

        A change of the wall clock can make this number too high. The number is too low only if the
        machine was suspended and the wall clock was also set back.
        """
        return max(time.monotonic() - self._monotonic, abs(time.time() - self._wall))
