"""Reads Parquet files in batches, and selects the columns to write with dictionary encoding.

Columns whose values rarely repeat are written without a dictionary. For these columns, dictionary
encoding would take a third of the writing time. It would also enlarge the file: when the dictionary
is full, the writer stores all later values in plain encoding, in addition to the dictionary.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from bayou.engines.arrow.parquet_files.projection import Projection
from bayou.engines.arrow.parquet_files.projection_cache import ReadPlan
from bayou.engines.arrow.parquet_files.ranged_input import Chunk, RangedInput
from bayou.engines.arrow.parquet_files.string_decoding import decoding_options, fitting_batches
from bayou.engines.footer_check import FooterError, check_footer, footer_range
from bayou.engines.legacy_calendar import mark_legacy_fields
from bayou.errors import StorageError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import FileSplit, FileSystemClient
from bayou.kernel.metrics import FileReadReport, MetricsReporter, measured
from bayou.lazy_import import LazyModule

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = LazyModule("pyarrow.parquet")

_parquet: Any = LazyModule("pyarrow._parquet")
"""The module of `ParquetReader`. It is imported directly, because the import of `pyarrow.parquet`
also imports the clients of all object stores."""

_READ_BUFFER = 512 * 1024
"""Size of the read buffer of each column in bytes; a column chunk may be much larger."""

_WORTH_THREADS = 200_000
"""Minimum number of values (rows times leaf columns) for decoding in several threads."""


class OpenParquet:
    """A Parquet file that is open in a `with` block.

    pyarrow's errors in the block are raised as a `StorageError` that names the file.

    Attributes:
        reader: pyarrow's reader; `pq.ParquetFile` is slower for small files.
        metadata: the footer. Call `checked_footer` before you access the footer's columns.
        has_checked_footer: whether `checked_footer` was called.
        remote: the input of a remote file; None for a file that is local or in memory.
    """

    __slots__ = ("_path", "_source", "has_checked_footer", "metadata", "reader", "remote")

    def __init__(
        self, files: FileSystemClient, path: str, size: int | None, content: bytes | None = None
    ) -> None:
        self._path = path
        self.has_checked_footer = False
        source: Any = files.open_input(path, size) if content is None else pa.BufferReader(content)
        self.remote: RangedInput | None = None
        if not isinstance(source, pa.NativeFile):
            source = self.remote = RangedInput(source, files, path, size)
        self._source = source
        try:
            self._open()
            self.metadata: pq.FileMetaData = self.reader.metadata
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def _open(self, **options: Any) -> None:
        self.reader = _parquet.ParquetReader()
        self.reader.open(
            self._source,
            buffer_size=0 if self.remote else _READ_BUFFER,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=True,
            **options,
        )

    def decode_strings_faster(
        self,
        schema: pa.Schema,
        leaves: Sequence[int],
        groups: Sequence[int],
        *,
        dictionaries: bool,
    ) -> bool:
        """Replace `reader` by a reader that decodes strings faster, if there is one.

        The new reader decodes string columns as `large_string` or as dictionary arrays.

        Args:
            schema: the current result of `schema()`.
            leaves: indexes of the leaf columns to decode.
            groups: indexes of the row groups to decode.
            dictionaries: whether the caller converts columns to dictionary arrays.

        Returns:
            Whether the reader was replaced. If True, the result of `schema` has changed.
        """
        options = decoding_options(self, schema, leaves, groups, dictionaries=dictionaries)
        if options is not None:
            self._open(metadata=self.metadata, **options)
        return options is not None

    def schema(self) -> pa.Schema:
        """Return the file's schema.

        The metadata of a field says whether the field's values are in Spark's legacy calendar.
        """
        return mark_legacy_fields(self.reader.schema_arrow, self.metadata.schema)

    def checked_footer(self) -> pq.FileMetaData:
        """Validate the footer and return it.

        Without this validation, pyarrow can abort the process when it reads a damaged footer.
        """
        if self.has_checked_footer:
            return self.metadata
        size = self._source.seek(0, io.SEEK_END)
        self._source.seek(max(0, size - 8))
        footer = footer_range(self._source.read(8), size)
        if footer is not None:
            self._source.seek(footer[0])
            try:
                check_footer(self._source.read(footer[1]))
            except FooterError as error:
                raise StorageError(
                    f"{self._path}: can't be read as Parquet, because the file is damaged: {error}",
                    path=self._path,
                ) from error
        self.has_checked_footer = True
        return self.metadata

    def chunks(self, group: int, leaves: Sequence[int]) -> list[Chunk]:
        row_group = self.metadata.row_group(group)
        return [_chunk(row_group.column(leaf)) for leaf in leaves]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self._source.close()
        if isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError):
            raise StorageError(
                f"{self._path}: can't be read as Parquet, because the file is damaged or "
                f"truncated: {error}",
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
    """Yield the rows of the file splits in order, in the requested schema of `plan`."""
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
            if not projection.converts and opened.decode_strings_faster(
                schema, projection.leaves, selected, dictionaries=projection.encodes
            ):
                projection = plan.projection(opened.schema(), split.path)
            batches = _read_row_groups(opened, selected, projection, split.path, batch_size)
            if reporter is not None:
                batches = _report_metrics(
                    reporter,
                    batches,
                    split.path,
                    opened.metadata,
                    selected=selected,
                    skipped=len(groups) - len(selected),
                    leaves=projection.leaves,
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
        for decoded in batches:
            for batch in fitting_batches(decoded):
                yield projection.apply(batch, batch.num_rows, row, path)
                row += batch.num_rows


def _report_metrics(
    reporter: MetricsReporter,
    batches: Iterator[pa.RecordBatch],
    path: str,
    footer: pq.FileMetaData,
    *,
    selected: Sequence[int],
    skipped: int,
    leaves: Sequence[int],
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file unchanged, and report metrics when the iterator ends or fails.

    Args:
        selected: indexes of the row groups that are read.
        skipped: number of row groups that are skipped.
        leaves: indexes of the leaf columns that are decoded.
    """
    rows = 0

    def report(duration_ms: float, _: str | None) -> FileReadReport:
        starts = accumulate((footer.row_group(group).num_rows for group in selected), initial=0)
        groups = [group for group, start in zip(selected, starts, strict=False) if start < rows]
        return FileReadReport(
            path=path,
            duration_ms=duration_ms,
            rows=rows,
            bytes_read=sum(
                footer.row_group(group).column(leaf).total_compressed_size
                for group in groups
                for leaf in leaves
            ),
            row_groups_read=len(groups),
            row_groups_skipped=skipped,
        )

    with measured(reporter, report) as watch:
        for batch in batches:
            rows += batch.num_rows
            with watch.paused():
                yield batch


