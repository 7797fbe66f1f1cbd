"""Parquet, a whole file at a time and value by value."""

from __future__ import annotations

import datetime as dt
import io
import math
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.engines.field_ids import check_field_ids
from bayou.engines.footer_check import FooterError, check_footer, counts_nan, footer_range
from bayou.engines.legacy_calendar import (
    int96_leaves,
    legacy_time_zone,
    marked,
    rebased,
    with_instants,
)
from bayou.engines.variants import is_shredded, put_together_row
from bayou.errors import SchemaError, StorageError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import (
    FIELD_ID_KEY,
    METADATA_COLUMN_KEY,
    ROW_INDEX,
    VARIANT_KEY,
    ByteRange,
    DataFileStatus,
    FileSplit,
    FileStatus,
    FileSystemClient,
    ParquetFooter,
    ParquetWriteOptions,
    RowGroup,
)
from bayou.kernel.expressions.model import Predicate
from bayou.protocol.stats import FileStatistics
from bayou.protocol.variant import VariantError

__all__ = ["MemoryParquetHandler"]

_AnyArray: TypeAlias = Any
"""A `pa.Array` of a type known at run time."""


class MemoryParquetHandler:
    """Reads files whole and takes them apart as Python values."""

    def __init__(self, files: FileSystemClient) -> None:
        self._files = files

    def read_row_groups(self, file: FileStatus) -> Sequence[RowGroup]:
        metadata = self._open(file.path).metadata
        groups: list[dict[str, Any]] = [
            cast("dict[str, Any]", metadata.row_group(i).to_dict())
            for i in range(metadata.num_row_groups)
        ]
        return [
            RowGroup(
                num_rows=group["num_rows"],
                total_bytes=sum(c["total_compressed_size"] for c in group["columns"]),
            )
            for group in groups
        ]

    def read_footer(
        self, file: FileStatus, statistics_columns: Sequence[str] | None = ()
    ) -> ParquetFooter:
        opened = self._open(file.path)
        table = opened.read()
        schema = with_instants(table.schema.remove_metadata(), int96_leaves(opened.metadata))
        wanted = schema.names if statistics_columns is None else statistics_columns
        found = _statistics(table, wanted, ParquetWriteOptions().string_prefix_length)
        leaves = {f.name for f in schema if not pa.types.is_nested(f.type)}
        known = FileStatistics(
            num_records=found.num_records,
            min_values=found.min_values,
            max_values={
                k: v
                for k, v in found.max_values.items()
                if not _is_float(schema, k) or counts_nan(opened.metadata.created_by)
            },
            null_count={k: v for k, v in found.null_count.items() if k in leaves},
        )
        metadata = opened.metadata.metadata or {}
        return ParquetFooter(
            schema=schema,
            statistics=known,
            key_value_metadata={k.decode(): v.decode() for k, v in metadata.items()},
        )

    @closeable
    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        for split in files:
            table = self._read_split(split, physical_schema)
            yield from table.to_batches(max_chunksize=batch_size)

    @closeable
    def write_parquet_files(
        self,
        directory: str,
        batches: Iterable[pa.RecordBatch],
        statistics_columns: Sequence[str],
        options: ParquetWriteOptions,
    ) -> Iterator[DataFileStatus]:
        # One file a batch that is not empty: sizes in bytes are of no interest here.
        for batch in _pieces(batches, options.max_rows_per_file):
            kept = [i for i, f in enumerate(batch.schema) if not pa.types.is_null(f.type)]
            table = pa.Table.from_batches([batch.select(kept)])
            sink = io.BytesIO()
            codec = cast("Any", options.compression.removesuffix("_raw"))
            pq.write_table(table, sink, compression=codec, store_schema=False)
            name = f"{options.name_prefix}-00000-{uuid.uuid4()}-c000.{codec}.parquet"
            path = f"{directory.rstrip('/')}/{name}"
            self._files.put(path, sink.getvalue())
            yield DataFileStatus(
                path=path,
                size=sink.tell(),
                modification_time=_now(),
                statistics=_statistics(table, statistics_columns, options.string_prefix_length),
            )

    def write_parquet_file_atomically(
        self, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> FileStatus:
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_batches(batches, schema), sink, store_schema=False)
        self._files.put(path, sink.getvalue())
        return FileStatus(path=path, size=sink.tell(), modification_time=_now())

    def _open(self, path: str) -> pq.ParquetFile:
        data = b"".join(self._files.read_files([ByteRange(path=path)]))
        try:
            file = pq.ParquetFile(io.BytesIO(data), coerce_int96_timestamp_unit="us")
            found = footer_range(data[-8:], len(data))
            if found is not None:
                check_footer(data[found[0] : found[0] + found[1]])
            return file
        except (pa.ArrowException, OSError, FooterError) as error:
            raise StorageError(f"can't read {path} as Parquet: {error}", path=path) from error

    def _read_split(self, split: FileSplit, wanted: pa.Schema) -> pa.Table:
        parquet = self._open(split.path)
        metadata = parquet.metadata
        end = split.end_row_group
        groups = range(metadata.num_row_groups)[split.first_row_group : end]
        first = sum(metadata.row_group(i).num_rows for i in range(split.first_row_group))
        try:
            table = parquet.read_row_groups(list(groups))
        except (pa.ArrowException, OSError) as error:
            raise StorageError(
                f"can't read {split.path} as Parquet: {error}", path=split.path
            ) from error
        if not wanted:
            return table.select([])
        check_field_ids(table.schema, wanted, split.path)
        schema = marked(table.schema, parquet.schema)
        columns = [_column(table, schema, field, first, split.path) for field in wanted]
        return pa.table(columns, schema=wanted)


