"""Reading Parquet files in batches, and the choice of dictionary columns for writing.

A dictionary of values that rarely repeat takes a third of the writing time and more space: the
writer hashes values until the dictionary is full, and then abandons it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.engines.arrow.parquet_files.metrics import report_metrics
from bayou.engines.arrow.parquet_files.projection import Projection
from bayou.engines.arrow.parquet_files.projection_cache import ReadPlan
from bayou.engines.arrow.parquet_files.ranged_input import Chunk, RangedInput
from bayou.engines.footer_check import FooterError, check_footer, footer_range
from bayou.engines.legacy_calendar import mark_legacy_fields
from bayou.errors import StorageError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import FileSplit, FileSystemClient
from bayou.kernel.metrics import MetricsReporter

__all__ = ["OpenParquet", "dictionary_columns", "read_files"]


_parquet: Any = pq.core

_READ_BUFFER = 512 * 1024
"""Bytes read ahead for each column: a column chunk may be much larger than a batch."""

_WORTH_THREADS = 200_000
"""Number of values above which decoding in threads is faster."""


class OpenParquet:
    """A Parquet file that is open in a `with` block.

    pyarrow's errors about the file in the block become a `StorageError`.

    Attributes:
        reader: pyarrow's reader; `pq.ParquetFile` is slower for small files.
        metadata: the footer; access its columns only after `checked_footer`.
        remote: the input if each read is a request, so that whole chunks are fetched; else None.

    Args:
        files: the file system client.
        path: path of the file.
        size: size of the file in bytes, None if unknown.
        content: content of the file if it is already in memory.

    Raises:
        FileMissingError: the file doesn't exist.
        StorageError: the file isn't a Parquet file, or is truncated.
    """

    __slots__ = ("_path", "_source", "metadata", "reader", "remote")

    def __init__(
        self, files: FileSystemClient, path: str, size: int | None, content: bytes | None = None
    ) -> None:
        self._path = path
        source: Any = files.open_input(path, size) if content is None else pa.BufferReader(content)
        self.remote: RangedInput | None = None
        if not isinstance(source, pa.NativeFile):
            source = self.remote = RangedInput(source, files, path, size)
        self._source = source
        self.reader = _parquet.ParquetReader()
        try:
            self.reader.open(
                source,
                buffer_size=0 if self.remote else _READ_BUFFER,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
                arrow_extensions_enabled=True,
            )
            self.metadata: pq.FileMetaData = self.reader.metadata
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def schema(self) -> pa.Schema:
        """The file's schema, with metadata on fields in Spark's legacy calendar."""
        return mark_legacy_fields(self.reader.schema_arrow, self.metadata.schema)

    def checked_footer(self) -> pq.FileMetaData:
        """The footer after validation; accessing a damaged footer may abort the process.

        Raises:
            StorageError: the footer is damaged.
        """
        size = self._source.seek(0, io.SEEK_END)
        self._source.seek(max(0, size - 8))
        footer = footer_range(self._source.read(8), size)
        if footer is not None:
            self._source.seek(footer[0])
            try:
                check_footer(self._source.read(footer[1]))
            except FooterError as error:
                raise StorageError(
                    f"{self._path}: can't read as Parquet, the file is damaged: {error}",
                    path=self._path,
                ) from error
        return self.metadata

    def chunks(self, group: int, leaves: Sequence[int]) -> list[Chunk]:
        """Byte ranges of leaf columns in a row group."""
        row_group = self.metadata.row_group(group)
        return [_chunk(row_group.column(leaf)) for leaf in leaves]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._source.close()
        if isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError):
            raise StorageError(
                f"{self._path}: can't read as Parquet, the file is damaged or truncated: {error}",
                path=self._path,
            ) from error


@closeable
def read_files(
    files: FileSystemClient,
    splits: Iterable[FileSplit],
    plan: ReadPlan,
    *,
    batch_size: int,
    reporter: MetricsReporter | None,
) -> Iterator[pa.RecordBatch]:
    """Read batches with the plan's schema, one split after the other."""
    for split in splits:
        with OpenParquet(files, split.path, split.size, split.content) as opened:
            schema = opened.schema()
            if (
                opened.remote is not None
                or reporter is not None
                or plan.row_group_filter.needs_bounds
            ):
                opened.checked_footer()
            projection = plan.projection(schema, split.path)
            end = opened.metadata.num_row_groups
            if split.end_row_group is not None:
                end = min(end, split.end_row_group)
            groups = range(split.first_row_group, end)
            selected = plan.row_group_filter.select(opened.metadata, schema, groups)
            batches = _read_row_groups(opened, selected, projection, split.path, batch_size)
            if reporter is not None:
                batches = report_metrics(
                    reporter,
                    batches,
                    split.path,
                    opened.metadata,
                    row_groups=selected,
                    leaves=projection.leaves,
                    candidates=len(groups),
                )
            yield from batches


