"""Rows sorted into partitions, columnar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import SchemaError
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import partition_values
from bayou.protocol.json_decoding import decode_json
from bayou.protocol.schema import DataType

__all__ = [
    "Part",
    "PartitionKey",
    "PartitionSplitter",
    "keeping_texts",
    "pieces_to_sort",
    "zoneless_texts",
]

pc: Any = pyarrow.compute

PartitionKey: TypeAlias = tuple[str | None, ...]
"""Serialized values of the partition columns, in their order."""

_PIECE_ROWS = 1 << 17
_TEXTS_KEY = b"bayou.partition_texts"
"""Metadata of a batch: zoneless timestamps of its rows' partition, by logical name."""


def zoneless_texts(state: TransactionState, values: Mapping[str, str | None]) -> dict[str, str]:
    """Those of a file's partition values that are timestamps without a zone.

    Args:
        values: by physical names.
    """
    found: dict[str, str] = {}
    for name in state.partition_columns:
        physical = state.physical_name(name)
        text = values.get(physical)
        data_type = state.schema.select([name]).fields[0].data_type
        if text is not None and partition_values.is_zoneless(text, data_type):
            found[physical] = text
    return found


def keeping_texts(
    state: TransactionState, batch: pa.RecordBatch, values: Mapping[str, str | None]
) -> pa.RecordBatch:
    """Rows of a file for a `PartitionSplitter`: timestamps without a zone stay what they are.

    Args:
        values: the file's partition values, by physical names.
    """
    local = zoneless_texts(state, values)
    if not local:
        return batch
    texts = {n: t for n in state.partition_columns if (t := local.get(state.physical_name(n)))}
    metadata = {**(batch.schema.metadata or {}), _TEXTS_KEY: msgspec.json.encode(texts)}
    return batch.replace_schema_metadata(metadata)


class Part(NamedTuple):
    """Some rows of a partition, and about how many bytes they take."""

    key: PartitionKey
    rows: pa.RecordBatch
    nbytes: int


class PartitionSplitter:
    """Sorts rows; what comes out are the data columns only, and those carried along.

    Args:
        carried: names of columns that aren't the table's, put behind the others.
    """

    def __init__(self, state: TransactionState, carried: Sequence[str] = ()) -> None:
        self._table = state.table
        self._columns = [
            (name, state.schema.select([name]).fields[0].data_type)
            for name in state.partition_columns
        ]
        self._data_names = [*(f.name for f in state.data_schema), *carried]

    def parts(self, batch: pa.RecordBatch) -> list[Part]:
        """A batch's rows by partition, slices of one batch. Safe in threads."""
        if batch.num_rows == 0:
            return []
        data = batch.select(self._data_names)
        if not self._columns:
            return [Part((), data, data.nbytes)]
        codes, keys = _partition_codes(self._table, batch, self._columns)
        metadata = batch.schema.metadata
        if metadata and _TEXTS_KEY in metadata:
            data = data.replace_schema_metadata()
            own = self._own_texts(decode_json(metadata[_TEXTS_KEY], dict))
            keys = [tuple(map(dict.get, own, key, key)) for key in keys]
        if len(keys) == 1:
            return [Part(keys[0], data, data.nbytes)]
        order = pc.array_sort_indices(codes)
        data, codes = data.take(order), codes.take(order)
        runs = pc.run_end_encode(codes)
        found: list[Part] = []
        row_bytes = data.nbytes / data.num_rows
        start = 0
        for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            size = round(row_bytes * (end - start))
            found.append(Part(keys[code], data.slice(start, end - start), size))
            start = end
        return found

    def _own_texts(self, texts: Mapping[str, str]) -> list[dict[str | None, str | None]]:
        """For each partition column: the text that its value would get, and the one that stays."""
        found: list[dict[str | None, str | None]] = []
        for name, data_type in self._columns:
            text = texts.get(name)
            value = partition_values.parse(text, data_type)
            found.append(
                {} if text is None else {partition_values.serialize(value, data_type): text}
            )
        return found


def pieces_to_sort(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A large batch in pieces: sorting rows of one takes the processor's cache, not its memory."""
    if batch.num_rows <= _PIECE_ROWS:
        yield batch
        return
    for first in range(0, batch.num_rows, _PIECE_ROWS):
        yield batch.slice(first, _PIECE_ROWS)


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
