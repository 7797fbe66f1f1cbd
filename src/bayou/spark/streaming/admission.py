"""How much a micro-batch takes in."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = ["Admission"]

pc: Any = pyarrow.compute

_NO_LIMIT = 2**62


class Admission:
    """Room for files and bytes in one micro-batch; it shrinks as files come in.

    A file comes in if there is room before it, so that one always does, and the last may overshoot.
    Files that belong together come in together: if all of them fit, or if they are the first.
    """

    def __init__(self, files: int | None, size: int | None) -> None:
        self._files = _NO_LIMIT if files is None else files
        self._size = _NO_LIMIT if size is None else size
        self._begun = False

    @property
    def has_room(self) -> bool:
        """Whether another file may come in."""
        return self._files > 0 and self._size > 0

    def begin(self) -> None:
        """A commit has been looked at: what comes after it isn't the first any more."""
        self._begun = True

    def admit(self, sizes: pa.Array[Any]) -> int:
        """How many of the next files, whose sizes these are, come in."""
        if len(sizes) == 0:
            return 0
        self._begun = True
        count = max(0, min(len(sizes), self._files))
        behind = pc.cumulative_sum(sizes.slice(0, count))
        if self._size < _NO_LIMIT and count:
            before = pc.subtract(behind, sizes.slice(0, count))
            count = pc.sum(pc.less(before, self._size)).as_py()
        if count:
            self._files -= count
            self._size -= behind[count - 1].as_py()
        return count

    def admit_together(self, count: int, size: int) -> bool:
        """Whether `count` places of `size` bytes in all come in; refused, there is no room left."""
        if count == 0:
            return True
        fits = not self._begun or (self._files >= count and self._size >= size)
        self._begun = True
        self._files -= count
        self._size -= size
        return fits