def _chunk(column: pq.ColumnChunkMetaData) -> Chunk:
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        start = min(start, column.dictionary_page_offset)
    return Chunk(start, column.total_compressed_size)


def _runs(numbers: Sequence[int], max_length: int) -> Iterator[list[int]]:
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
"""Maximum fraction of distinct values in a sample of a column. A column with a higher fraction is
written without a dictionary."""


def dictionary_columns(rows: pa.Table) -> bool | list[str]:
    """Return the paths of the leaf columns to write with dictionary encoding; True for all columns.

    A top-level column is excluded if its values rarely repeat in the first `_SAMPLE_ROWS` rows. If
    the file has fewer rows, no column is excluded. Nested columns are never excluded.

    Args:
        rows: the first row group of the file.
    """
    if rows.num_rows < _SAMPLE_ROWS:
        return True
    sample = rows.slice(0, _SAMPLE_ROWS)
    plain = {name for name in rows.schema.names if _hardly_repeats(sample.column(name))}
    if not plain:
        return True
    return [path for path in _leaf_paths(rows.schema) if path not in plain]


def _hardly_repeats(column: pa.ChunkedArray[Any]) -> bool:
    if (
        pa.types.is_nested(column.type)
        or pa.types.is_boolean(column.type)
        or isinstance(column.type, pa.BaseExtensionType)
    ):
        return False
    values = len(column) - column.null_count
    distinct = pc.count_distinct(column).as_py()
    return bool(distinct > _HARDLY_REPEATING * values > 0.5 * _HARDLY_REPEATING * len(column))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    footers: list[pq.FileMetaData] = []
    with pq.ParquetWriter(io.BytesIO(), schema, metadata_collector=footers):
        pass
    columns = footers[0].schema
    return [columns.column(i).path for i in range(len(columns))]
