"""Rows of the source by their keys: a hash join whose build side stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = ["Pairs", "SourceKeys"]

pc: Any = pyarrow.compute

_INDEX = pa.int64()


class Pairs:
    """Rows of two sides that go together: row `targets[i]` of one, row `sources[i]` of the other.

    Both are int64 without nulls.
    """

    __slots__ = ("sources", "targets")

    def __init__(self, targets: pa.Int64Array, sources: pa.Int64Array) -> None:
        self.targets = targets
        self.sources = sources

    def __len__(self) -> int:
        return len(self.targets)

    def slice(self, offset: int, length: int) -> Pairs:
        """Some of them."""
        return Pairs(self.targets.slice(offset, length), self.sources.slice(offset, length))

    def filter(self, mask: pa.BooleanArray) -> Pairs:
        """Those for which the mask is true."""
        if mask.true_count == len(mask):
            return self
        return Pairs(self.targets.filter(mask), self.sources.filter(mask))


class SourceKeys:
    """Finds the source rows whose keys equal a target row's. Holds no state.

    Each distinct key has a number. Those of several columns are put together column by column, the
    pairs numbered anew each time, so that numbers stay small.

    Args:
        columns: the key columns, each of a type that both sides are compared in.
        null_safe: for each column, whether NULL equals NULL; no other column has one.
        rows: numbers of the source rows that the values belong to; not empty.
    """

    __slots__ = ("_levels", "_most", "_rows", "_rows_of")

    def __init__(
        self, columns: Sequence[pa.Array[Any]], null_safe: Sequence[bool], rows: pa.Int64Array
    ) -> None:
        self._levels: list[tuple[Any, Any]] = []
        numbers: Any = None
        for column, safe in zip(columns, null_safe, strict=True):
            values = _comparable(column).unique()
            assert safe or not values.null_count  # such rows match nothing, and aren't here
            found = pc.index_in(_comparable(column), value_set=values).cast(_INDEX)
            if numbers is None:
                self._levels.append((values, None))
                numbers = found
                continue
            joined = pc.add(pc.multiply(numbers, len(values)), found)
            known = joined.unique()
            self._levels.append((values, known))
            numbers = pc.index_in(joined, value_set=known).cast(_INDEX)
        order = pc.array_sort_indices(numbers)
        self._rows: Any = rows.take(order)
        ends = pc.run_end_encode(numbers.take(order), pa.int32()).run_ends
        self._rows_of: Any = None
        self._most = 1
        if len(ends) < len(rows):
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
            self._rows_of = pa.ListArray.from_arrays(offsets, self._rows)
            self._most = pc.max(pc.list_value_length(self._rows_of)).as_py()

    def pairs(self, columns: Sequence[pa.Array[Any]], most: int) -> Iterator[Pairs]:
        """All pairs with equal keys, in the order of the target's rows.

        Args:
            columns: the target's key columns, of the types of the source's.
            most: about how many pairs come together where keys have several source rows.
        """
        rows: Any = None
        numbers: Any = None
        for column, (values, known) in zip(columns, self._levels, strict=True):
            found = _comparable(column if rows is None else column.take(rows))
            found = pc.index_in(found, value_set=values)
            if known is not None:
                joined = pc.add(pc.multiply(numbers, len(values)), found.cast(_INDEX))
                found = pc.index_in(joined, value_set=known)
            if rows is None or found.null_count:
                picked = pc.indices_nonzero(found.is_valid()).cast(_INDEX)
                rows = picked if rows is None else rows.take(picked)
                found = found.drop_null()
            numbers = found.cast(_INDEX)
        if self._rows_of is None:
            yield Pairs(rows, self._rows.take(numbers))
            return
        step = max(1, most // self._most)
        for first in range(0, len(rows), step):
            lists = self._rows_of.take(numbers.slice(first, step))
            parents = pc.list_parent_indices(lists)
            yield Pairs(rows.slice(first, step).take(parents), lists.flatten())


def _comparable(values: Any) -> Any:
    """Hash tables tell -0.0 from 0.0; NaN is one value to them, as in Spark."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values
