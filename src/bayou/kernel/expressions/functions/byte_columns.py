"""Words out of columns of bytes, for hashes that go through all rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = ["ByteColumn", "rotated"]

pc: Any = pyarrow.compute


class ByteColumn:
    """Texts or bytes without nulls, the longest first, so that rows with a k-th word come first.

    Attributes:
        order: where each row was before, int64.
        lengths: in bytes, int64.
    """

    def __init__(self, values: Any) -> None:
        lengths = pc.binary_length(values).cast(pa.int64())
        self.order = pc.array_sort_indices(lengths, order="descending").cast(pa.int64())
        self.lengths = lengths.take(self.order)
        offsets, data = values.buffers()[1:]
        starts = pa.Array.from_buffers(
            pa.int32(), len(values) + 1, [None, offsets], offset=values.offset
        )
        self._starts = starts.slice(0, len(values)).cast(pa.int64()).take(self.order)
        size = 0 if data is None else data.size
        self._bytes: Any = pa.Array.from_buffers(pa.uint8(), size, [None, data])

    def steps(self, words: Any) -> Iterator[tuple[int, int]]:
        """The number of each word that some row has, and how many rows have it: the first ones."""
        runs = pc.run_end_encode(words)
        counts, ends = runs.values.to_pylist(), runs.run_ends.to_pylist()
        number = 0
        for count, end in zip(reversed(counts), reversed(ends), strict=True):
            for at in range(number, count):
                yield at, end
            number = max(number, count)

    def word(self, rows: int, offset: int, width: int) -> Any:
        """The first rows' words at an offset, little-endian, uint64."""
        starts = self._starts.slice(0, rows)
        return self._read(pc.add(starts, offset), width)

    def word_at(self, offsets: Any, width: int, there: Any) -> Any:
        """All rows' words at an offset each; 0 where `there` is false."""
        places = pc.if_else(there, pc.add(self._starts, offsets), pa.scalar(None, pa.int64()))
        return pc.fill_null(self._read(places, width), 0)

    @staticmethod
    def replaced(column: Any, rows: int, values: Any) -> Any:
        """A column with other values in its first rows."""
        return pa.concat_arrays([values, column.slice(rows)])

    def _read(self, places: Any, width: int) -> Any:
        word: Any = None
        for i in range(width):
            byte = self._bytes.take(pc.add(places, i)).cast(pa.uint64())
            byte = pc.shift_left(byte, pa.scalar(8 * i, pa.uint64()))
            word = byte if word is None else pc.bit_wise_or(word, byte)
        return word


def rotated(values: Any, bits: int) -> Any:
    """Unsigned numbers with their bits moved to the left, around the end."""
    width: int = values.type.bit_width
    left = pc.shift_left(values, pa.scalar(bits, values.type))
    right = pc.shift_right(values, pa.scalar(width - bits, values.type))
    return pc.bit_wise_or(left, right)