def _column(
    table: pa.Table, schema: pa.Schema, wanted: pa.Field[Any], first: int, path: str
) -> _AnyArray:
    kind = (wanted.metadata or {}).get(METADATA_COLUMN_KEY)
    if kind is not None:
        if kind != ROW_INDEX:
            raise SchemaError(f"unknown metadata column {kind!r}", table=path, column=wanted.name)
        return pa.array(range(first, first + table.num_rows), wanted.type)
    given = _find(wanted, list(schema), path)
    if given is None:
        return pa.nulls(table.num_rows, wanted.type)
    values = table.column(table.schema.names.index(given.name)).to_pylist()
    try:
        fitted = [_fit(_in_new_calendar(v, given), given.type, wanted, path) for v in values]
        return pa.array(fitted, wanted.type)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise SchemaError(
            f"column {wanted.name!r} of {path} can't be read as {wanted.type}: {error}",
            table=path,
            column=wanted.name,
        ) from error


def _find(
    wanted: pa.Field[Any], fields: Sequence[pa.Field[Any]], path: str
) -> pa.Field[Any] | None:
    field_id = (wanted.metadata or {}).get(FIELD_ID_KEY)
    if field_id is None:
        same = [f for f in fields if f.name == wanted.name]
        similar = [f for f in fields if f.name.lower() == wanted.name.lower()]
        found = [*same, *similar]
        if found:
            return found[0]
    for field in fields:
        if field_id is not None and (field.metadata or {}).get(FIELD_ID_KEY) == field_id:
            return field
    if not wanted.nullable:
        raise SchemaError(f"{path} lacks {wanted.name!r}", table=path, column=wanted.name)
    return None


def _in_new_calendar(value: Any, field: pa.Field[Any]) -> Any:
    """A Python value with its dates as they are now counted."""
    kind: Any = field.type
    time_zone = legacy_time_zone(field)
    if value is None:
        return None
    if time_zone is not None:
        return rebased(pa.array([value], kind), time_zone)[0].as_py()
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: _in_new_calendar(value[f.name], f) for f in fields}
    if pa.types.is_list(kind):
        return [_in_new_calendar(v, kind.value_field) for v in value]
    if pa.types.is_map(kind):
        pairs = (kind.key_field, kind.item_field)
        return [tuple(map(_in_new_calendar, pair, pairs)) for pair in value]
    return value


