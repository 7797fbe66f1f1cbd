"""Which rows of the source have found a row of the target."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = ["MatchedSourceRows"]

pc: Any = pyarrow.compute


class MatchedSourceRows:
    """A growing set of row numbers; not for several threads.

    Args:
        count: rows of the source.
    """

    __slots__ = ("_matched",)

    def __init__(self, count: int) -> None:
        self._matched: Any = pa.repeat(pa.scalar(False), count)

    def add(self, rows: pa.Int64Array) -> None:
        """Some rows, in any order, as often as they like."""
        if len(rows) == 0:
            return
        places = pc.inverse_permutation(rows.unique(), max_index=len(self._matched) - 1)
        self._matched = pc.or_(self._matched, pc.is_valid(places))

    def includes(self, rows: pa.BooleanArray) -> bool:
        """Whether all rows for which a mask is true have been added."""
        missing = pc.and_not(rows, self._matched)
        return bool(missing.true_count == 0)

    def others(self) -> pa.Int64Array:
        """The rows that were never added, ascending."""
        found: pa.Int64Array = pc.indices_nonzero(pc.invert(self._matched)).cast(pa.int64())
        return found

    def rows(self) -> pa.Int64Array:
        """The rows that were added, ascending."""
        found: pa.Int64Array = pc.indices_nonzero(self._matched).cast(pa.int64())
        return found
