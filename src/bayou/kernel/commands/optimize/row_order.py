"""Sorting of rows along a space-filling curve (Z-order or Hilbert), in bounded memory.

Points that are close on the curve are close in every dimension. Files that are cut along the curve
therefore have narrow bounds for all ordering columns.

A first pass over the ordering columns draws a sample and counts the rows. The sample divides the
values of each column into ranges of about equal row counts. A row has one coordinate for each
column: the index of the range that contains the row's value. The coordinates determine the row's
position on the curve. The positions of the sampled rows divide the curve into buckets. A second
pass adds each row to its bucket, and spills buckets to the local disk if needed. Then the buckets
are sorted one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.read_ahead import map_ahead
from bayou.kernel.commands.optimize.files_in_order import read_in_order
from bayou.kernel.commands.optimize.row_buckets import GroupedRows, RowBuckets, group_rows
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ScanState
from bayou.protocol.schema import StructType

Curve: TypeAlias = Literal["zorder", "hilbert"]

_MAX_BITS = 10
"""Maximum number of bits of a coordinate: 1,024 ranges, about as many as in delta-spark."""

_POSITION_BITS = 63
"""Maximum number of bits of a position, which is an int64."""

_Numbers: TypeAlias = Any
"""A `pa.UInt64Array`."""


def bits_per_dimension(dimensions: int) -> int:
    """Return the maximum number of bits of a coordinate, for a number of dimensions.

    The coordinates of all dimensions together must fit into an int64.
    """
    bits = min(_MAX_BITS, _POSITION_BITS // dimensions)
    if bits == 0:
        raise ValueError(
            f"Rows can't be ordered by {dimensions} columns: the maximum is {_POSITION_BITS}. "
            "Choose fewer columns."
        )
    return bits


def curve_positions(curve: Curve, coordinates: Sequence[pa.Array[Any]], bits: int) -> pa.Array[Any]:
    """Compute the positions (int64) of points on a space-filling curve.

    Args:
        coordinates: for each dimension, the coordinates of all points: from 0 to 2**bits - 1,
            without nulls.
        bits: number of bits of each coordinate. The bits of all dimensions together must fit into
            an int64.
    """
    points: list[_Numbers] = [c.cast(pa.uint64()) for c in coordinates]
    if curve == "hilbert" and len(points) > 1:
        points = _hilbert_transpose(points, bits)
    positions: pa.Array[Any] = _interleave(points, bits)
    return positions


def _interleave(points: Sequence[_Numbers], bits: int) -> Any:
    """Interleave the bits of all dimensions, highest bits first."""
    positions: Any = None
    for number, point in enumerate(points):
        spread = _spread_bits(bits, len(points), len(points) - 1 - number).take(point)
        positions = spread if positions is None else pc.bit_wise_or(positions, spread)
    return positions


@lru_cache
def _spread_bits(bits: int, distance: int, first: int) -> pa.Array[Any]:
    """Return an array that maps each number `n` to a number with the bits of `n` spread out.

    In item `n` of the array, the bits of `n` are at the bit positions `first`, `first + distance`,
    `first + 2 * distance`, and so on.

    Args:
        bits: number of bits of `n`. The array has `2**bits` items.
        first: position of the lowest bit; the positions below it are zero.
    """
    shifts = [distance * bit + first for bit in range(bits)]
    return pa.array(
        [
            sum((n >> bit & 1) << shift for bit, shift in enumerate(shifts))
            for n in range(1 << bits)
        ],
        pa.int64(),
    )


def _hilbert_transpose(points: list[_Numbers], bits: int) -> list[_Numbers]:
    """Transform points so that their interleaved bits are their positions on the Hilbert curve.

    Each item of `points` contains the coordinates of one dimension. The algorithm is from
    J. Skilling, Programming the Hilbert curve, AIP Conference Proceedings 707 (2004).
    """
    points = list(points)
    last = len(points) - 1
    for bit in range(bits - 1, 0, -1):
        lower = _number((1 << bit) - 1)
        for i in range(len(points)):
            is_set = pc.not_equal(pc.bit_wise_and(points[i], _number(1 << bit)), _number(0))
            if i == 0:
                points[0] = pc.if_else(is_set, pc.bit_wise_xor(points[0], lower), points[0])
                continue
            swap = pc.bit_wise_and(pc.bit_wise_xor(points[0], points[i]), lower)
            points[i] = pc.if_else(is_set, points[i], pc.bit_wise_xor(points[i], swap))
            points[0] = pc.bit_wise_xor(points[0], pc.if_else(is_set, lower, swap))
    for i in range(1, len(points)):
        points[i] = pc.bit_wise_xor(points[i], points[i - 1])
    mask = pc.bit_wise_and(points[last], _number(0))
    for bit in range(bits - 1, 0, -1):
        is_set = pc.not_equal(pc.bit_wise_and(points[last], _number(1 << bit)), _number(0))
        flipped = pc.bit_wise_xor(mask, _number((1 << bit) - 1))
        mask = pc.if_else(is_set, flipped, mask)
    return [pc.bit_wise_xor(point, mask) for point in points]


def _number(value: int) -> pa.Scalar[Any]:
    return pa.scalar(value, pa.uint64())


_SAMPLE_ROWS = 100_000
_MAX_BUCKETS = 512
_BATCH_ROWS = 65_536
_SORTED_BYTES = 1 << 30


class RowOrder(msgspec.Struct, frozen=True, array_like=True):
    """The order of rows: a space-filling curve, and the logical paths of the ordering columns."""

    curve: Curve
    columns: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPositions:
    """Computes the positions of rows on a space-filling curve, from value ranges of a sample.

    Attributes:
        bounds: for each column, the ascending lower bounds of its ranges, without the bound of the
            first range.
        sampled: ascending positions of the sampled rows.
        num_rows: total number of rows in the files to sort.
    """

    order: RowOrder
    bounds: tuple[pa.Array[Any], ...]
    sampled: pa.Array[Any]
    num_rows: int

    def of(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """Return the position (int64) of each row; the batch must have the ordering columns."""
        values = [_values(batch, path) for path in self.order.columns]
        numbers = [_range_numbers(b, v) for b, v in zip(self.bounds, values, strict=True)]
        return curve_positions(self.order.curve, numbers, bits_per_dimension(len(numbers)))

    def cut_points(self, parts: int) -> pa.Array[Any]:
        """Split the curve into parts with about equal row counts.

        Returns the positions at which the second part and all later parts start, ascending.
        """
        return _quantiles(self.sampled, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSample:
    """A uniform random sample of the ordering columns; can be pickled.

    Attributes:
        rows: sampled rows with one column for each ordering column; None if there are no rows.
        fraction: number of rows in `rows`, divided by `num_rows` (approximate).
        num_rows: total number of rows in the sampled files.
    """

    rows: pa.RecordBatch | None
    fraction: float
    num_rows: int

    @classmethod
    def positions(cls, order: RowOrder, samples: Sequence[RowSample]) -> RowPositions:
        fraction = min((s.fraction for s in samples), default=1.0)
        thinned = [s._thinned(fraction) for s in samples]
        batches = [rows for rows in thinned if rows is not None and rows.num_rows]
        if not batches:
            return RowPositions(
                order=order, bounds=(), sampled=pa.array([], pa.int64()), num_rows=0
            )
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        bits = bits_per_dimension(len(order.columns))
        bounds = tuple(_bounds(column, 1 << bits) for column in rows.columns)
        numbers = [_range_numbers(b, v) for b, v in zip(bounds, rows.columns, strict=True)]
        positions = curve_positions(order.curve, numbers, bits)
        return RowPositions(
            order=order,
            bounds=bounds,
            sampled=positions.take(pc.sort_indices(positions)),
            num_rows=sum(s.num_rows for s in samples),
        )

    def _thinned(self, fraction: float) -> pa.RecordBatch | None:
        """Reduce `rows` at random to about `fraction` of the files' rows.

        Rows are never added: if `rows` is a smaller fraction, all of `rows` is returned. The result
        is None if there are no rows.
        """
        if self.rows is None or fraction >= self.fraction:
            return self.rows
        drawn = pc.random(self.rows.num_rows, initializer=self.num_rows)
        return self.rows.filter(pc.less(drawn, fraction / self.fraction))


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The sorted rows of some files, as a stream that can be read only once."""

    num_rows: int
    _batches: CloseableIterator[pa.RecordBatch]

    def cut(self, parts: int) -> Iterator[CloseableIterator[pa.RecordBatch]]:
        """Cut the rows into parts with about equal row counts, and yield the rows of each part.

        The caller must read each part to its end before it requests the next part.
        """
        length = max(1, -(-self.num_rows // max(1, parts)))
        cutter = _Cutter(self._batches)
        while cutter.has_more():
            yield CloseableIterator(cutter.next_rows(length))


def row_positions(
    engine: Engine, state: ScanState, files: Sequence[ScanFile], order: RowOrder
) -> RowPositions:
    """Compute the `RowPositions` of some files from a sample of their ordering columns."""
    return RowSample.positions(order, [sampled_rows(engine, state, files, order)])


def sampled_rows(
    engine: Engine, state: ScanState, files: Sequence[ScanFile], order: RowOrder
) -> RowSample:
    """Return a random sample of the values in the ordering columns of some files."""
    names = dict.fromkeys(path[0] for path in order.columns)
    narrow = replace(
        state,
        logical_schema=StructType(tuple(f for f in state.logical_schema if f.name in names)),
        metadata_columns=(),
    )
    sample = _Sample()
    with read_in_order(engine, narrow, files) as batches:
        for batch in batches:
            columns = [_values(batch, path) for path in order.columns]
            sample.add(pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))]))
    return RowSample(rows=sample.rows(), fraction=sample.fraction, num_rows=sample.num_rows)


