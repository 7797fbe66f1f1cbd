"""Parsing of statistics and partition values in checkpoints, and a cache of parsed statistics.

Most checkpoints contain statistics as JSON. Parsing this JSON takes most of the time for planning a
filtered read of a large table. A scan therefore caches the parsed statistics of a checkpoint if its
snapshot has a cache (`Snapshot.with_statistics_cache`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.errors import SerializationError
from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol import partition_values
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import DataType, StructField, StructType


def indexed_schema(
    schema: StructType, partition_columns: tuple[str, ...], properties: TableProperties
) -> StructType:
    """Return the schema of the columns to collect statistics for, with logical names.

    These are the columns in `delta.dataSkippingStatsColumns` if it is set, else the first
    `delta.dataSkippingNumIndexedCols` leaf columns. Partition columns have no statistics.
    """
    data = [f for f in schema if f.name not in partition_columns]
    configured = properties.data_skipping_columns
    if configured is not None:
        return _select(data, [tuple(part.lower() for part in path) for path in configured])
    count = properties.data_skipping_column_count
    return StructType(tuple(data)) if count < 0 else _first_leaves(data, count)[0]


def parse_stats(
    engine: Engine, strings: pa.Array[Any], stats_type: pa.StructType
) -> pa.StructArray:
    """Parse the JSON of `add.stats`; a string that is null or isn't JSON becomes null."""
    schema = pa.schema(list(stats_type))
    try:
        batch = engine.json.parse_json(strings, pa.schema([_json_field(f) for f in schema]))
        columns = [_cast(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
    except pa.ArrowInvalid:  # a date or timestamp has an unusual format
        columns = engine.json.parse_json(strings, schema).columns
    except SerializationError:
        return _parse_one_by_one(engine, strings, stats_type)
    return pa.StructArray.from_arrays(columns, fields=list(stats_type), mask=pc.is_null(strings))


def parsed_partition_values(
    values: pa.Array[Any], columns: Mapping[str, DataType]
) -> pa.StructArray:
    """Parse partition values to the types of their columns; an invalid value becomes null.

    Args:
        values: partition values of files, as an array of maps from physical column name to
            serialized value.
        columns: types of the partition columns, by physical name.
    """
    from bayou.kernel.scan.data_skipping.pruning import partition_strings

    arrays = [_parse_values(partition_strings(values, n), kind) for n, kind in columns.items()]
    fields: list[pa.Field[Any]] = [pa.field(n, to_arrow_type(k)) for n, k in columns.items()]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def project_struct(values: Any, kind: Any) -> Any:
    """Convert a struct array to the struct type `kind` by field names; missing fields are null."""
    if not pa.types.is_struct(kind) or values.type == kind:
        return values
    indexes = {f.name: i for i, f in enumerate(values.type)}
    columns = [
        project_struct(values.field(indexes[f.name]), f.type)
        if f.name in indexes
        else pa.nulls(len(values), f.type)
        for f in kind
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pc.is_null(values))


def _select(fields: list[StructField], paths: list[tuple[str, ...]]) -> StructType:
    """Return a schema with only the fields at `paths`, inside their enclosing structs.

    Each element of a path is the logical or the physical name of a field, in lowercase.
    """
    selected: list[StructField] = []
    for field in fields:
        suffixes = [
            p[1:]
            for p in paths
            if p[:1] in ((field.name.lower(),), (physical_name(field).lower(),))
        ]
        is_struct = isinstance(field.data_type, StructType)
        if any(not suffix for suffix in suffixes) or (suffixes and not is_struct):
            selected.append(field)
        elif suffixes and isinstance(field.data_type, StructType):
            selected.append(field.with_data_type(_select(list(field.data_type), suffixes)))
    return StructType(tuple(selected))


def _first_leaves(fields: list[StructField], count: int) -> tuple[StructType, int]:
    """Return the first `count` leaf fields, inside their enclosing structs.

    Returns:
        The fields, and `count` minus the number of returned leaf fields.
    """
    selected: list[StructField] = []
    for field in fields:
        if count <= 0:
            break
        if isinstance(field.data_type, StructType):
            inner, count = _first_leaves(list(field.data_type), count)
            selected.append(field.with_data_type(inner))
        else:
            selected.append(field)
            count -= 1
    return StructType(tuple(selected)), count


def _json_field(field: Any) -> Any:
    """Return `field` with the type that the JSON parser returns for it.

    Dates and timestamps are parsed as strings, because JSON parsers don't support these types or
    parse them slowly. Floats are parsed as doubles.
    """
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_json_field(f) for f in kind]))
    if pa.types.is_temporal(kind):
        return field.with_type(pa.string())
    return field.with_type(pa.float64()) if pa.types.is_float32(kind) else field


def _cast(values: Any, kind: Any) -> Any:
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        columns = [_cast(values.field(i), f.type) for i, f in enumerate(kind)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pc.is_null(values))
    return pc.cast(values, kind)


