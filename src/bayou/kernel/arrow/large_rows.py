"""Division of rows into slices, so that each result of an operation fits into an Arrow array.

An Arrow string array with 32-bit offsets holds at most 2 GiB. The result of an operation can exceed
this limit: a join repeats rows, and an expression can create long strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from bayou.kernel.arrow.compute import pc

_ResultT = TypeVar("_ResultT")
_INDEX = pa.int64()


def taken_sizes(columns: Iterable[pa.Array[Any]], indices: Any) -> Any:
    """Return the approximate size in bytes of each row that `indices` selects from `columns`.

    The running time depends on the number of indices, not on the number of rows in `columns`.

    Returns:
        One integer if all rows have the same size. Otherwise an int64 array without nulls.
    """
    return total_sizes(_taken_sizes(column, indices) for column in columns)


def total_sizes(parts: Iterable[Any]) -> Any:
    """Add the row sizes of several groups of columns, such as both sides of a join.

    Args:
        parts: row sizes of each group of columns, as `taken_sizes` returns them.
    """
    constant = 0
    total: Any = None
    for sizes in parts:
        if isinstance(sizes, int):
            constant += sizes
        else:
            total = sizes if total is None else pc.add(total, sizes)
    return constant if total is None else pc.add(total, constant)


def slices_by_size(sizes: Any, count: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Split rows into slices of about `max_bytes`, and yield the offset and length of each slice.

    A slice exceeds `max_bytes` by at most one row. If there are no rows, one empty slice is
    yielded.

    Args:
        sizes: sizes of the rows in bytes, as `taken_sizes` returns them.
        count: number of rows.
    """
    if isinstance(sizes, int):
        step = max(1, max_bytes // max(1, sizes))
        for first in range(0, max(1, count), step):
            yield first, min(step, count - first)
        return
    ends = pc.cumulative_sum(sizes)
    if count == 0 or ends[-1].as_py() <= max_bytes:
        yield 0, count
        return
    slice_numbers = pc.divide(pc.subtract(ends, sizes), max_bytes)
    start = 0
    for end in pc.run_end_encode(slice_numbers).run_ends.to_pylist():
        yield start, end - start
        start = end


def computed_in_slices(
    offset: int, length: int, compute: Callable[[int, int], _ResultT]
) -> Iterator[_ResultT]:
    """Compute the rows of a slice, and yield them as one or several results.

    If a result is too large for an Arrow array, the slice is divided in half. Both halves are then
    computed in the same way.

    Args:
        offset, length: offset and length of the slice.
        compute: function that computes the rows of a slice from its offset and length.
    """
    try:
        result = compute(offset, length)
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        if length < 2:
            raise
    else:
        yield result
        return
    half = length // 2
    yield from computed_in_slices(offset, half, compute)
    yield from computed_in_slices(offset + half, length - half, compute)


def _sizes(array: Any) -> Any:
    kind = array.type
    types = pa.types
    if isinstance(array, pa.ExtensionArray):
        return _sizes(array.storage)
    if types.is_null(kind):
        return 0
    if types.is_dictionary(kind):
        return _taken_sizes(array.dictionary, array.indices)
    if types.is_struct(kind):
        return total_sizes(_sizes(array.field(i)) for i in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _list_sizes(array)
    if _has_offsets(kind):
        return pc.fill_null(pc.cast(pc.binary_length(array), _INDEX), 0)
    if _has_average_size(kind):
        return array.nbytes // max(1, len(array))
    return max(1, kind.bit_width // 8)


def _taken_sizes(array: Any, indices: Any) -> Any:
    kind = array.type
    types = pa.types
    if isinstance(array, pa.ExtensionArray):
        return _taken_sizes(array.storage, indices)
    if types.is_struct(kind):
        return total_sizes(_taken_sizes(array.field(i), indices) for i in range(kind.num_fields))
    if types.is_dictionary(kind):
        return _taken_sizes(array.dictionary, array.indices.take(indices))
    if _has_offsets(kind) and len(array):
        large = types.is_large_string(kind) or types.is_large_binary(kind)
        width = pa.int64() if large else pa.int32()
        buffers = [None, array.buffers()[1]]
        offsets: Any = pa.Array.from_buffers(width, len(array) + 1, buffers, offset=array.offset)
        lengths = pc.subtract(offsets.take(pc.add(indices, 1)), offsets.take(indices))
        return pc.fill_null(pc.cast(lengths, _INDEX), 0)
    if _has_average_size(kind) or isinstance(_sizes(array.slice(0, 0)), int):
        return _sizes(array)
    used = pc.drop_null(pc.unique(indices))
    return pc.fill_null(_sizes(array.take(used)).take(pc.index_in(indices, value_set=used)), 0)


def _list_sizes(array: Any) -> Any:
    offsets = pc.cast(array.offsets, _INDEX)
    starts, ends = offsets.slice(0, len(array)), offsets.slice(1)
    sizes = _sizes(array.values)
    if isinstance(sizes, int):
        return pc.multiply(pc.subtract(ends, starts), sizes)
    totals = pa.concat_arrays([pa.array([0], _INDEX), pc.cumulative_sum(sizes)])
    return pc.subtract(totals.take(ends), totals.take(starts))


def _has_offsets(kind: Any) -> bool:
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
    )


def _has_average_size(kind: Any) -> bool:
    """Whether each value of a type is assumed to have the average size of its array's values."""
    types = pa.types
    return (
        types.is_fixed_size_list(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )
