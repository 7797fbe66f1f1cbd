"""Statistics and partition values as the typed columns of a checkpoint.

`stats_parsed` and `partitionValues_parsed` (PROTOCOL.md, Checkpoints).

Statistics out of checkpoints, kept as columns for the next scan of the same files.

In most checkpoints statistics are JSON text, and parsing that is most of what planning a filtered
read of a large table takes. A version knows where its statistics are kept (`keeping_statistics`);
a scan that parses all of a checkpoint's leaves them there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import SerializationError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.scan.data_skipping.pruning import partition_texts
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol import partition_values
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import DataType, StructField, StructType

__all__ = [
    "KnownStatistics",
    "StatisticsStore",
    "indexed_schema",
    "keeping_statistics",
    "parse_stats",
    "parsed_partition_values",
    "projected",
    "with_known_statistics",
]


pc: Any = pyarrow.compute


def indexed_schema(
    schema: StructType, partition_columns: tuple[str, ...], properties: TableProperties
) -> StructType:
    """The columns whose statistics a table keeps, by logical names.

    Those that `delta.dataSkippingStatsColumns` names, else the first
    `delta.dataSkippingNumIndexedCols` leaves; partition columns have none.
    """
    data = [f for f in schema if f.name not in partition_columns]
    named = properties.data_skipping_columns
    if named is not None:
        return _under(data, [tuple(part.lower() for part in path) for path in named])
    count = properties.data_skipping_column_count
    return StructType(tuple(data)) if count < 0 else _first_leaves(data, count)[0]


def parse_stats(engine: Engine, texts: pa.Array[Any], wanted: pa.StructType) -> pa.StructArray:
    """Statistics out of their JSON texts; null for a text that is null or isn't JSON.

    Args:
        wanted: type of `stats_parsed`.
    """
    schema = pa.schema(list(wanted))
    try:
        batch = engine.json.parse_json(texts, pa.schema([_as_json(f) for f in schema]))
        columns = [_typed(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
    except pa.ArrowInvalid:  # a date or time in another form than usual
        columns = engine.json.parse_json(texts, schema).columns
    except SerializationError:
        return _parse_one_by_one(engine, texts, wanted)
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=pc.is_null(texts))


def parsed_partition_values(
    values: pa.Array[Any], columns: Mapping[str, DataType]
) -> pa.StructArray:
    """Partition values in their columns' types, null for a text that isn't one.

    Args:
        values: maps from physical name to text.
        columns: types by physical name.
    """
    arrays = [_typed_values(partition_texts(values, n), kind) for n, kind in columns.items()]
    fields: list[pa.Field[Any]] = [pa.field(n, to_arrow_type(k)) for n, k in columns.items()]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def projected(values: Any, kind: Any) -> Any:
    """A struct with the fields of another type, by their names; nulls for those it hasn't."""
    if not pa.types.is_struct(kind) or values.type == kind:
        return values
    have = {f.name: i for i, f in enumerate(values.type)}
    columns = [
        projected(values.field(have[f.name]), f.type)
        if f.name in have
        else pa.nulls(len(values), f.type)
        for f in kind
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pc.is_null(values))


def _under(fields: list[StructField], paths: list[tuple[str, ...]]) -> StructType:
    """The fields that paths of names, in lower case, lead to or pass."""
    kept: list[StructField] = []
    for field in fields:
        own = [
            p[1:]
            for p in paths
            if p[:1] in ((field.name.lower(),), (physical_name(field).lower(),))
        ]
        if any(not rest for rest in own) or (own and not isinstance(field.data_type, StructType)):
            kept.append(field)
        elif own and isinstance(field.data_type, StructType):
            kept.append(field.with_data_type(_under(list(field.data_type), own)))
    return StructType(tuple(kept))


def _first_leaves(fields: list[StructField], count: int) -> tuple[StructType, int]:
    """The fields with the first so many leaves, and how many more there may be."""
    kept: list[StructField] = []
    for field in fields:
        if count <= 0:
            break
        if isinstance(field.data_type, StructType):
            inner, count = _first_leaves(list(field.data_type), count)
            kept.append(field.with_data_type(inner))
        else:
            kept.append(field)
            count -= 1
    return StructType(tuple(kept)), count


def _as_json(field: Any) -> Any:
    """A field in the type that JSON has for it, which a parser reads fast."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_as_json(f) for f in kind]))
    if pa.types.is_temporal(kind):
        return field.with_type(pa.string())
    return field.with_type(pa.float64()) if pa.types.is_float32(kind) else field


def _typed(values: Any, kind: Any) -> Any:
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        columns = [_typed(values.field(i), f.type) for i, f in enumerate(kind)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pc.is_null(values))
    return pc.cast(values, kind)


def _parse_one_by_one(
    engine: Engine, texts: pa.Array[Any], wanted: pa.StructType
) -> pa.StructArray:
    """Where a text isn't JSON; rare, so that it may be slow."""
    schema = pa.schema(list(wanted))
    rows: list[Any] = []
    for i in range(len(texts)):
        try:
            batch = engine.json.parse_json(texts.slice(i, 1), schema)
        except SerializationError:
            rows.append(None)
        else:
            rows.append(batch.to_pylist()[0] if texts[i].is_valid else None)
    array: Any = pa.array(rows, wanted)
    assert isinstance(array, pa.StructArray)
    return array


