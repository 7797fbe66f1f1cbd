"""What the kernel asks of a connector: the `Engine` and its handlers.

The kernel does no I/O of its own. It knows what the log means and calls these protocols for every
byte; a connector implements them or takes `bayou.engines.arrow.ArrowEngine`. Names follow Delta
Kernel. Columns travel as `pyarrow.RecordBatch`; paths are strings, URIs for object stores
(`s3://bucket/key`) and plain absolute paths for local files, always *decoded* (never
percent-encoded). Iterators are lazy and can be closed: `bayou.kernel.closeable.closeable` makes one
of a generator function. Handlers are shared by threads, an iterator belongs to one of them. What
goes wrong is one of `bayou.errors`, raised when the item is asked for that it prevents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

import pyarrow as pa

from bayou.kernel.closeable import CloseableIterator
from bayou.kernel.engine_description import EngineDescription
from bayou.kernel.metrics import MetricsReporter
from bayou.kernel.predicates.model import Expression, Predicate
from bayou.protocol.schema import DataType, StructType
from bayou.protocol.stats import FileStatistics

METADATA_COLUMN_KEY = b"bayou.metadata_column"
"""Key in a field's Arrow metadata that makes it a metadata column of `read_parquet_files`."""

ROW_INDEX = b"row_index"
"""Value under `METADATA_COLUMN_KEY`: position of the row in its file, int64, from 0."""

FIELD_ID_KEY = b"PARQUET:field_id"
"""Key under which pyarrow keeps a Parquet field id in a field's metadata."""


VARIANT_KEY = b"bayou.variant"
"""Key in the metadata of a field of type `struct<metadata: binary, value: binary>` that makes it a
variant: a file may hold it shredded, and the handler puts it together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file of the store: decoded path, size in bytes, modification time in ms since the epoch."""

    path: str
    size: int
    modification_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplit:
    """A Parquet file, or its row groups from the first to before the end one (None: all)."""

    path: str
    size: int
    first_row_group: int = 0
    end_row_group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """Bytes of a file: `length` bytes from `offset`, to the end of the file where it is None."""

    path: str
    offset: int = 0
    length: int | None = None


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
            no maximum of floats, which may be NaN, and nothing within lists and maps.
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
    """

    compression: str = "zstd"
    target_file_size: int = 128 * 1024 * 1024
    string_prefix_length: int = 32
    name_prefix: str = "part"


class FileSystemClient(Protocol):
    """Files of one store. Safe to be used from several threads."""

    def resolve_path(self, path: str) -> str:
        """Fully qualified form of a path, without a trailing slash; the file needn't exist."""
        ...

    def list_from(self, path: str) -> CloseableIterator[FileStatus]:
        """Files in the folder of `path` whose name is >= the name of `path`.

        Lexical order of names (by UTF-8 bytes), lazily, not recursive, folders left out.

        Raises:
            FileMissingError: the folder doesn't exist (object stores: it has no object).
        """
        ...

    def list_tree(self, path: str, skips: Callable[[str], bool]) -> CloseableIterator[FileStatus]:
        """Everything below a folder, at any depth, lazily; the files of a folder follow each other.

        Files in no order to rely on. Folders too, where the store has any: their paths end with a
        slash, their size is 0. A folder that doesn't exist is empty. Links to folders aren't
        followed, and listed as if they were files.

        Args:
            skips: asked once for each folder, and on stores without folders for each prefix that
                stands for one, by its path without a slash, before what is in it; where it says
                True neither the folder nor anything in it is listed.
        """
        ...

    def status(self, path: str) -> FileStatus:
        """Status of one file.

        Raises:
            FileMissingError: no such file.
        """
        ...

    def read_files(self, ranges: Iterable[ByteRange]) -> CloseableIterator[bytes]:
        """Bytes of each range, in the order given; reads ahead, a bounded number in flight.

        Raises:
            FileMissingError: no such file.
        """
        ...

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        """Random access to a file (`read`, `seek`, `tell`, `close`). `size` saves a request.

        Raises:
            FileMissingError: no such file.
        """
        ...

    def open_output(self, path: str) -> IO[bytes]:
        """A new file, written front to back; parent folders are made. It is complete on `close`.

        It isn't seen before. A `with` block over it that ends by an exception leaves what was at
        the path, if anything, as it was.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with all of `data`, atomically, unless there is one.

        Parent folders must exist. Readers see all of it or nothing; of several concurrent callers
        one wins.

        Returns:
            True: this call made it. False: there is a file, it is untouched.

        Raises:
            StorageError: outcome unknown; the file may be there or may come to be.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the file atomically."""
        ...

    def mkdirs(self, path: str) -> None:
        """Make the folder and its parents; no error where it exists (object stores: nothing)."""
        ...

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files; those that don't exist are passed over."""
        ...

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        """Delete folders with nothing in them, in the order given; others are passed over.

        Object stores have none: nothing happens.
        """
        ...


