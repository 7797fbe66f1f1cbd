"""How long ago something happened, even if the machine was suspended in between."""

from __future__ import annotations

import time

__all__ = ["Age"]


class Age:
    """The time since this object was created.

    It asks two clocks and takes the longer time: the monotonic clock stands still while a machine
    is suspended, and the wall clock can be set back.
    """

    __slots__ = ("_monotonic", "_wall")

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    @property
    def seconds(self) -> float:
        """Seconds since creation. Setting the wall clock makes it longer, never shorter."""
        return max(time.monotonic() - self._monotonic, abs(time.time() - self._wall))