def _read_row_groups(
    opened: OpenParquet, selected: Sequence[int], projection: Projection, path: str, batch_size: int
) -> Iterator[pa.RecordBatch]:
    if opened.remote is not None:
        opened.remote.prefetch(opened.chunks(group, projection.leaves) for group in selected)
    metadata = opened.metadata
    starts = [0]
    for i in range(max(selected, default=-1) + 1):
        starts.append(starts[-1] + metadata.row_group(i).num_rows)
    for run in _runs(selected, max_length=len(selected) if opened.remote is None else 1):
        row, end = starts[run[0]], starts[run[-1] + 1]
        if not projection.leaves:
            for first in range(row, end, batch_size):
                yield projection.apply(None, min(batch_size, end - first), first, path)
            continue
        # By leaf index: dotted paths are ambiguous if names contain dots.
        batches = opened.reader.iter_batches(
            batch_size,
            row_groups=run,
            column_indices=projection.leaves,
            use_threads=(end - row) * len(projection.leaves) >= _WORTH_THREADS,
        )
        for batch in batches:
            yield projection.apply(batch, batch.num_rows, row, path)
            row += batch.num_rows


def _chunk(column: pq.ColumnChunkMetaData) -> Chunk:
    """Byte range of a column chunk, which begins with its dictionary if it has one."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        start = min(start, column.dictionary_page_offset)
    return Chunk(start, column.total_compressed_size)


def _runs(numbers: Sequence[int], max_length: int) -> Iterator[list[int]]:
    """Runs of consecutive numbers, each of at most `max_length` numbers."""
    if not numbers:
        return
    run = [numbers[0]]
    for before, number in pairwise(numbers):
        if number != before + 1 or len(run) == max_length:
            yield run
            run = []
        run.append(number)
    yield run


_SAMPLE_ROWS = 8192
_HARDLY_REPEATING = 0.9
"""Fraction of distinct values in a sample above which a column has no dictionary."""


def dictionary_columns(rows: pa.Table) -> bool | list[str]:
    """Paths of the leaf columns to write with a dictionary; True for all columns.

    The first rows of a file decide. Nested columns and the columns of short files always have one.
    """
    if rows.num_rows < _SAMPLE_ROWS:
        return True
    sample = rows.slice(0, _SAMPLE_ROWS)
    plain = {name for name in rows.schema.names if _hardly_repeats(sample.column(name))}
    if not plain:
        return True
    return [path for path in _leaf_paths(rows.schema) if path not in plain]


def _hardly_repeats(column: pa.ChunkedArray[Any]) -> bool:
    if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    values = len(column) - column.null_count
    distinct = pc.count_distinct(column).as_py()
    return bool(distinct > _HARDLY_REPEATING * values > 0.5 * _HARDLY_REPEATING * len(column))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    """Paths of the leaf columns in Parquet's notation."""
    footers: list[pq.FileMetaData] = []
    with pq.ParquetWriter(io.BytesIO(), schema, metadata_collector=footers):
        pass
    columns = footers[0].schema
    return [columns.column(i).path for i in range(len(columns))]