class JsonHandler(Protocol):
    """JSON texts and files to columns and back. Safe to be used from several threads."""

    def parse_json(
        self,
        texts: pa.Array[Any],
        output_schema: pa.Schema,
        selection: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        """Parse one JSON object a row.

        A null text, an absent field or a JSON null gives null; fields that aren't in
        `output_schema` are ignored; all fields are taken as nullable. A row that `selection` (one
        value a text, null for false) leaves out is all nulls, whatever its text holds. Floats may
        be the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. Numbers outside of a type, or a
        value of another JSON type, give null for that value: a statistic that can't be read is a
        statistic that isn't there.

        Returns:
            A batch with exactly `output_schema`, as many rows as texts.

        Raises:
            SerializationError: a selected text isn't a JSON object.
        """
        ...

    def read_json_files(
        self,
        files: Iterable[FileStatus],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> CloseableIterator[pa.RecordBatch]:
        """Read files of one JSON object a line, in the order of the files and of their lines.

        A line is taken as a text is by `parse_json`; blank ones are passed over. No batch has rows
        of two files. `predicate` is a hint over columns of `physical_schema`: rows that can't match
        may be left out.

        Returns:
            Batches with exactly `physical_schema`, at most `batch_size` rows each; none is empty.

        Raises:
            FileMissingError: no such file.
            SerializationError: a line isn't a JSON object; names file and line.
        """
        ...

    def write_json_file_atomically(
        self, path: str, lines: Iterable[bytes], *, overwrite: bool = False
    ) -> bool:
        """Write newline-separated JSON, all or nothing. The put-if-absent of a commit.

        Returns:
            True: written. False: `overwrite` is off and there is a file, which is untouched.

        Raises:
            StorageError: outcome unknown.
        """
        ...


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
        self, file: FileStatus, statistics_columns: Sequence[str] = ()
    ) -> ParquetFooter:
        """The file's schema and statistics, from its footer.

        Args:
            statistics_columns: dotted paths of the columns whose statistics are wanted; a struct
                stands for all below it.

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
        Gregorian one. A field with
        `METADATA_COLUMN_KEY` is filled by the handler. `predicate` is a hint over columns of
        `physical_schema`, by their names there: rows that can't match may be left out. Streams:
        memory is bounded by a few batches, not by a row group.

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


class ExpressionEvaluator(Protocol):
    """An expression made ready for a schema. Holds no state; safe to be used from threads."""

    def eval(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """One value a row, in the order of the rows, of the type asked for.

        Args:
            batch: has the schema's columns by their exact names; more of them, and any order, are
                fine. Only those that the expression names are looked at.

        Raises:
            PredicateError: a column isn't there; names it.
            EvaluationError: a row has a value that the expression can't take (an overflow, a
                division by zero, a text that isn't a number). Rows that Spark wouldn't evaluate,
                behind a FALSE of AND or in a branch of CASE that isn't taken, don't fail.
        """
        ...


class PredicateEvaluator(Protocol):
    """A predicate made ready for a schema. Holds no state; safe to be used from threads."""

    def eval(
        self, batch: pa.RecordBatch, selection: pa.BooleanArray | None = None
    ) -> pa.BooleanArray:
        """The rows for which the predicate is TRUE; FALSE and NULL give false. Never null.

        Args:
            batch: as for `ExpressionEvaluator.eval`.
            selection: rows to look at, one value a row, null counting as false; None: all. The
                result is never wider, and the other rows never fail.

        Raises:
            ArgumentError: the selection has another length than the batch.
            PredicateError, EvaluationError: as `ExpressionEvaluator.eval`.
        """
        ...


class ExpressionHandler(Protocol):
    """Expressions over batches. The kernel's own evaluator is the default of every engine.

    What expressions mean is fixed: `docs/reference/expressions.md` lists the functions, and has
    the rules (Spark's ANSI mode, the time zone UTC, three-valued logic). Safe to be used from
    several threads.
    """

    def evaluator(
        self, schema: StructType, expression: Expression, output_type: DataType
    ) -> ExpressionEvaluator:
        """An evaluator for batches of a schema; it can be used for any number of them.

        Args:
            schema: the columns that the expression may name; names match without regard to case.
            expression: any `Expression`, its literals typed or not.
            output_type: what the values are cast to, if they aren't of it.

        Raises:
            PredicateError: an unknown column or function, types that don't go together, or an
                expression of a kind that the handler doesn't know; names it.
        """
        ...

    def predicate_evaluator(self, schema: StructType, predicate: Predicate) -> PredicateEvaluator:
        """An evaluator of a predicate for batches of a schema.

        Raises:
            PredicateError: as `evaluator`, or the expression isn't a condition.
        """
        ...

    def create_selection_vector(
        self, values: Sequence[bool], start: int, end: int
    ) -> pa.BooleanArray:
        """A selection of the values from `start` to before `end`, without nulls.

        Raises:
            ArgumentError: `start` and `end` aren't within the values, or one of these is None.
        """
        ...


class Engine(Protocol):
    """A connector's way to storage and columns; stateless towards the table, safe in threads."""

    @property
    def files(self) -> FileSystemClient:
        """Files."""
        ...

    @property
    def json(self) -> JsonHandler:
        """JSON."""
        ...

    @property
    def parquet(self) -> ParquetHandler:
        """Parquet."""
        ...

    @property
    def expressions(self) -> ExpressionHandler:
        """Expressions."""
        ...

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """Who is told what was measured, None for nobody."""
        ...

    def description(self) -> EngineDescription:
        """How a worker process builds an equivalent engine; `EngineDescription.of` makes it.

        Raises:
            ArgumentError: it can't.
        """
        ...
