"""The Parquet handler of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine.file_system import FileStatus
from bayou.kernel.expressions.model import Predicate
from bayou.protocol.stats import FileStatistics

METADATA_COLUMN_KEY = b"bayou.metadata_column"
"""Key in a field's Arrow metadata that marks a metadata column, which the handler computes.

The value says which metadata column it is, such as `ROW_INDEX`.
"""

ROW_INDEX = b"row_index"
"""Value of `METADATA_COLUMN_KEY` for the row index: the row's position in the file, from 0."""

FIELD_ID_KEY = b"PARQUET:field_id"
"""Key of the Parquet field id in the metadata of a pyarrow field."""


VARIANT_KEY = b"bayou.variant"
"""Key in a field's metadata that marks a `struct<metadata: binary, value: binary>` as a variant.

When the handler reads a shredded variant, it returns the unshredded variant. Statistics of a
variant contain the null count, but no bounds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplit:
    """A Parquet file, or a range of its row groups.

    Attributes:
        first_row_group: index of the first row group.
        end_row_group: index after the last row group. If None, the split extends to the end of the
            file.
        content: all bytes of the file, if the kernel has already read them. Handlers use these
            bytes instead of reading the file. `content` isn't serialized.

    Examples:
        >>> split = FileSplit(path=file.status.path, size=file.size, end_row_group=1)
        >>> with engine.parquet.read_parquet_files([split], state.physical_read_schema) as batches:
        ...     print(sum(batch.num_rows for batch in batches))
    """

    path: str
    size: int
    first_row_group: int = 0
    end_row_group: int | None = None
    content: bytes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Number of rows in a Parquet row group, and total compressed size of its columns in bytes.

    Examples:
        >>> for group in engine.parquet.read_row_groups(file.status):
        ...     print(group.num_rows, group.total_bytes)
    """

    num_rows: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileStatus:
    """A Parquet file that was just written. `statistics` uses physical column names.

    Examples:
        >>> status = engine.files.status(file.status.path)
        >>> written = DataFileStatus(
        ...     path=status.path,
        ...     size=status.size,
        ...     modification_time=status.modification_time,
        ...     statistics=FileStatistics(num_records=2),
        ... )
    """

    path: str
    size: int
    modification_time: int
    statistics: FileStatistics | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFooter:
    """The footer of a Parquet file.

    Attributes:
        schema: the file's columns with Arrow types, and field ids (`FIELD_ID_KEY`) if present.
            INT96 is `timestamp[us, UTC]`.
        statistics: the number of rows, and the statistics of the requested columns. Maxima of float
            columns are included only if parquet-mr wrote the file, because other writers may ignore
            NaN. Columns within lists and maps have no statistics.
        key_value_metadata: the file's metadata, without entries that aren't UTF-8.
        dictionary_columns: top-level string columns that are read faster as dictionary arrays,
            because they have few different values.
    """

    schema: pa.Schema
    statistics: FileStatistics
    key_value_metadata: Mapping[str, str]
    dictionary_columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetWriteOptions:
    """Options for writing data files.

    Attributes:
        compression: Parquet codec in lower case (`zstd`, `snappy`, `gzip`, `lz4_raw`, `none`).
        target_file_size: size in bytes after which a new file is started.
        string_prefix_length: maximum number of characters of string bounds in the statistics.
        name_prefix: prefix of file names: `part`, or `cdc` for change data files.
        max_rows_per_file: number of rows after which a new file is started; None for no limit.

    Examples:
        >>> options = ParquetWriteOptions(compression="snappy", target_file_size=64 * 1024 * 1024)
        >>> rows = [pa.record_batch({"id": [1, 2]})]
        >>> with engine.parquet.write_parquet_files("lake/files", rows, ["id"], options) as files:
        ...     print([written.statistics.num_records for written in files])
    """

    compression: str = "zstd"
    target_file_size: int = 128 * 1024 * 1024
    string_prefix_length: int = 32
    name_prefix: str = "part"
    max_rows_per_file: int | None = None


class ParquetHandler(Protocol):
    """Reads and writes Parquet files. Thread-safe.

    Examples:
        >>> split = FileSplit(path=file.status.path, size=file.size)
        >>> with engine.parquet.read_parquet_files([split], state.physical_read_schema) as batches:
        ...     print(next(batches).column_names)
    """

    def read_row_groups(self, file: FileStatus) -> Sequence[RowGroup]:
        """Return the file's row groups, from its footer.

        Raises:
            FileMissingError: the file doesn't exist.
            StorageError: the file isn't a Parquet file or is truncated. The message names the file.
        """
        ...

    def read_footer(
        self, file: FileStatus, statistics_columns: Sequence[str] | None = ()
    ) -> ParquetFooter:
        """Return the file's schema and statistics, from its footer.

        Args:
            statistics_columns: dotted paths of the columns whose statistics are returned; the path
                of a struct includes all its fields. If None, statistics of all columns are
                returned.

        Raises:
            FileMissingError: the file doesn't exist.
            StorageError: the file isn't a Parquet file or is truncated. The message names the file.
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
        """Read columns of files, in the order of files and rows.

        - Columns and nested fields are matched by field id (`FIELD_ID_KEY` in the field's
          metadata). A field without a field id is matched by name.
        - Missing nullable columns and nested fields are null.
        - Values are cast to the schema's types if the cast is lossless.
        - A top-level string column is returned as a dictionary array if the schema requests
          `dictionary(int32, string)`.
        - If the footer shows that dates and timestamps are in Spark's hybrid calendar, they are
          converted to the proleptic Gregorian calendar.
        - The handler computes the values of fields that have `METADATA_COLUMN_KEY` in their
          metadata.
        - Reads are streamed: memory holds a few batches, not a whole row group.

        Args:
            predicate: hint over columns of `physical_schema`. Rows that can't match may be omitted.

        Returns:
            Batches with exactly `physical_schema` and at most `batch_size` rows.

        Raises:
            FileMissingError: a file doesn't exist.
            StorageError: a file isn't a Parquet file or is truncated. The message names the file.
            SchemaError: a non-nullable column is missing, or a type can't be cast.
        """
        ...

    def write_parquet_files(
        self,
        directory: str,
        batches: Iterable[pa.RecordBatch],
        statistics_columns: Sequence[str],
        options: ParquetWriteOptions,
    ) -> CloseableIterator[DataFileStatus]:
        """Write batches of one schema to new files in `directory`, named as in delta-spark.

        A file is yielded when it is complete. No file is written if there are no rows. On an error,
        or if the iterator is closed early, files that weren't yielded are deleted.

        Args:
            statistics_columns: dotted physical paths of the columns whose statistics are collected;
                the path of a struct includes all its fields.
        """
        ...

    def write_parquet_file_atomically(
        self, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> FileStatus:
        """Write one file atomically, replacing an existing file. Used for checkpoints."""
        ...
