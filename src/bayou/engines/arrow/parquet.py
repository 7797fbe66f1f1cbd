"""The Parquet handler of `ArrowEngine`, which uses pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from bayou.engines.arrow.parquet_files.footer import read_footer
from bayou.engines.arrow.parquet_files.projection_cache import ReadPlans
from bayou.engines.arrow.parquet_files.reader import OpenParquet, read_files
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine import (
    DataFileStatus,
    FileSplit,
    FileStatus,
    FileSystemClient,
    ParquetFooter,
    ParquetWriteOptions,
    RowGroup,
)
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.metrics import MetricsReporter


class ArrowParquetHandler:
    """Reads and writes Parquet with pyarrow, through the file system client."""

    def __init__(
        self, files: FileSystemClient, metrics_reporter: MetricsReporter | None = None
    ) -> None:
        self._files = files
        self._metrics_reporter = metrics_reporter
        self._plans = ReadPlans()

    def read_row_groups(self, file: FileStatus) -> Sequence[RowGroup]:
        with OpenParquet(self._files, file.path, file.size) as opened:
            metadata = opened.checked_footer()
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            return [
                RowGroup(
                    num_rows=group.num_rows,
                    total_bytes=sum(
                        group.column(i).total_compressed_size for i in range(group.num_columns)
                    ),
                )
                for group in groups
            ]

    def read_footer(
        self, file: FileStatus, statistics_columns: Sequence[str] | None = ()
    ) -> ParquetFooter:
        return read_footer(self._files, file, statistics_columns)

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> CloseableIterator[pa.RecordBatch]:
        return read_files(
            self._files,
            files,
            self._plans.plan(physical_schema, predicate),
            batch_size=batch_size,
            reporter=self._metrics_reporter,
        )

    def write_parquet_files(
        self,
        directory: str,
        batches: Iterable[pa.RecordBatch],
        statistics_columns: Sequence[str],
        options: ParquetWriteOptions,
    ) -> CloseableIterator[DataFileStatus]:
        from bayou.engines.arrow.parquet_files.writer import write_data_files

        return write_data_files(self._files, directory, batches, statistics_columns, options)

    def write_parquet_file_atomically(
        self, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> FileStatus:
        from bayou.engines.arrow.parquet_files.writer import write_atomically

        return write_atomically(self._files, path, schema, batches)