def _typed_values(texts: Any, kind: DataType) -> pa.Array[Any]:
    encoded = texts.dictionary_encode()
    distinct: list[Any] = [_value(text, kind) for text in encoded.dictionary.to_pylist()]
    typed: Any = pa.array(distinct, to_arrow_type(kind))
    array: pa.Array[Any] = typed.take(encoded.indices)
    return array


def _value(text: str | None, kind: DataType) -> Any:
    try:
        return partition_values.parse(text, kind, "UTC")
    except ValueError:
        return None


class StatisticsStore:
    """Statistics of many tables, up to a number of bytes; safe in threads.

    What was used longest ago goes first.

    Args:
        max_bytes: of all of it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, pa.RecordBatch] = OrderedDict()
        self._bytes = 0

    @property
    def memory_bytes(self) -> int:
        """What is kept."""
        return self._bytes

    def get(self, key: _Key) -> pa.RecordBatch | None:
        """What is kept under a key."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def put(self, key: _Key, statistics: pa.RecordBatch) -> None:
        """Keep it, unless it alone is over the limit."""
        size = statistics.nbytes
        with self._lock:
            self._drop(key)
            if size > self._max_bytes:
                return
            self._known[key] = statistics
            self._bytes += size
            self._shrink()

    def limit(self, max_bytes: int) -> None:
        """Another limit from now on."""
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    def forget(self, owner: KnownStatistics) -> None:
        """Drop all that was kept for one table."""
        with self._lock:
            for key in [key for key in self._known if key[0] == owner]:
                self._drop(key)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._known.clear()
            self._bytes = 0

    def _shrink(self) -> None:
        while self._bytes > self._max_bytes:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= oldest.nbytes

    def _drop(self, key: _Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._bytes -= known.nbytes


class KnownStatistics:
    """A store as the scans of one checkpoint use it; what others keep there isn't seen.

    Args:
        store: shared with other tables.
    """

    __slots__ = ("_store",)

    def __init__(self, store: StatisticsStore) -> None:
        self._store = store

    def forget(self) -> None:
        """Drop all that was kept."""
        self._store.forget(self)

    def get(self, split: FileSplit, wanted: pa.Schema) -> pa.RecordBatch | None:
        """A row for each add of a slice of a checkpoint, in the file's order; None: not kept."""
        return self._store.get(self._key(split, wanted))

    def keep(
        self, split: FileSplit, wanted: pa.Schema, statistics: Sequence[pa.RecordBatch]
    ) -> None:
        """Keep what `get` gives for it from now on."""
        if statistics:
            joined = pa.Table.from_batches(statistics).combine_chunks().to_batches()
            if len(joined) == 1:
                self._store.put(self._key(split, wanted), joined[0])

    def _key(self, split: FileSplit, wanted: pa.Schema) -> _Key:
        groups = split.first_row_group, split.end_row_group
        return (self, split.path, *groups, str(wanted))


_Key: TypeAlias = tuple[KnownStatistics, str, int, int | None, str]


@closeable
def keeping_statistics(
    batches: CloseableIterator[CheckpointAdds],
    statistics: Callable[[CheckpointAdds], pa.RecordBatch],
    keep: Callable[[Sequence[pa.RecordBatch]], None],
) -> Iterator[CheckpointAdds]:
    """The same adds with their statistics, which are kept once all have been taken.

    Statistics that stand in the checkpoint as columns are left alone: reading them again is cheap.

    Args:
        batches: all adds of a slice; closed with the result.
        statistics: works them out.
        keep: is given them, for each batch in order.
    """
    found = []
    with batches:
        for files in batches:
            if files.parsed is not None:
                yield files
                yield from batches
                return
            found.append(statistics(files))
            yield replace(files, statistics=found[-1])
    keep(found)


@closeable
def with_known_statistics(
    batches: CloseableIterator[CheckpointAdds], statistics: pa.RecordBatch
) -> Iterator[CheckpointAdds]:
    """Adds that were read without statistics, with those that are known.

    Args:
        batches: all adds of a slice; closed with the result.
        statistics: a row for each.
    """
    start = 0
    with batches:
        for files in batches:
            yield replace(files, statistics=statistics.slice(start, len(files.adds)))
            start += len(files.adds)
