"""Splitting of rows by partition values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from bayou.errors import SchemaError
from bayou.json_decoding import decode_json
from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.compute import pc
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import partition_values
from bayou.protocol.schema import DataType

PartitionKey: TypeAlias = tuple[str | None, ...]
"""Serialized partition values, in the order of the partition columns."""

_PIECE_ROWS = 1 << 17
_ZONELESS_KEY = b"bayou.partition_texts"
"""Key in a batch's schema metadata for timestamp partition values whose strings lack a time zone.

The metadata value is a nested JSON object. Its keys are the logical names of partition columns.
Each inner object maps the partition value of the rows, as a UTC string, to the string in the log.
"""


def zoneless_values(state: TransactionState, values: Mapping[str, str | None]) -> dict[str, str]:
    """Select the timestamp partition values whose strings have no time zone.

    Args:
        values: serialized partition values of a file by physical name.

    Returns:
        The selected items of `values`.
    """
    zoneless: dict[str, str] = {}
    for name in state.partition_columns:
        physical = state.physical_name(name)
        value = values.get(physical)
        data_type = state.schema.select([name]).fields[0].data_type
        if value is not None and partition_values.lacks_time_zone(value, data_type):
            zoneless[physical] = value
    return zoneless


def with_original_values(
    state: TransactionState,
    batch: pa.RecordBatch,
    values: Mapping[str, str | None],
    *,
    time_zone: str = "UTC",
    assigned: Collection[str] = (),
) -> pa.RecordBatch:
    """Record in the rows' schema metadata which timestamp partition values lack a time zone.

    If the rows are written to a new file, `PartitionSplitter` uses the same strings as partition
    values of the new file.

    Args:
        values: the file's serialized partition values by physical name.
        time_zone: the time zone in which these partition values were interpreted when the rows were
            read.
        assigned: columns with new values in these rows. New values are written with a time zone,
            even if they are equal to the old values.
    """
    zoneless = zoneless_values(state, values)
    by_name: dict[str, dict[str | None, str]] = {}
    for name in state.partition_columns if zoneless else ():
        original = zoneless.get(state.physical_name(name))
        if original is not None and name not in assigned:
            data_type = state.schema.select([name]).fields[0].data_type
            value = partition_values.parse(original, data_type, time_zone)
            by_name[name] = {partition_values.serialize(value, data_type): original}
    if not by_name:
        return batch
    metadata = {**(batch.schema.metadata or {}), _ZONELESS_KEY: msgspec.json.encode(by_name)}
    return batch.replace_schema_metadata(metadata)


class PartitionSlice(NamedTuple):
    """Rows of one partition and their approximate size."""

    key: PartitionKey
    rows: pa.RecordBatch
    nbytes: int


class PartitionSplitter:
    """Splits rows by partition. The returned rows don't have the partition columns.

    Args:
        additional_columns: names of columns that the rows have and the table doesn't. In the
            returned rows, they follow the table's columns. All other columns that the table doesn't
            have are dropped.
    """

    def __init__(self, state: TransactionState, additional_columns: Sequence[str] = ()) -> None:
        self._table = state.table
        self._columns = [
            (name, state.schema.select([name]).fields[0].data_type)
            for name in state.partition_columns
        ]
        self._data_names = [*(f.name for f in state.data_schema), *additional_columns]

    def split(self, batch: pa.RecordBatch) -> list[PartitionSlice]:
        """Sort a batch by partition and return one slice for each partition. Thread-safe."""
        if batch.num_rows == 0:
            return []
        data = batch.select(self._data_names)
        if not self._columns:
            return [PartitionSlice((), data, data.nbytes)]
        codes, keys = _partition_codes(self._table, batch, self._columns)
        metadata = batch.schema.metadata
        if metadata and _ZONELESS_KEY in metadata:
            data = data.replace_schema_metadata()
            by_name = decode_json(metadata[_ZONELESS_KEY], dict[str, dict[str, str]])
            originals = [by_name.get(name, {}) for name, _ in self._columns]
            keys = [tuple(map(_original_value, originals, key)) for key in keys]
        if len(keys) == 1:
            return [PartitionSlice(keys[0], data, data.nbytes)]
        order = pc.array_sort_indices(codes)
        data, codes = data.take(order), codes.take(order)
        runs = pc.run_end_encode(codes)
        slices: list[PartitionSlice] = []
        row_bytes = data.nbytes / data.num_rows
        start = 0
        for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            size = round(row_bytes * (end - start))
            slices.append(PartitionSlice(keys[code], data.slice(start, end - start), size))
            start = end
        return slices


def split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a large batch into slices that can be sorted within the processor's cache."""
    if batch.num_rows <= _PIECE_ROWS:
        yield batch
        return
    for first in range(0, batch.num_rows, _PIECE_ROWS):
        yield batch.slice(first, _PIECE_ROWS)


def _original_value(originals: Mapping[str, str], value: str | None) -> str | None:
    return None if value is None else originals.get(value, value)


def _partition_codes(
    table: str, batch: pa.RecordBatch, columns: list[tuple[str, DataType]]
) -> tuple[pa.Array[Any], list[PartitionKey]]:
    """Return the index of each row's partition key, and the list of keys."""
    codes: pa.Array[Any] | None = None
    keys: list[PartitionKey] = [()]
    for name, data_type in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        serialized = _serialize(table, name, data_type, encoded.dictionary)
        # Null and the empty string have the same serialized value and are one partition.
        distinct = {value: i for i, value in enumerate(dict.fromkeys(serialized))}
        remap = to_array([distinct[value] for value in serialized], pa.int64())
        numbers = remap.take(encoded.indices)
        if codes is None:
            codes = numbers
        else:
            codes = pc.add(pc.multiply(codes, len(distinct)), numbers)
        keys = [(*key, value) for key in keys for value in distinct]
        if len(keys) > batch.num_rows:
            codes, keys = _used_codes(codes, keys)
    assert codes is not None  # a partitioned table has a partition column
    return _used_codes(codes, keys)


def _serialize(
    table: str, column: str, data_type: DataType, values: pa.Array[Any]
) -> list[str | None]:
    try:
        return [partition_values.serialize(v, data_type) for v in values.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise SchemaError(
            f"{table}: a value of partition column {column!r} ({data_type}) can't be written to "
            f"the log: {error}. Remove the rows with this value, or partition by another column.",
            table=table,
            column=column,
        ) from error


def _used_codes(
    codes: pa.Array[Any], keys: list[PartitionKey]
) -> tuple[pa.Array[Any], list[PartitionKey]]:
    """Remove the keys of partitions without rows, and change the indexes `codes` accordingly."""
    encoded: Any = codes.dictionary_encode()
    return encoded.indices.cast(pa.int64()), [keys[c] for c in encoded.dictionary.to_pylist()]
