"""Checks that the strings of Arrow data are valid UTF-8, before they are written.

Arrow libraries don't check strings from raw buffers or from Parquet files of other writers. If
invalid strings were written to a table, readers in other languages would fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel.arrow.compute import pc


def with_valid_strings(batches: pa.RecordBatchReader, argument: str) -> pa.RecordBatchReader:
    """Return a reader that yields the same batches, and checks their strings.

    Reading raises `ArgumentError` if a string isn't valid UTF-8. If no column has strings,
    `batches` is returned.

    Args:
        argument: name of the argument with the data, for the error.
    """
    if not any(_has_strings(field.type) for field in batches.schema):
        return batches

    def checked() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for field, column in zip(batch.schema, batch.columns, strict=True):
                if not _is_valid(column):
                    raise ArgumentError(
                        f"{argument}: column {field.name!r} has a string that isn't valid UTF-8. "
                        "Correct the data, or cast the column to binary.",
                        argument=argument,
                    )
            yield batch

    return pa.RecordBatchReader.from_batches(batches.schema, checked())


def _is_valid(array: Any) -> bool:
    """Whether all strings in an array are valid UTF-8."""
    kind: Any = array.type
    types: Any = pa.types
    if not _has_strings(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return _is_valid(array.storage)
    if types.is_dictionary(kind):
        if len(array.dictionary) <= len(array) or types.is_string_view(kind.value_type):
            return _is_valid(array.dictionary)
        return _is_valid(array.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return _is_valid(array.values)
    if types.is_struct(kind):
        return all(map(_is_valid, array.flatten()))
    if types.is_map(kind):
        ends = array.offsets
        first, last = ends[0].as_py(), ends[-1].as_py()
        return all(_is_valid(a.slice(first, last - first)) for a in (array.keys, array.items))
    if types.is_nested(kind):
        return _is_valid(array.flatten())
    return _is_ascii(array) or _is_utf8(array)


def _has_strings(kind: Any) -> bool:
    types: Any = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _has_strings(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _has_strings(kind.value_type)
    if types.is_nested(kind):
        return any(_has_strings(kind.field(i).type) for i in range(kind.num_fields))
    return kind in _BINARY


_BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
"""For each Arrow string type, the binary type that has the same buffer layout."""


def _is_ascii(array: Any) -> bool:
    """Whether all strings are known to be ASCII; this check is faster than `_is_utf8`.

    String views aren't checked, so the result for them is False.
    """
    if pa.types.is_string_view(array.type) or not len(array):
        return False
    _, offsets, data = array.buffers()
    if data is None:
        return False
    width = pa.int32() if pa.types.is_string(array.type) else pa.int64()
    ends = pa.Array.from_buffers(width, array.offset + len(array) + 1, [None, offsets])
    first, last = ends[array.offset].as_py(), ends[-1].as_py()
    characters = pa.Array.from_buffers(pa.int8(), last - first, [None, data.slice(first)])
    lowest: int | None = pc.min(characters).as_py()  # bytes from 128 on are negative
    return lowest is None or lowest >= 0


def _is_utf8(array: Any) -> bool:
    try:
        array.cast(_BINARY[array.type]).cast(array.type)  # copies nothing, and checks the strings
    except pa.ArrowInvalid:
        return False
    return True
