"""Parquet, as an engine reads and writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine.file_system import FileStatus
from bayou.kernel.expressions.model import Predicate
from bayou.protocol.stats import FileStatistics

__all__ = [
    "FIELD_ID_KEY",
    "METADATA_COLUMN_KEY",
    "ROW_INDEX",
    "VARIANT_KEY",
    "DataFileStatus",
    "FileSplit",
    "ParquetFooter",
    "ParquetHandler",
    "ParquetWriteOptions",
    "RowGroup",
]

METADATA_COLUMN_KEY = b"bayou.metadata_column"
"""Key in a field's Arrow metadata that makes it a metadata column of `read_parquet_files`."""

ROW_INDEX = b"row_index"
"""Value under `METADATA_COLUMN_KEY`: position of the row in its file, int64, from 0."""

FIELD_ID_KEY = b"PARQUET:field_id"
"""Key under which pyarrow keeps a Parquet field id in a field's metadata."""


VARIANT_KEY = b"bayou.variant"
"""Key in the metadata of a field of type `struct<metadata: binary, value: binary>` that makes it a
variant: a file may hold it shredded, and the handler puts it together. Its statistics are a null
count of its own, and no bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplit:
    """A Parquet file, or its row groups from the first to before the end one (None: all).

    Attributes:
        content: all bytes of the file, where the kernel has them at hand: a handler may read them
            instead of the file. They don't travel to other processes.
    """

    path: str
    size: int
    first_row_group: int = 0
    end_row_group: int | None = None
    content: bytes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Size of a Parquet row group: rows, and bytes on disk (compressed, all columns)."""

    num_rows: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileStatus:
    """A Parquet file just written. `statistics` has values by physical column name."""

    path: str
    size: int
    modification_time: int
    statistics: FileStatistics | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFooter:
    """What a Parquet file says of itself, without its rows.

    Attributes:
        schema: the file's columns in Arrow's types, with field ids (`FIELD_ID_KEY`) where it has
            them. INT96 is `timestamp[us, UTC]`.
        statistics: the number of rows, and of the columns asked for what the footer says rightly:
            no maximum of floats, which may be NaN, unless the writer is known to count it in
            (parquet-mr), and nothing within lists and maps.
        key_value_metadata: of the file, what isn't UTF-8 left out.
    """

    schema: pa.Schema
    statistics: FileStatistics
    key_value_metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetWriteOptions:
    """How data files are written.

    Attributes:
        compression: Parquet codec in lower case (`zstd`, `snappy`, `gzip`, `lz4_raw`, `none`).
        target_file_size: bytes after which a new file is begun.
        string_prefix_length: characters kept of a string bound in the statistics.
        name_prefix: how names of files begin: `part`, or `cdc` for change data files.
        max_rows_per_file: rows after which a new file is begun, None for any number.
    """

    compression: str = "zstd"
    target_file_size: int = 128 * 1024 * 1024
    string_prefix_length: int = 32
    name_prefix: str = "part"
    max_rows_per_file: int | None = None


class ParquetHandler(Protocol):
    """Parquet files to columns and back. Safe to be used from several threads."""

    def read_row_groups(self, file: FileStatus) -> Sequence[RowGroup]:
        """The file's row groups, from its footer.

        Raises:
            FileMissingError: no such file.
            StorageError: not a Parquet file, or cut off; names the file.
        """
        ...

    def read_footer(
        self, file: FileStatus, statistics_columns: Sequence[str] | None = ()
    ) -> ParquetFooter:
        """The file's schema and statistics, from its footer.

        Args:
            statistics_columns: dotted paths of the columns whose statistics are wanted; a struct
                stands for all below it. None: all columns.

        Raises:
            FileMissingError: no such file.
            StorageError: not a Parquet file, or cut off; names the file.
        """
        ...

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> CloseableIterator[pa.RecordBatch]:
        """Read columns of files, in the order of the files and of their rows.

        A column is found by its field id (`FIELD_ID_KEY` in the field's metadata) where the field
        has one, else by name; nested fields likewise. A missing nullable column or nested field is
        nulls. Values are cast to the schema's type where the cast loses nothing. Dates and
        timestamps that Spark wrote in its old calendar, as the footer says, come in the proleptic
        Gregorian one. A field with `METADATA_COLUMN_KEY` is filled by the handler. `predicate` is a
        hint over columns of `physical_schema`, by their names there: rows that can't match may be
        left out. Streams: memory is bounded by a few batches, not by a row group.

        Returns:
            Batches with exactly `physical_schema`, at most `batch_size` rows each.

        Raises:
            FileMissingError: no such file.
            StorageError: not a Parquet file, or cut off; names the file.
            SchemaError: a missing non-nullable column, or a type that can't be cast.
        """
        ...

    def write_parquet_files(
        self,
        directory: str,
        batches: Iterable[pa.RecordBatch],
        statistics_columns: Sequence[str],
        options: ParquetWriteOptions,
    ) -> CloseableIterator[DataFileStatus]:
        """Write batches of one schema to new files in `directory`, named as delta-spark does.

        A file is yielded once it is complete. No file for no rows. Statistics cover the leaf
        columns under the top-level columns named (dotted paths of physical names reach nested
        ones). On an error, or when the iterator is closed early, files that were not yielded are
        deleted.
        """
        ...

    def write_parquet_file_atomically(
        self, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> FileStatus:
        """Write one file, all or nothing, replacing what is there. For checkpoints."""
        ...