@contextmanager
def ordered_rows(
    engine: Engine,
    state: ScanState,
    files: Sequence[ScanFile],
    order: RowOrder,
    *,
    memory_bytes: int,
) -> Iterator[OrderedRows]:
    """Sort the rows of some files; rows that exceed `memory_bytes` are spilled to local disk."""
    positions = row_positions(engine, state, files, order)
    with (
        read_in_order(engine, state, files) as batches,
        RowBuckets(memory_bytes) as buckets,
        _sorted(buckets, batches, positions, memory_bytes) as rows,
    ):
        yield OrderedRows(positions.num_rows, rows)


def add_rows(
    buckets: RowBuckets,
    batches: Iterable[pa.RecordBatch],
    positions: RowPositions,
    cuts: pa.Array[Any],
    *,
    memory_bytes: int,
) -> None:
    """Add rows to buckets. Threads compute the positions of the rows and group them by bucket.

    Args:
        cuts: positions on the space-filling curve at which the second bucket and all later buckets
            start, ascending.
        memory_bytes: memory for the batches that the threads process. A low value limits the number
            of threads; there is always at least one.
    """

    def grouped(batch: pa.RecordBatch) -> GroupedRows:
        batch_positions = positions.of(batch)
        return group_rows(batch, batch_positions, _range_numbers(cuts, batch_positions))

    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return
    # Each thread holds a batch and its sorted copy, and one more result waits for the caller.
    threads = max(1, min(pa.cpu_count(), memory_bytes // (2 * first.nbytes + 1) - 1))
    with map_ahead(grouped, chain([first], filled), threads) as groups:
        for rows in groups:
            buckets.add(rows)


@closeable
def _sorted(
    buckets: RowBuckets,
    batches: Iterator[pa.RecordBatch],
    positions: RowPositions,
    memory_bytes: int,
) -> Iterator[pa.RecordBatch]:
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    size = first.nbytes / first.num_rows * positions.num_rows
    # Sorting a bucket creates a copy of it.
    parts = 1 if size <= memory_bytes / 2 else 1 + int(4 * size / memory_bytes)
    cuts = positions.cut_points(min(parts, _MAX_BUCKETS))
    add_rows(buckets, chain([first], batches), positions, cuts, memory_bytes=memory_bytes // 2)
    for number in range(len(cuts) + 1):
        table, bucket_positions = buckets.take(number)
        if table.num_rows:
            yield from in_order(table, bucket_positions)


def in_order(rows: pa.Table, positions: pa.ChunkedArray[Any]) -> Iterator[pa.RecordBatch]:
    """Yield rows in the order of `positions`, their non-null positions on a space-filling curve.

    More than 1 GiB of rows are divided into rows with low positions and rows with high positions.
    Both parts are sorted separately, because an Arrow string array holds at most 2 GiB.
    """
    if rows.nbytes <= _SORTED_BYTES:
        rows = rows.take(ascending_order(positions))
    else:
        bounds = pc.min_max(positions)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low < high:
            is_lower = pc.less_equal(positions, (low + high) // 2)
            for mask in (is_lower, pc.invert(is_lower)):
                yield from in_order(rows.filter(mask), positions.filter(mask))
            return
    yield from rows.to_batches(max_chunksize=_BATCH_ROWS)


def ascending_order(positions: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Return the indices that sort `positions`; the sort is stable.

    Each position and its index are combined into one integer, and NumPy sorts these integers. This
    is about eight times faster than Arrow. Arrow sorts the positions if NumPy isn't installed, or
    if the combined integers would have more than 63 bits.

    Args:
        positions: int64 without nulls; not empty.
    """
    combined = _with_indices(positions)
    order: pa.Array[Any]
    if combined is None:
        order = pc.sort_indices(positions)
    else:
        combined.sort()
        order = pa.array(combined & ((1 << len(combined).bit_length()) - 1))
    return order


def _with_indices(positions: pa.ChunkedArray[Any]) -> Any:
    """Combine each position and its index into an integer; return the integers as a NumPy array.

    Return None if NumPy isn't installed, or if an integer would have more than 63 bits.
    """
    try:
        import numpy as np
    except ImportError:
        return None
    numbers: Any = positions.to_numpy()
    first = numbers.min()
    index_bits = len(numbers).bit_length()
    if int(numbers.max() - first).bit_length() + index_bits > _POSITION_BITS:
        return None
    return (numbers - first) << index_bits | np.arange(len(numbers))


class _Sample:
    """A uniform random sample of rows, reproducible for the same rows."""

    def __init__(self) -> None:
        self.num_rows = 0
        self._fraction = 1.0
        self._sampled: list[pa.RecordBatch] = []
        self._num_sampled = 0

    @property
    def fraction(self) -> float:
        """Approximate fraction of the added rows that are in the sample."""
        return self._fraction

    def add(self, batch: pa.RecordBatch) -> None:
        self.num_rows += batch.num_rows
        self._keep(batch if self._fraction == 1 else self._draw(batch, self._fraction))
        while self._num_sampled > 2 * _SAMPLE_ROWS:
            self._fraction /= 2
            previous, self._sampled, self._num_sampled = self._sampled, [], 0
            for old in previous:
                self._keep(self._draw(old, 0.5))

    def rows(self) -> pa.RecordBatch | None:
        if not self._num_sampled:
            return None
        return pa.Table.from_batches(self._sampled).combine_chunks().to_batches()[0]

    def _keep(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._sampled.append(batch)
            self._num_sampled += batch.num_rows

    def _draw(self, batch: pa.RecordBatch, fraction: float) -> pa.RecordBatch:
        drawn = pc.random(batch.num_rows, initializer=self.num_rows + self._num_sampled)
        return batch.filter(pc.less(drawn, fraction))


class _Cutter:
    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def has_more(self) -> bool:
        while self._rest is None or self._rest.num_rows == 0:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return False
        return True

    def next_rows(self, length: int) -> Iterator[pa.RecordBatch]:
        while length and self.has_more():
            assert self._rest is not None  # `has_more` returned True
            piece = self._rest.slice(0, length)
            self._rest = self._rest.slice(piece.num_rows)
            length -= piece.num_rows
            yield piece


def _values(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array[Any]:
    """Return the values of a column or nested field in a type that Arrow can sort."""
    values: Any = batch.column(path[0])
    if len(path) > 1:
        for step in path[1:]:
            values = pc.struct_field(values, values.type.get_field_index(step))
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_nested(kind) or pa.types.is_null(kind):
        name = ".".join(path)
        raise SchemaError(
            f"Rows can't be ordered by column {name!r} of type {kind}. Choose columns of numbers, "
            "strings, dates or timestamps.",
            table="",
            column=name,
        )
    ordered: pa.Array[Any] = values
    return ordered


def _bounds(values: pa.Array[Any], ranges: int) -> pa.Array[Any]:
    non_null = values.drop_null()
    return _quantiles(non_null.take(pc.sort_indices(non_null)), ranges)


def _quantiles(ordered: pa.Array[Any], parts: int) -> pa.Array[Any]:
    """Split ascending values into `parts` parts of equal size.

    Returns the first values of the second part and all later parts, without duplicates.
    """
    indices = sorted({i * len(ordered) // parts for i in range(1, parts)})
    starts = ordered.take(pa.array(indices, pa.int64())) if len(ordered) else ordered
    distinct: pa.Array[Any] = pc.unique(starts)
    return distinct


def _range_numbers(bounds: pa.Array[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    """Return the index of the range that contains each value; nulls are in range 0.

    Args:
        bounds: lower bounds of the ranges, ascending, without the bound of the first range.
    """
    if len(bounds) == 0:
        return pa.repeat(pa.scalar(0, pa.int64()), len(values))
    if not pa.types.is_decimal(bounds.type):
        found = pc.search_sorted(bounds, values.cast(bounds.type), side="right")
        ranges: pa.Array[Any] = pc.fill_null(found, 0).cast(pa.int64())
        return ranges
    both = pa.concat_arrays([bounds, values.cast(bounds.type)])
    # The sort is stable: a bound precedes equal values.
    order = pc.array_sort_indices(both, null_placement="at_start").cast(pa.int64())
    is_bound = pc.less(order, len(bounds))
    passed = pc.cumulative_sum(is_bound.cast(pa.int64()))
    numbers: pa.Array[Any] = passed.take(pc.inverse_permutation(order))
    return numbers.slice(len(bounds))
