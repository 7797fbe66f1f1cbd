"""Selects the Arrow types in which pyarrow decodes the strings of a Parquet file fastest.

By default, pyarrow decodes Parquet columns of type BYTE_ARRAY as `string` or `binary`. Two other
types are decoded faster, and then converted to `string`:

- `large_string` is decoded in three quarters of the default's time. The conversion copies no bytes
  of the strings.
- A dictionary array is decoded in a quarter of the default's time, if the column is
  dictionary-encoded. The conversion takes another quarter of the default's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from bayou.engines.arrow.conversion import children, count_leaves
from bayou.kernel.arrow.compute import pc

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MIN_VALUES = 100_000
"""Minimum number of string values to decode. For fewer values, choosing other types isn't worth the
time."""

_MIN_VALUES_PER_CHUNK = 4_000
"""Minimum average number of string values per column chunk of the file.

Choosing the types requires a validation of the footer. For each column chunk, the validation takes
about the time that faster decoding saves for 2,000 strings.
"""

_MAX_ENCODED_BYTES = 2
"""Maximum average number of bytes for each value of a column chunk, to decode it as a dictionary.

The average includes the chunk's dictionary. A higher average means that few values are equal, or
that the dictionary was full and the chunk has plain pages. pyarrow would add the values of plain
pages to the dictionary, which is slow.
"""

_MAX_BYTES = (1 << 31) - 1
"""Maximum number of bytes of the strings in an array with 32-bit offsets."""

_AnyType: TypeAlias = Any
"""A `pa.DataType`, typed as Any because mypy doesn't narrow types by `pa.types.is_string`."""


class FooterSource(Protocol):
    """An open Parquet file, see `OpenParquet`."""

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""

    @property
    def has_checked_footer(self) -> bool:
        """Whether `checked_footer` was called."""

    def checked_footer(self) -> pq.FileMetaData:
        """Validate and return the footer."""


def decoding_options(
    file: FooterSource,
    file_schema: pa.Schema,
    leaves: Sequence[int],
    groups: Sequence[int],
    *,
    dictionaries: bool = False,
) -> dict[str, Any] | None:
    """Return the arguments with which `ParquetReader.open` reads the strings of a file faster.

    Returns None if the default arguments are the fastest.

    Args:
        leaves: indexes of the leaf columns to decode.
        groups: indexes of the row groups to decode.
        dictionaries: whether the caller converts columns to dictionary arrays.
    """
    footer = file.metadata
    if footer.num_rows * len(leaves) < _MIN_VALUES:  # quick, because there may be many small files
        return None
    strings, has_nested = _string_leaves(file_schema, set(leaves))
    rows = sum(footer.row_group(group).num_rows for group in groups)
    chunks = 0 if file.has_checked_footer else footer.num_row_groups * footer.num_columns
    if rows * len(strings) < max(_MIN_VALUES, _MIN_VALUES_PER_CHUNK * chunks):
        return None
    footer = file.checked_footer()
    encoded = [
        leaf
        for leaf in strings
        if all(has_small_dictionary(footer.row_group(group).column(leaf)) for group in groups)
    ]
    # pyarrow ignores `read_dictionary` if `binary_type` is set. `binary_type` also applies to
    # nested strings, whose conversion takes as long as it saves.
    if has_nested or dictionaries or 2 * len(encoded) >= len(strings):
        return {"read_dictionary": encoded} if encoded else None
    return {"binary_type": pa.large_binary()}


def columns_with_small_dictionary(file: FooterSource, schema: pa.Schema) -> frozenset[str]:
    """Return the top-level string columns that pyarrow decodes faster as dictionary arrays.

    The result is empty if the file has too few values for dictionary arrays to save time.
    """
    footer = file.metadata
    if footer.num_rows < max(_MIN_VALUES, _MIN_VALUES_PER_CHUNK * footer.num_row_groups):
        return frozenset()
    footer = file.checked_footer()
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    starts = accumulate((count_leaves(field.type) for field in schema), initial=0)
    return frozenset(
        field.name
        for field, leaf in zip(schema, starts, strict=False)
        if pa.types.is_string(field.type)
        and all(has_small_dictionary(group.column(leaf)) for group in groups)
    )


def has_small_dictionary(column: pq.ColumnChunkMetaData) -> bool:
    """Whether a column chunk is dictionary-encoded, with few different values."""
    max_size = _MAX_ENCODED_BYTES * column.num_values
    return column.has_dictionary_page and column.total_uncompressed_size <= max_size


def fitting_batches(batch: pa.RecordBatch, max_bytes: int = _MAX_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the batch, split into smaller batches if its strings don't fit into 32-bit offsets."""
    if batch.num_rows < 2 or _size(batch) <= max_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    for part in (batch.slice(0, half), batch.slice(half)):
        # The concatenation copies the values of the part, whose offsets then start at 0.
        columns: list[pa.Array[Any]] = [pa.concat_arrays([c, c[:0]]) for c in part.columns]
        yield from fitting_batches(
            pa.RecordBatch.from_arrays(columns, schema=batch.schema), max_bytes
        )


def _string_leaves(schema: pa.Schema, leaves: set[int]) -> tuple[list[int], bool]:
    """Select the leaf columns that contain strings or binary values.

    Returns:
        The indexes in `leaves` of top-level string or binary columns, and whether `leaves` also has
        strings or binary values in nested columns.
    """
    strings: list[int] = []
    has_nested = False
    first = 0
    for field in schema:
        end = first + count_leaves(field.type)
        for leaf, kind in zip(range(first, end), _leaf_types(field.type), strict=True):
            if leaf not in leaves or not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
                continue
            if pa.types.is_nested(field.type):
                has_nested = True
            else:
                strings.append(leaf)
        first = end
    return strings, has_nested


def _leaf_types(kind: _AnyType) -> Iterator[pa.DataType]:
    fields = children(kind)
    if not fields:
        yield kind
    for field in fields:
        yield from _leaf_types(field.type)


def _size(batch: pa.RecordBatch) -> int:
    """Return an upper bound for the size in bytes of any column after dictionaries are decoded."""
    size = batch.nbytes
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray) and len(column.dictionary):
            longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            size = max(size, longest * len(column))
    return size
