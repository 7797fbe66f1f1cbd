"""Rows sorted into partitions, columnar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import SchemaError
from bayou.kernel.writes.state import TransactionState
from bayou.protocol import partition_values
from bayou.protocol.schema import DataType

__all__ = ["PartitionBuffers", "PartitionKey"]

pc: Any = pyarrow.compute

PartitionKey: TypeAlias = tuple[str | None, ...]
"""Serialized values of the partition columns, in their order."""


class PartitionBuffers:
    """Rows that wait, by partition; batches hold the data columns only, and those carried along.

    Args:
        carried: names of columns that aren't the table's, put behind the others.

    Attributes:
        nbytes: what waits, 0 once everything was popped.
    """

    def __init__(self, state: TransactionState, carried: Sequence[str] = ()) -> None:
        self._table = state.table
        self._columns = [
            (name, state.schema.select([name]).fields[0].data_type)
            for name in state.partition_columns
        ]
        self._data_names = [*(f.name for f in state.data_schema), *carried]
        self._waiting: dict[PartitionKey, list[pa.RecordBatch]] = {}
        self._sizes: dict[PartitionKey, int] = {}
        self.nbytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Split a batch of the table's schema by its partition values, and keep the parts."""
        if batch.num_rows == 0:
            return
        data = batch.select(self._data_names)
        if not self._columns:
            self._keep((), data)
            return
        codes, keys = _partition_codes(self._table, batch, self._columns)
        if len(keys) == 1:
            self._keep(keys[0], data)
            return
        order = pc.array_sort_indices(codes)
        data, codes = data.take(order), codes.take(order)
        runs = pc.run_end_encode(codes)
        start = 0
        for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            self._keep(keys[code], data.slice(start, end - start))
            start = end

    def pop_largest(self) -> tuple[PartitionKey, list[pa.RecordBatch]]:
        """The partition that holds the most bytes, with its batches in the order they came."""
        key = max(self._sizes, key=lambda k: self._sizes[k])
        self.nbytes -= self._sizes.pop(key)
        return key, self._waiting.pop(key)

    def pop_all(self) -> Iterator[tuple[PartitionKey, list[pa.RecordBatch]]]:
        """Everything that waits, partition after partition."""
        while self._waiting:
            key, batches = self._waiting.popitem()
            self.nbytes -= self._sizes.pop(key)
            yield key, batches

    def _keep(self, key: PartitionKey, batch: pa.RecordBatch) -> None:
        size = max(1, batch.nbytes)
        self._waiting.setdefault(key, []).append(batch)
        self._sizes[key] = self._sizes.get(key, 0) + size
        self.nbytes += size


def _partition_codes(
    table: str, batch: pa.RecordBatch, columns: list[tuple[str, DataType]]
) -> tuple[pa.Array[Any], list[PartitionKey]]:
    """A number per row and, by number, the partition it stands for."""
    codes: pa.Array[Any] | None = None
    keys: list[PartitionKey] = [()]
    for name, data_type in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        texts = _texts(table, name, data_type, encoded.dictionary)
        # Values of one text (null and the empty string) are one partition.
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        remap = pa.array([distinct[t] for t in texts], pa.int64())
        numbers = remap.take(encoded.indices)
        if codes is None:
            codes = numbers
        else:
            codes = pc.add(pc.multiply(codes, len(distinct)), numbers)
        keys = [(*key, text) for key in keys for text in distinct]
        if len(keys) > batch.num_rows:
            codes, keys = _present(codes, keys)
    assert codes is not None  # a partitioned table has a partition column
    return _present(codes, keys)


def _texts(table: str, column: str, data_type: DataType, values: pa.Array[Any]) -> list[str | None]:
    """Values of a partition column as they stand in the log.

    Raises:
        SchemaError: a value that has no text, such as bytes that aren't UTF-8.
    """
    try:
        return [partition_values.serialize(v, data_type) for v in values.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise SchemaError(
            f"A value of partition column {column!r} of {table} ({data_type}) can't be written to "
            f"the log: {error}. Leave such rows out, or partition by another column.",
            table=table,
            column=column,
        ) from error


def _present(
    codes: pa.Array[Any], keys: list[PartitionKey]
) -> tuple[pa.Array[Any], list[PartitionKey]]:
    """The codes renumbered so that only those stay that occur."""
    encoded: Any = codes.dictionary_encode()
    return encoded.indices.cast(pa.int64()), [keys[c] for c in encoded.dictionary.to_pylist()]
