"""A Parquet writer that encodes the columns of a row group in parallel.

pyarrow encodes a file in one thread. In this writer, each thread encodes some columns of a row
group as a Parquet file in memory. The pages of these files are copied to the final file. This is
possible because pages contain no file offsets. The footers and the page indexes are merged.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa

from bayou.engines.thrift_compact import (
    INT32,
    INT64,
    LIST,
    STRUCT,
    ThriftStruct,
    decode_struct,
    decode_zigzag,
    encode_struct,
    encode_zigzag,
)
from bayou.lazy_import import LazyModule

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = LazyModule("pyarrow.parquet")

_MAGIC = b"PAR1"
_TAIL = 8
"""Number of bytes after the footer: the footer's length and the magic bytes `PAR1`."""

_WORTH_THREADS = 8 << 20
"""Minimum size of a file's first row group in memory, in bytes. Smaller files are encoded in one
thread."""

_MAX_THREADS = 8
_RUNS_PER_THREAD = 4

# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData (parquet.thrift).
_NUM_ROWS, _ROW_GROUPS = (3, INT64), (4, LIST)
_COLUMNS, _TOTAL_BYTES, _GROUP_ROWS = (1, LIST), (2, INT64), (3, INT64)
_GROUP_OFFSET, _COMPRESSED_BYTES = (5, INT64), (6, INT64)
_CHUNK_OFFSET, _CHUNK = (2, INT64), (3, STRUCT)
_OFFSET_INDEX, _COLUMN_INDEX = ((4, INT64), (5, INT32)), ((6, INT64), (7, INT32))
"""Fields of the Thrift struct ColumnChunk, as (number, type). Each index of a column chunk has two
fields: its position in the file, and its length."""
_PAGE_OFFSETS = ((9, INT64), (10, INT64), (11, INT64))
# Fields of OffsetIndex and PageLocation.
_PAGE_LOCATIONS, _PAGE_OFFSET = (1, LIST), (1, INT64)

NewWriter: TypeAlias = "Callable[[Any, pa.Schema], pq.ParquetWriter]"
_IndexFields: TypeAlias = tuple[tuple[int, int], tuple[int, int]]


def is_worth_threads(first: pa.Table) -> bool:
    """Whether a file is large enough to be written by several threads.

    Args:
        first: the first row group of the file.
    """
    return pa.cpu_count() > 1 and first.num_columns > 1 and first.nbytes >= _WORTH_THREADS


