"""Writes Parquet files and collects their statistics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from bayou.engines.arrow.conversion import children, converter
from bayou.engines.arrow.parquet_files.geospatial import with_logical_types
from bayou.engines.arrow.parquet_files.parallel_encoding import ParallelWriter, is_worth_threads
from bayou.engines.arrow.parquet_files.reader import dictionary_columns
from bayou.engines.arrow.parquet_files.statistics import StatisticsCollector
from bayou.engines.arrow.storage.os_errors import storage_errors
from bayou.errors import ArgumentError, SchemaError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import (
    DataFileStatus,
    FileStatus,
    FileSystemClient,
    ParquetWriteOptions,
)
from bayou.lazy_import import LazyModule
from bayou.protocol.stats import FileStatistics

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = LazyModule("pyarrow.parquet")

_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 128 << 20
"""Maximum size of a row group in memory, in bytes. A writer buffers one row group."""

_CHECKPOINT_ROW_GROUP_ROWS = 100_000
"""Maximum number of rows of a row group in a checkpoint of a Delta log. Small row groups enable
several tasks to read one checkpoint."""

_Codec: TypeAlias = Literal["gzip", "brotli", "lz4", "zstd", "snappy", "none"]

_CODECS: Final[dict[str, tuple[_Codec, str]]] = {
    "none": ("none", ""),
    "uncompressed": ("none", ""),
    "snappy": ("snappy", ".snappy"),
    "gzip": ("gzip", ".gz"),
    "zstd": ("zstd", ".zstd"),
    "brotli": ("brotli", ".br"),
    "lz4": ("lz4", ".lz4"),
    "lz4_raw": ("lz4", ".lz4raw"),
}
"""For each codec name in table properties: the codec name in pyarrow, and the extension that data
file names get."""


@closeable
def write_data_files(
    files: FileSystemClient,
    directory: str,
    batches: Iterable[pa.RecordBatch],
    statistics_columns: Sequence[str],
    options: ParquetWriteOptions,
) -> Iterator[DataFileStatus]:
    """Write files of about `options.target_file_size`; yield the status of each complete file.

    If `options.max_rows_per_file` is set, each file has exactly this number of rows, except for the
    last file and for files that reach the target size with fewer rows.
    """
    codec, extension = _codec(options.compression)
    group_bytes = min(_ROW_GROUP_BYTES, options.target_file_size)
    max_rows = options.max_rows_per_file
    pieces = _cut_at_multiples(_without_void(batches), max_rows)
    groups = _row_groups(pieces, min(_ROW_GROUP_ROWS, max_rows or _ROW_GROUP_ROWS), group_bytes)
    part = 0
    group = next(groups, None)
    while group is not None:
        name = f"{options.name_prefix}-{part:05d}-{uuid.uuid4()}-c000{extension}.parquet"
        path = f"{directory.rstrip('/')}/{name}"
        collector = StatisticsCollector(
            group.schema, statistics_columns, options.string_prefix_length
        )
        try:
            with files.open_output(path) as sink:
                rows = 0
                with _data_file(sink, with_logical_types(group), codec, path) as file:
                    while group is not None:
                        file.write(with_logical_types(group))
                        collector.add(group)
                        rows += group.num_rows
                        group = next(groups, None)
                        if group is not None and (
                            file.has_reached(options.target_file_size)
                            or (max_rows is not None and rows + group.num_rows > max_rows)
                        ):
                            break
                size = sink.tell()
        except BaseException:
            files.delete_files([path])
            raise
        yield _status(path, size, collector.finish(file.footer))
        part += 1


def write_atomically(
    files: FileSystemClient, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> FileStatus:
    """Write one file. Readers see it only when it is complete."""
    groups = _row_groups(batches, _CHECKPOINT_ROW_GROUP_ROWS, _ROW_GROUP_BYTES)
    with files.open_output(path) as sink:
        with _writer(sink, schema, "snappy", path, []) as writer:
            for group in groups:
                with _write_errors(path):
                    writer.write_table(group, row_group_size=_CHECKPOINT_ROW_GROUP_ROWS)
        size = sink.tell()
    return FileStatus(path=path, size=size, modification_time=_now())


@contextmanager
def _data_file(
    sink: IO[bytes], first: pa.Table, codec: _Codec, path: str
) -> Iterator[_SerialFile | _ParallelFile]:
    """Context manager that yields an object that writes row groups to `sink`.

    The end of the block writes the footer. The first row group selects the encodings, and whether
    several threads encode the file.

    Args:
        first: the first row group. This function doesn't write it.
    """
    with _write_errors(path):
        dictionary = dictionary_columns(first)
    if is_worth_threads(first):
        with ParallelWriter(
            sink, first.schema, lambda out, schema: _parquet_writer(out, schema, codec, dictionary)
        ) as parallel:
            file = _ParallelFile(sink, path, parallel)
            yield file
            with _write_errors(path):
                file.footer = parallel.finish()
        return
    footers: list[pq.FileMetaData] = []
    with _writer(sink, first.schema, codec, path, footers, dictionary) as writer:
        serial = _SerialFile(sink, path, writer)
        yield serial
    serial.footer = footers[0]


class _SerialFile:
    """Writes a small file in one thread; see `ParallelWriter` for large files."""

    footer: pq.FileMetaData

    def __init__(self, sink: IO[bytes], path: str, writer: pq.ParquetWriter) -> None:
        self._sink = sink
        self._path = path
        self._writer = writer

    def write(self, group: pa.Table) -> None:
        with _write_errors(self._path):
            self._writer.write_table(group, row_group_size=_ROW_GROUP_ROWS)

    def has_reached(self, size: int) -> bool:
        return self._sink.tell() >= size


class _ParallelFile:
    footer: pq.FileMetaData

    def __init__(self, sink: IO[bytes], path: str, writer: ParallelWriter) -> None:
        self._sink = sink
        self._path = path
        self._writer = writer
        self._in_progress = 0

    def write(self, group: pa.Table) -> None:
        self._in_progress = group.nbytes
        with _write_errors(self._path):
            self._writer.write(group)

    def has_reached(self, size: int) -> bool:
        # Wait for the row group in progress only if its size in memory could reach the limit.
        if self._sink.tell() + self._in_progress < size:
            return False
        with _write_errors(self._path):
            self._writer.flush()
        self._in_progress = 0
        return self._sink.tell() >= size


def _parquet_writer(
    sink: Any,
    schema: pa.Schema,
    codec: _Codec,
    dictionary: Any,  # a boolean, or paths of leaf columns
    footers: list[pq.FileMetaData] | None = None,
) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        schema,
        compression=codec,
        use_dictionary=dictionary,
        coerce_timestamps="us",
        store_decimal_as_integer=True,
        # The Arrow schema in the file would change how Arrow-based readers interpret its types.
        store_schema=False,
        # Readers such as Spark skip pages by the page index.
        write_page_index=True,
        metadata_collector=footers,
    )


@contextmanager
def _writer(  # noqa: PLR0917
    sink: IO[bytes],
    schema: pa.Schema,
    codec: _Codec,
    path: str,
    footers: list[pq.FileMetaData],
    dictionary: Any = True,
) -> Iterator[pq.ParquetWriter]:
    with _write_errors(path):
        writer = _parquet_writer(sink, schema, codec, dictionary, footers)
    try:
        yield writer
    except BaseException:
        writer.is_open = False  # otherwise, the writer would write a footer
        raise
    with _write_errors(path):
        writer.close()


@contextmanager
def _write_errors(path: str) -> Iterator[None]:
    """Context manager that translates pyarrow's write errors to a SchemaError or StorageError.

    Don't iterate over the batches in the block, because reading them can raise other errors.
    """
    with storage_errors(path, "write"):
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(
                f"{path}: the rows can't be written as Parquet: {error}", table=path
            ) from error


def _status(path: str, size: int, statistics: FileStatistics) -> DataFileStatus:
    return DataFileStatus(path=path, size=size, modification_time=_now(), statistics=statistics)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _codec(name: str) -> tuple[_Codec, str]:
    try:
        return _CODECS[name.lower()]
    except KeyError:
        raise ArgumentError(
            f"option compression or table property delta.parquet.compression.codec: unknown "
            f"Parquet codec {name!r}. Use one of {', '.join(_CODECS)}.",
            argument="compression",
        ) from None


def _row_groups(
    batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int
) -> Iterator[pa.Table]:
    buffered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for piece in _pieces(batch, max_rows, max_bytes):
            piece_size = piece.nbytes
            if buffered and (rows + piece.num_rows > max_rows or size + piece_size > max_bytes):
                yield pa.Table.from_batches(buffered)
                buffered, rows, size = [], 0, 0
            buffered.append(piece)
            rows += piece.num_rows
            size += piece_size
    if buffered:
        yield pa.Table.from_batches(buffered)


def _pieces(batch: pa.RecordBatch, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 0:
        return
    count = max(1, -(-batch.num_rows // max_rows), -(-batch.nbytes // max_bytes))
    step = -(-batch.num_rows // count)
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)


def _cut_at_multiples(
    batches: Iterable[pa.RecordBatch], rows: int | None
) -> Iterator[pa.RecordBatch]:
    """Split batches at each multiple of `rows`, counted across batches.

    If `rows` is None, the batches aren't split.
    """
    if rows is None:
        yield from batches
        return
    room = rows
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, room)
            yield piece
            start += piece.num_rows
            room = room - piece.num_rows or rows


def _without_void(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Remove columns and nested fields of type void, which Parquet doesn't support."""
    known: tuple[pa.Schema, pa.Schema] | None = None
    for batch in batches:
        if known is None or not known[0].equals(batch.schema, check_metadata=True):
            known = batch.schema, _schema_without_void(batch.schema)
        schema = known[1]
        if schema.equals(batch.schema):
            yield batch
            continue
        columns = []
        for field in schema:
            source = batch.schema.field(field.name)
            convert = converter(source, field, field.name, "the rows to write")
            column = batch.column(field.name)
            columns.append(column if convert is None else convert(column))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _schema_without_void(schema: pa.Schema) -> pa.Schema:
    return pa.schema([s for f in schema if (s := _field_without_void(f)) is not None])


def _field_without_void(field: pa.Field[Any]) -> pa.Field[Any] | None:
    if pa.types.is_null(field.type):
        return None
    if pa.types.is_struct(field.type):
        fields = children(field.type)
        remaining = [s for f in fields if (s := _field_without_void(f)) is not None]
        return field.with_type(pa.struct(remaining)) if remaining else None
    return field
