"""A Parquet handler that reads whole files and converts values one by one."""

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
from bayou.engines.footer_check import FooterError, check_footer, footer_range, orders_nan_last
from bayou.engines.legacy_calendar import (
    int96_leaves,
    legacy_time_zone,
    mark_legacy_fields,
    rebase_datetimes,
    with_int96_timestamps,
)
from bayou.engines.shredded_variants import is_shredded, reassemble_row
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

_AnyArray: TypeAlias = Any
"""A `pa.Array` whose type is known only at run time."""


class MemoryParquetHandler:
    """Reads whole files, and converts columns value by value in Python."""

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
        schema = with_int96_timestamps(
            table.schema.remove_metadata(), int96_leaves(opened.metadata)
        )
        columns = schema.names if statistics_columns is None else statistics_columns
        statistics = _statistics(table, columns, ParquetWriteOptions().string_prefix_length)
        leaves = {f.name for f in schema if not pa.types.is_nested(f.type)}
        from_footer = FileStatistics(
            num_records=statistics.num_records,
            min_values=statistics.min_values,
            max_values={
                k: v
                for k, v in statistics.max_values.items()
                if not _is_float(schema, k) or orders_nan_last(opened.metadata.created_by)
            },
            null_count={k: v for k, v in statistics.null_count.items() if k in leaves},
        )
        metadata = opened.metadata.metadata or {}
        return ParquetFooter(
            schema=schema,
            statistics=from_footer,
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
        # One file for each non-empty batch: this engine ignores sizes in bytes.
        for batch in _pieces(batches, options.max_rows_per_file):
            columns = [i for i, f in enumerate(batch.schema) if not pa.types.is_null(f.type)]
            table = pa.Table.from_batches([batch.select(columns)])
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
            footer = footer_range(data[-8:], len(data))
            if footer is not None:
                check_footer(data[footer[0] : footer[0] + footer[1]])
            return file
        except (pa.ArrowException, OSError, FooterError) as error:
            raise StorageError(f"{path}: can't read as Parquet: {error}", path=path) from error

    def _read_split(self, split: FileSplit, requested: pa.Schema) -> pa.Table:
        parquet = self._open(split.path)
        metadata = parquet.metadata
        end = split.end_row_group
        groups = range(metadata.num_row_groups)[split.first_row_group : end]
        first = sum(metadata.row_group(i).num_rows for i in range(split.first_row_group))
        try:
            table = parquet.read_row_groups(list(groups))
        except (pa.ArrowException, OSError) as error:
            raise StorageError(
                f"{split.path}: can't read as Parquet: {error}", path=split.path
            ) from error
        if not requested:
            return table.select([])
        check_field_ids(table.schema, requested, split.path)
        schema = mark_legacy_fields(table.schema, parquet.schema)
        columns = [_column(table, schema, field, first, split.path) for field in requested]
        return pa.table(columns, schema=requested)


def _column(
    table: pa.Table, schema: pa.Schema, requested: pa.Field[Any], first: int, path: str
) -> _AnyArray:
    kind = (requested.metadata or {}).get(METADATA_COLUMN_KEY)
    if kind is not None:
        if kind != ROW_INDEX:
            raise SchemaError(
                f"{path}: unknown metadata column {kind!r}", table=path, column=requested.name
            )
        return pa.array(range(first, first + table.num_rows), requested.type)
    source = _find(requested, list(schema), path)
    if source is None:
        return pa.nulls(table.num_rows, requested.type)
    values = table.column(table.schema.names.index(source.name)).to_pylist()
    try:
        converted = [_fit(_rebased(v, source), source.type, requested, path) for v in values]
        return pa.array(converted, requested.type)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise SchemaError(
            f"{path}: column {requested.name!r} can't be read as {requested.type}: {error}",
            table=path,
            column=requested.name,
        ) from error


def _find(
    requested: pa.Field[Any], fields: Sequence[pa.Field[Any]], path: str
) -> pa.Field[Any] | None:
    field_id = (requested.metadata or {}).get(FIELD_ID_KEY)
    if field_id is None:
        exact = [f for f in fields if f.name == requested.name]
        folded = [f for f in fields if f.name.lower() == requested.name.lower()]
        matches = [*exact, *folded]
        if matches:
            return matches[0]
    for field in fields:
        if field_id is not None and (field.metadata or {}).get(FIELD_ID_KEY) == field_id:
            return field
    if not requested.nullable:
        raise SchemaError(
            f"{path}: the file lacks column {requested.name!r}, which isn't nullable. "
            "Restore the file, or make the column nullable.",
            table=path,
            column=requested.name,
        )
    return None


def _rebased(value: Any, field: pa.Field[Any]) -> Any:
    kind: Any = field.type
    time_zone = legacy_time_zone(field)
    if value is None:
        return None
    if time_zone is not None:
        return rebase_datetimes(pa.array([value], kind), time_zone)[0].as_py()
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: _rebased(value[f.name], f) for f in fields}
    if pa.types.is_list(kind):
        return [_rebased(v, kind.value_field) for v in value]
    if pa.types.is_map(kind):
        pairs = (kind.key_field, kind.item_field)
        return [tuple(map(_rebased, pair, pairs)) for pair in value]
    return value


def _fit(value: Any, source_type: pa.DataType, field: pa.Field[Any], path: str) -> Any:
    types = pa.types
    requested: Any = field.type
    if VARIANT_KEY in (field.metadata or {}) and is_shredded(source_type):
        try:
            return reassemble_row(value, source_type)
        except VariantError as error:
            raise StorageError(f"{path}: can't read as Parquet: {error}", path=path) from error
    if types.is_struct(source_type) and types.is_struct(requested):
        fields = [source_type.field(i) for i in range(source_type.num_fields)]
        result: dict[str, Any] = {}
        for i in range(requested.num_fields):
            target = requested.field(i)
            child_source = _find(target, fields, path)
            if value is not None:
                result[target.name] = (
                    None
                    if child_source is None
                    else _fit(value[child_source.name], child_source.type, target, path)
                )
        return None if value is None else result
    if value is None:
        return None
    if types.is_list(source_type) and types.is_list(requested):
        return [_fit(v, source_type.value_type, requested.value_field, path) for v in value]
    if types.is_map(source_type) and types.is_map(requested):
        return [
            (
                _fit(k, source_type.key_type, requested.key_field, path),
                _fit(v, source_type.item_type, requested.item_field, path),
            )
            for k, v in value
        ]
    if types.is_integer(source_type) and types.is_decimal(requested):
        return Decimal(value)
    if types.is_float64(source_type) and types.is_float32(requested):
        narrowed = pa.scalar(value, requested).as_py()
        if narrowed != value and not math.isnan(value):
            raise pa.ArrowInvalid(f"{value} can't be stored as a float without rounding")
    if types.is_date(source_type) and types.is_timestamp(requested):
        return dt.datetime.combine(value, dt.time())
    if types.is_timestamp(source_type) and types.is_timestamp(requested):
        return value.replace(tzinfo=None)
    return value


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


def _upper_bound(string: str, length: int) -> str | None:
    if len(string) <= length:
        return string
    following = string[length]
    if following < "\x7f":
        return string[:length] + "\x7f"
    return string[:length] + "\U0010ffff" if following < "\U0010ffff" else None


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _now() -> int:
    return time.time_ns() // 1_000_000


def _pieces(batches: Iterable[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        step = rows or max(1, batch.num_rows)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
