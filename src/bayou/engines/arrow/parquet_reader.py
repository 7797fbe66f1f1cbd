"""Reading Parquet files in batches, with the memory of a few batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.engines.arrow.parquet_metrics import measured
from bayou.engines.arrow.projection import Projection
from bayou.engines.arrow.ranged_input import Chunk, RangedInput
from bayou.engines.arrow.row_groups import RowGroupFilter
from bayou.engines.legacy_calendar import marked
from bayou.errors import StorageError
from bayou.kernel.closeable import closeable
from bayou.kernel.engine import FileSplit, FileSystemClient
from bayou.kernel.metrics import MetricsReporter
from bayou.kernel.predicates.model import Predicate

__all__ = ["OpenParquet", "open_parquet", "read_files"]

_READ_BUFFER = 512 * 1024
"""Bytes read ahead a column: a column chunk may be far larger than the batch asked for."""

_WORTH_THREADS = 200_000
"""Values from which decoding by threads is faster than waking them."""


class OpenParquet(NamedTuple):
    """An open file; `remote` where reads cost a request each, so that whole chunks are fetched."""

    file: pq.ParquetFile
    remote: RangedInput | None

    def schema(self) -> pa.Schema:
        """The file's, with marks where dates are in Spark's old calendar."""
        return marked(self.file.schema_arrow, self.file.schema)

    def chunks(self, group: int, leaves: Sequence[int]) -> list[Chunk]:
        """Where the bytes of leaf columns of a row group are."""
        row_group = self.file.metadata.row_group(group)
        return [_chunk(row_group.column(leaf)) for leaf in leaves]


@contextmanager
def open_parquet(
    files: FileSystemClient, path: str, size: int | None, content: bytes | None = None
) -> Iterator[OpenParquet]:
    """The Parquet file at `path`; what pyarrow says of its bytes becomes a `StorageError`.

    Args:
        content: the file's bytes, where they are at hand.

    Raises:
        FileMissingError: no such file.
        StorageError: not a Parquet file, or cut off.
    """
    source: Any = files.open_input(path, size) if content is None else pa.BufferReader(content)
    remote: RangedInput | None = None
    if not isinstance(source, pa.NativeFile):
        source = remote = RangedInput(source, files, path, size)
    with closing(source):
        try:
            file = pq.ParquetFile(
                source,
                buffer_size=_READ_BUFFER if remote is None else 0,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
            )
            yield OpenParquet(file, remote)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise StorageError(
                f"can't read {path} as Parquet, it is damaged or cut off: {error}", path=path
            ) from error


@closeable
def read_files(
    files: FileSystemClient,
    splits: Iterable[FileSplit],
    wanted: pa.Schema,
    predicate: Predicate | None,
    *,
    batch_size: int,
    reporter: MetricsReporter | None,
) -> Iterator[pa.RecordBatch]:
    """Batches of exactly `wanted`, of one split after the other."""
    known: tuple[pa.Schema, Projection] | None = None
    matching = RowGroupFilter(wanted, predicate)
    for split in splits:
        with open_parquet(files, split.path, split.size, split.content) as opened:
            schema = opened.schema()
            if known is None or not known[0].equals(schema, check_metadata=True):
                known = schema, Projection(schema, wanted, split.path)
            end = opened.file.metadata.num_row_groups
            if split.end_row_group is not None:
                end = min(end, split.end_row_group)
            groups = range(split.first_row_group, end)
            kept = matching.keep(opened.file.metadata, schema, groups)
            batches = _read_row_groups(opened, kept, known[1], split.path, batch_size)
            if reporter is not None:
                footer, leaves = opened.file.metadata, known[1].leaves
                batches = measured(
                    reporter,
                    batches,
                    split.path,
                    footer,
                    kept=kept,
                    leaves=leaves,
                    candidates=len(groups),
                )
            yield from batches


def _read_row_groups(
    opened: OpenParquet, kept: Sequence[int], projection: Projection, path: str, batch_size: int
) -> Iterator[pa.RecordBatch]:
    if opened.remote is not None:
        opened.remote.expect(opened.chunks(group, projection.leaves) for group in kept)
    metadata = opened.file.metadata
    starts = [0]
    for i in range(max(kept, default=-1) + 1):
        starts.append(starts[-1] + metadata.row_group(i).num_rows)
    for run in _runs(kept, longest=len(kept) if opened.remote is None else 1):
        row, end = starts[run[0]], starts[run[-1] + 1]
        if not projection.leaves:
            for first in range(row, end, batch_size):
                yield projection.apply(None, min(batch_size, end - first), first, path)
            continue
        # By leaf index: a dotted path is ambiguous where names have dots.
        batches = opened.file.reader.iter_batches(
            batch_size,
            row_groups=run,
            column_indices=projection.leaves,
            use_threads=(end - row) * len(projection.leaves) >= _WORTH_THREADS,
        )
        for batch in batches:
            yield projection.apply(batch, batch.num_rows, row, path)
            row += batch.num_rows


def _chunk(column: pq.ColumnChunkMetaData) -> Chunk:
    """A column chunk begins with its dictionary, where it has one."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        start = min(start, column.dictionary_page_offset)
    return Chunk(start, column.total_compressed_size)


def _runs(numbers: Sequence[int], longest: int) -> Iterator[list[int]]:
    """Neighbours together, at most `longest` of them."""
    if not numbers:
        return
    run = [numbers[0]]
    for before, number in pairwise(numbers):
        if number != before + 1 or len(run) == longest:
            yield run
            run = []
        run.append(number)
    yield run
