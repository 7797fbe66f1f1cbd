"""Elapsed time that includes time during which the machine was suspended."""

from __future__ import annotations

import time


class ElapsedTime:
    """The time since this object was created.

    It is measured with two clocks, and the longer time counts: the monotonic clock may stop while
    the machine is suspended, and the wall clock can be set back.
    """

    __slots__ = ("_monotonic", "_wall")

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    @property
    def seconds(self) -> float:
        """Number of seconds since this object was created.

        It is too high if the wall clock was set forward or far back. It is too low only if the
        wall clock was set back and the monotonic clock stopped while the machine was suspended.
        """
        return max(time.monotonic() - self._monotonic, abs(time.time() - self._wall))