def _parse_one_by_one(
    engine: Engine, strings: pa.Array[Any], stats_type: pa.StructType
) -> pa.StructArray:
    """Parse each string separately, which is slow; a string that isn't JSON becomes null."""
    schema = pa.schema(list(stats_type))
    rows: list[Any] = []
    for i in range(len(strings)):
        try:
            batch = engine.json.parse_json(strings.slice(i, 1), schema)
        except SerializationError:
            rows.append(None)
        else:
            rows.append(batch.to_pylist()[0] if strings[i].is_valid else None)
    array: Any = to_array(rows, stats_type)
    assert isinstance(array, pa.StructArray)
    return array


def _parse_values(strings: Any, kind: DataType) -> pa.Array[Any]:
    encoded = strings.dictionary_encode()
    distinct: list[Any] = [_parse_value(value, kind) for value in encoded.dictionary.to_pylist()]
    parsed: Any = to_array(distinct, to_arrow_type(kind))
    array: pa.Array[Any] = parsed.take(encoded.indices)
    return array


def _parse_value(value: str | None, kind: DataType) -> Any:
    try:
        return partition_values.parse(value, kind, "UTC")
    except ValueError:
        return None


class StatisticsCache:
    """A thread-safe LRU cache of parsed statistics of many checkpoints."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._cache: OrderedDict[_Key, pa.RecordBatch] = OrderedDict()
        self._bytes = 0

    @property
    def memory_bytes(self) -> int:
        return self._bytes

    def get(self, key: _Key) -> pa.RecordBatch | None:
        with self._lock:
            statistics = self._cache.get(key)
            if statistics is not None:
                self._cache.move_to_end(key)
            return statistics

    def put(self, key: _Key, statistics: pa.RecordBatch) -> None:
        """Cache statistics, and remove the least recently used entries if the cache is too large.

        Statistics that are larger than the whole cache aren't cached.
        """
        size = statistics.nbytes
        with self._lock:
            self._drop(key)
            if size > self._max_bytes:
                return
            self._cache[key] = statistics
            self._bytes += size
            self._shrink()

    def set_max_bytes(self, max_bytes: int) -> None:
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    def remove(self, owner: CheckpointStatisticsCache) -> None:
        """Remove the statistics of a checkpoint."""
        with self._lock:
            for key in [key for key in self._cache if key[0] == owner]:
                self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._cache.clear()
            self._bytes = 0

    def _shrink(self) -> None:
        while self._bytes > self._max_bytes:
            _, oldest = self._cache.popitem(last=False)
            self._bytes -= oldest.nbytes

    def _drop(self, key: _Key) -> None:
        statistics = self._cache.pop(key, None)
        if statistics is not None:
            self._bytes -= statistics.nbytes


class CheckpointStatisticsCache:
    """The part of a `StatisticsCache` with the statistics of one checkpoint."""

    __slots__ = ("_store",)

    def __init__(self, store: StatisticsCache) -> None:
        self._store = store

    def clear(self) -> None:
        self._store.remove(self)

    def get(self, split: FileSplit, schema: pa.Schema) -> pa.RecordBatch | None:
        """Return the statistics of some row groups of the checkpoint; None if they aren't cached.

        Each row contains the statistics of one `add` action, in the order of the checkpoint.

        Args:
            split: row groups of a checkpoint file.
            schema: schema of the statistics.
        """
        return self._store.get(self._key(split, schema))

    def put(
        self, split: FileSplit, schema: pa.Schema, statistics: Sequence[pa.RecordBatch]
    ) -> None:
        if statistics:
            combined = pa.Table.from_batches(statistics).combine_chunks().to_batches()
            if len(combined) == 1:
                self._store.put(self._key(split, schema), combined[0])

    def _key(self, split: FileSplit, schema: pa.Schema) -> _Key:
        groups = split.first_row_group, split.end_row_group
        return (self, split.path, *groups, str(schema))


_Key: TypeAlias = tuple[CheckpointStatisticsCache, str, int, int | None, str]


@closeable
def cache_statistics(
    batches: CloseableIterator[CheckpointAdds],
    statistics: Callable[[CheckpointAdds], pa.RecordBatch],
    store: Callable[[Sequence[pa.RecordBatch]], None],
) -> Iterator[CheckpointAdds]:
    """Set `CheckpointAdds.statistics` in each batch, and cache the statistics after the last batch.

    Statistics that were read as a struct (`stats_parsed`) need no parsing. In this case, the
    batches stay unchanged, and nothing is cached. Closing the result closes `batches`.

    Args:
        batches: all `add` actions in a range of row groups of a checkpoint.
        statistics: function that computes the statistics of a batch, one row for each action.
        store: function that stores the statistics of all batches in the cache.
    """
    computed = []
    with batches:
        for files in batches:
            if files.parsed is not None:
                yield files
                yield from batches
                return
            computed.append(statistics(files))
            yield replace(files, statistics=computed[-1])
    store(computed)


@closeable
def with_cached_statistics(
    batches: CloseableIterator[CheckpointAdds], statistics: pa.RecordBatch
) -> Iterator[CheckpointAdds]:
    """Set `CheckpointAdds.statistics` in each batch from cached statistics.

    Closing the result closes `batches`.

    Args:
        batches: all `add` actions in a range of row groups of a checkpoint, read without
            statistics.
        statistics: the cached statistics of these actions, one row for each action.
    """
    start = 0
    with batches:
        for files in batches:
            yield replace(files, statistics=statistics.slice(start, len(files.adds)))
            start += len(files.adds)