class ParallelWriter:
    """Writes one Parquet file, a row group at a time. Leaving its `with` block stops the threads.

    Args:
        sink: the file to write to; the caller closes it.
    """

    def __init__(self, sink: IO[bytes], schema: pa.Schema, new_writer: NewWriter) -> None:
        self._sink = sink
        self._schema = schema
        self._new_writer = new_writer
        self._threads = min(pa.cpu_count(), _MAX_THREADS, len(schema))
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="bayou-encode")
        self._pending: list[Future[_Encoded]] = []
        self._groups: list[ThriftStruct] = []
        self._column_indexes: list[tuple[ThriftStruct, bytes]] = []
        self._offset_indexes: list[tuple[ThriftStruct, bytes]] = []
        self._num_rows = 0
        self._size = sink.write(_MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def write(self, group: pa.Table) -> None:
        """Write the previous row group to the file, then start to encode `group`."""
        self.flush()
        runs = list(_runs(group, self._threads * _RUNS_PER_THREAD))
        # Start with the largest run of columns, because it takes the longest.
        largest = sorted(range(len(runs)), key=lambda i: -runs[i].nbytes)
        started = {i: self._pool.submit(self._encode, runs[i]) for i in largest}
        self._pending = [started[i] for i in range(len(runs))]

    def flush(self) -> None:
        """Wait until the row group in progress is encoded, then write the row group to the file."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        start = self._size
        chunks: list[ThriftStruct] = []
        total = compressed = rows = 0
        for future in pending:
            encoded = future.result()
            moved_by = self._size - len(_MAGIC)
            for chunk in encoded.group[_COLUMNS][1]:
                if (column_index := encoded.index(chunk, _COLUMN_INDEX)) is not None:
                    self._column_indexes.append((chunk, column_index))
                if (offset_index := encoded.index(chunk, _OFFSET_INDEX)) is not None:
                    self._offset_indexes.append((chunk, _moved_index(offset_index, moved_by)))
                _move(chunk, moved_by)
                chunks.append(chunk)
            self._sink.write(encoded.pages)
            self._size += len(encoded.pages)
            total += decode_zigzag(encoded.group[_TOTAL_BYTES])
            compressed += decode_zigzag(encoded.group[_COMPRESSED_BYTES])
            rows = decode_zigzag(encoded.group[_GROUP_ROWS])
        self._num_rows += rows
        self._groups.append(
            {
                _COLUMNS: (STRUCT, chunks),
                _TOTAL_BYTES: encode_zigzag(total),
                _GROUP_ROWS: encode_zigzag(rows),
                _GROUP_OFFSET: encode_zigzag(start),
                _COMPRESSED_BYTES: encode_zigzag(compressed),
            }
        )

    def finish(self) -> pq.FileMetaData:
        """Write the last row group, the page indexes and the footer; return the footer."""
        self.flush()
        for fields, indexes in (
            (_COLUMN_INDEX, self._column_indexes),
            (_OFFSET_INDEX, self._offset_indexes),
        ):
            for chunk, index in indexes:
                self._write_index(chunk, fields, index)
        template = io.BytesIO()
        self._new_writer(template, self._schema).close()
        footer = _footer(template.getbuffer())
        footer[_NUM_ROWS] = encode_zigzag(self._num_rows)
        footer[_ROW_GROUPS] = (STRUCT, self._groups)
        data = encode_struct(footer)
        tail = data + len(data).to_bytes(4, "little") + _MAGIC
        self._sink.write(tail)
        return pq.read_metadata(pa.BufferReader(_MAGIC + tail))

    def _write_index(self, chunk: ThriftStruct, fields: _IndexFields, index: bytes) -> None:
        position, length = fields
        chunk[position] = encode_zigzag(self._size)
        chunk[length] = encode_zigzag(len(index))
        self._size += self._sink.write(index)

    def _encode(self, run: pa.Table) -> _Encoded:
        out = pa.BufferOutputStream()
        writer = self._new_writer(out, run.schema)
        try:
            writer.write_table(run, row_group_size=max(1, run.num_rows))
        except BaseException:
            writer.is_open = False
            raise
        writer.close()
        return _Encoded(memoryview(out.getvalue()))


class _Encoded:
    """The parts of an encoded Parquet file that has one row group.

    `pages` are the bytes between the magic bytes and the page indexes; `group` is the row group in
    the footer.
    """

    __slots__ = ("_data", "group", "pages")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        (self.group,) = _footer(data)[_ROW_GROUPS][1]
        end = len(data) - _TAIL - _footer_length(data)
        for chunk in self.group[_COLUMNS][1]:
            for position, _ in (_COLUMN_INDEX, _OFFSET_INDEX):
                if position in chunk:
                    end = min(end, decode_zigzag(chunk[position]))
        self.pages = data[len(_MAGIC) : end]

    def index(self, chunk: ThriftStruct, fields: _IndexFields) -> bytes | None:
        """Return the bytes of a page index; None if the column chunk doesn't have the index.

        Args:
            fields: two field numbers of the Thrift struct `chunk`. The first field is the position
                of the index, the second field is the length of the index.
        """
        position, length = fields
        if position not in chunk:
            return None
        start = decode_zigzag(chunk[position])
        return bytes(self._data[start : start + decode_zigzag(chunk[length])])


def _runs(group: pa.Table, count: int) -> Iterator[pa.Table]:
    """Divide the columns of a row group into at most `count` tables of similar size.

    Each table contains adjacent columns.
    """
    names: Sequence[str] = group.schema.names
    min_size = group.nbytes / count
    first, size = 0, 0
    for i, column in enumerate(group.columns):
        size += column.nbytes
        if size >= min_size or i == len(names) - 1:
            yield group.select(list(range(first, i + 1)))
            first, size = i + 1, 0


def _move(chunk: ThriftStruct, by: int) -> None:
    metadata = chunk[_CHUNK]
    for name in _PAGE_OFFSETS:
        if name in metadata:
            metadata[name] = encode_zigzag(decode_zigzag(metadata[name]) + by)
    if chunk.get(_CHUNK_OFFSET):
        chunk[_CHUNK_OFFSET] = encode_zigzag(decode_zigzag(chunk[_CHUNK_OFFSET]) + by)


def _moved_index(index: bytes, by: int) -> bytes:
    """Return an offset index with the positions of all pages increased by `by` bytes."""
    fields = decode_struct(index)
    for page in fields[_PAGE_LOCATIONS][1]:
        page[_PAGE_OFFSET] = encode_zigzag(decode_zigzag(page[_PAGE_OFFSET]) + by)
    return encode_struct(fields)


def _footer_length(data: memoryview) -> int:
    return int.from_bytes(data[-_TAIL : -_TAIL + 4], "little")


def _footer(data: memoryview) -> ThriftStruct:
    return decode_struct(bytes(data[len(data) - _TAIL - _footer_length(data) : -_TAIL]))