def _fit(value: Any, given: pa.DataType, field: pa.Field[Any], path: str) -> Any:
    """A Python value of one type as one of the other."""
    types = pa.types
    wanted: Any = field.type
    if VARIANT_KEY in (field.metadata or {}) and is_shredded(given):
        try:
            return put_together_row(value, given)
        except VariantError as error:
            raise StorageError(f"can't read {path} as Parquet: {error}", path=path) from error
    if types.is_struct(given) and types.is_struct(wanted):
        fields = [given.field(i) for i in range(given.num_fields)]
        result: dict[str, Any] = {}
        for i in range(wanted.num_fields):
            target = wanted.field(i)
            source = _find(target, fields, path)
            if value is not None:
                result[target.name] = (
                    None if source is None else _fit(value[source.name], source.type, target, path)
                )
        return None if value is None else result
    if value is None:
        return None
    if types.is_list(given) and types.is_list(wanted):
        return [_fit(v, given.value_type, wanted.value_field, path) for v in value]
    if types.is_map(given) and types.is_map(wanted):
        return [
            (
                _fit(k, given.key_type, wanted.key_field, path),
                _fit(v, given.item_type, wanted.item_field, path),
            )
            for k, v in value
        ]
    if types.is_integer(given) and types.is_decimal(wanted):
        return Decimal(value)
    if types.is_date(given) and types.is_timestamp(wanted):
        return dt.datetime.combine(value, dt.time())
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return value.replace(tzinfo=None)
    return value


# -------------------------------------------------------------------------------- statistics


def _is_float(schema: pa.Schema, name: str) -> bool:
    return pa.types.is_floating(schema.field(name).type)


def _statistics(table: pa.Table, columns: Sequence[str], prefix_length: int) -> FileStatistics:
    minima: dict[str, Any] = {}
    maxima: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for field in table.schema:
        values = table.column(field.name).to_pylist()
        for path, kind, leaf in _leaves((field.name,), field, values):
            dotted = ".".join(path)
            if not any(dotted == c or dotted.startswith(f"{c}.") for c in columns):
                continue
            _put(nulls, path, sum(v is None for v in leaf))
            low, high = _bounds(kind, [v for v in leaf if v is not None], prefix_length)
            if low is not None:
                _put(minima, path, low)
            if high is not None:
                _put(maxima, path, high)
    return FileStatistics(
        num_records=table.num_rows, min_values=minima, max_values=maxima, null_count=nulls
    )


def _leaves(
    path: tuple[str, ...], field: pa.Field[Any], values: list[Any]
) -> Iterator[tuple[tuple[str, ...], pa.DataType, list[Any]]]:
    kind: Any = field.type
    if not pa.types.is_struct(kind) or VARIANT_KEY in (field.metadata or {}):
        yield path, kind, values
        return
    for i in range(kind.num_fields):
        name = kind.field(i).name
        below = [None if v is None else v[name] for v in values]
        yield from _leaves((*path, name), kind.field(i), below)


def _bounds(kind: pa.DataType, values: list[Any], prefix_length: int) -> tuple[Any, Any]:
    types = pa.types
    if types.is_nested(kind) or types.is_boolean(kind) or types.is_binary(kind):
        return None, None
    if types.is_floating(kind):
        numbers = [v for v in values if not math.isnan(v)]
        if not numbers:
            return None, None
        return min(numbers), max(numbers) if len(numbers) == len(values) else None
    if not values:
        return None, None
    low, high = min(values), max(values)
    if isinstance(low, str):
        return low[:prefix_length], _upper_bound(high, prefix_length)
    return low, high


def _upper_bound(text: str, length: int) -> str | None:
    if len(text) <= length:
        return text
    following = text[length]
    if following < "\x7f":
        return text[:length] + "\x7f"
    return text[:length] + "\U0010ffff" if following < "\U0010ffff" else None


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _now() -> int:
    return time.time_ns() // 1_000_000


def _pieces(batches: Iterable[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """Batches of at most so many rows; none is empty."""
    for batch in batches:
        step = rows or max(1, batch.num_rows)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
