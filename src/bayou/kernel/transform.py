"""From a data file's rows to the table's rows (PROTOCOL.md, Partition Value Serialization)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import (
    CorruptTableError,
    DataFileError,
    FileMissingError,
    SchemaError,
    StorageError,
)
from bayou.kernel.arrow_types import to_arrow_schema, to_arrow_type
from bayou.kernel.closeable import CloseableIterator, closeable
from bayou.kernel.engine import METADATA_COLUMN_KEY, ROW_INDEX, Engine, FileSplit
from bayou.kernel.predicates.model import Predicate
from bayou.kernel.predicates.wire import from_wire, to_wire
from bayou.kernel.row import FilteredColumnarBatch
from bayou.kernel.scan_file import ScanFile
from bayou.kernel.wire_format import WireFormat
from bayou.protocol import partition_values
from bayou.protocol.schema import VOID, DataType, StructType

__all__ = [
    "METADATA_COLUMNS",
    "ROW_COMMIT_VERSION",
    "ROW_ID",
    "ScanState",
    "read_scan_file",
    "transform_physical_data",
]

pc: Any = pyarrow.compute

FILE_PATH = "_metadata.file_path"
ROW_INDEX_COLUMN = "_metadata.row_index"
ROW_ID = "_metadata.row_id"
ROW_COMMIT_VERSION = "_metadata.row_commit_version"
METADATA_COLUMNS = (FILE_PATH, ROW_INDEX_COLUMN, ROW_ID, ROW_COMMIT_VERSION)


class _WireScanState(msgspec.Struct, frozen=True, array_like=True):
    table: str
    logical_schema: str
    partition_columns: tuple[str, ...]
    metadata_columns: tuple[str, ...]
    row_tracking: tuple[str, str] | None
    predicate: list[Any] | None


_WIRE = WireFormat("scan state", 1, _WireScanState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanState:
    """What is common to all files of a scan.

    Attributes:
        table: path of the table.
        logical_schema: columns of the rows that the scan gives, in their order.
        partition_columns: the table's, in its order.
        metadata_columns: of `METADATA_COLUMNS`, put behind the others.
        row_tracking: physical names of the columns that hold row ids and row commit versions;
            None where the table has no row tracking.
        predicate: what rows of the data files must satisfy, for skipping row groups; a hint.
    """

    table: str
    logical_schema: StructType
    partition_columns: tuple[str, ...]
    metadata_columns: tuple[str, ...] = ()
    row_tracking: tuple[str, str] | None = None
    predicate: Predicate | None = None

    @property
    def logical_arrow_schema(self) -> pa.Schema:
        """Schema of the batches that `transform_physical_data` gives."""
        fields = [
            pa.field(name, pa.string() if name == FILE_PATH else pa.int64(), False)
            for name in self.metadata_columns
        ]
        return pa.schema([*to_arrow_schema(self.logical_schema), *fields])

    @property
    def physical_read_schema(self) -> pa.Schema:
        """Columns to read from a data file.

        Partition columns aren't in the file, void columns never are; all fields are nullable,
        because a file may be older than a column. Where no column is left, the row index is read,
        for the number of rows.
        """
        fields = [
            pa.field(f.name, to_arrow_type(f.data_type))
            for f in self.logical_schema
            if f.name not in self.partition_columns and f.data_type != VOID
        ]
        row_id, commit_version = self.row_tracking or ("", "")
        if ROW_ID in self.metadata_columns and row_id:
            fields.append(pa.field(row_id, pa.int64()))
        if ROW_COMMIT_VERSION in self.metadata_columns and commit_version:
            fields.append(pa.field(commit_version, pa.int64()))
        if not fields or {ROW_INDEX_COLUMN, ROW_ID} & set(self.metadata_columns):
            fields.append(
                pa.field(ROW_INDEX_COLUMN, pa.int64(), metadata={METADATA_COLUMN_KEY: ROW_INDEX})
            )
        return pa.schema(fields)

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE.encode(
            _WireScanState(
                self.table,
                self.logical_schema.to_json(),
                self.partition_columns,
                self.metadata_columns,
                self.row_tracking,
                None if self.predicate is None else to_wire(self.predicate),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> ScanState:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                table=wire.table,
                logical_schema=StructType.from_json(wire.logical_schema),
                partition_columns=wire.partition_columns,
                metadata_columns=wire.metadata_columns,
                row_tracking=wire.row_tracking,
                predicate=None if wire.predicate is None else from_wire(wire.predicate),
            ),
        )


def transform_physical_data(
    state: ScanState, file: ScanFile, batches: Iterable[pa.RecordBatch]
) -> CloseableIterator[FilteredColumnarBatch]:
    """Rows of the table out of the rows of a data file, in `state.logical_arrow_schema`.

    Partition columns get the file's values, void columns nulls. Closing the result closes
    `batches`.

    Raises:
        CorruptTableError: a partition value that isn't one of its type.
    """
    return CloseableIterator(_transformed(state, file, batches), batches)


def _transformed(
    state: ScanState, file: ScanFile, batches: Iterable[pa.RecordBatch]
) -> Iterator[FilteredColumnarBatch]:
    schema = state.logical_arrow_schema
    constants: dict[str, Any] = _partition_scalars(state, file)
    for batch in batches:
        columns: list[pa.Array[Any]] = []
        for field in schema:
            constant = constants.get(field.name)
            if constant is not None:
                columns.append(pa.repeat(constant, batch.num_rows))
            elif field.name in state.metadata_columns:
                columns.append(_metadata_column(state, file, field.name, batch))
            elif pa.types.is_null(field.type):
                columns.append(pa.nulls(batch.num_rows))
            else:
                columns.append(batch.column(field.name))
        if columns:
            data = pa.RecordBatch.from_arrays(columns, schema=schema)
        else:
            data = batch.select([])
        yield FilteredColumnarBatch(data)


@closeable
def read_scan_file(
    engine: Engine,
    state: ScanState,
    file: ScanFile,
    first_row_group: int = 0,
    end_row_group: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a scan file, or some of its row groups, and transform it.

    Rows come in the order of the file. The scan's remaining filter isn't applied to them, but row
    groups that hold no row for it are left out.

    Returns:
        Batches in `state.logical_arrow_schema`.

    Raises:
        DataFileError: the file is missing or can't be read; names it.
    """
    status = file.status
    split = FileSplit(
        path=status.path,
        size=status.size,
        first_row_group=first_row_group,
        end_row_group=end_row_group,
    )
    try:
        physical = engine.parquet.read_parquet_files(
            [split], state.physical_read_schema, state.predicate
        )
        with transform_physical_data(state, file, physical) as batches:
            for batch in batches:
                yield batch.selected()
    except FileMissingError as error:
        raise DataFileError(
            f"Data file {status.path} of {state.table} is missing: the log names it, but it isn't "
            "there. VACUUM may have deleted it while this version was read, or it was deleted by "
            "hand; read a newer version, or restore the file.",
            table=state.table,
            file=status.path,
        ) from error
    except StorageError as error:
        raise DataFileError(
            f"Data file {status.path} of {state.table} can't be read: {error}",
            table=state.table,
            file=status.path,
        ) from error
    except SchemaError as error:
        raise DataFileError(
            f"Data file {status.path} doesn't fit the schema of {state.table}: {error}",
            table=state.table,
            file=status.path,
        ) from error


def _metadata_column(
    state: ScanState, file: ScanFile, name: str, batch: pa.RecordBatch
) -> pa.Array[Any]:
    """PROTOCOL.md, Row Tracking: a stored id counts, else `baseRowId` + the row's index."""
    if name == FILE_PATH:
        return pa.repeat(pa.scalar(file.status.path), batch.num_rows)
    if name == ROW_INDEX_COLUMN:
        return batch.column(ROW_INDEX_COLUMN)
    assert state.row_tracking is not None  # the scan was built for it
    stored_name = state.row_tracking[0 if name == ROW_ID else 1]
    default: pa.Array[Any]
    base = file.add.base_row_id if name == ROW_ID else file.add.default_row_commit_version
    if base is None:
        raise CorruptTableError(
            f"The log of {state.table} has no row tracking fields (baseRowId, "
            f"defaultRowCommitVersion) for file {file.path}, though row tracking is enabled.",
            table=state.table,
            file=file.path,
        )
    if name == ROW_ID:
        default = pc.add(batch.column(ROW_INDEX_COLUMN), base)
    else:
        default = pa.repeat(pa.scalar(base, pa.int64()), batch.num_rows)
    if not stored_name:
        return default
    stored: pa.Array[Any] = pc.coalesce(batch.column(stored_name), default)
    return stored


def _partition_scalars(state: ScanState, file: ScanFile) -> dict[str, pa.Scalar[Any]]:
    scalars: dict[str, pa.Scalar[Any]] = {}
    for field in state.logical_schema:
        if field.name in state.partition_columns:
            text = file.partition_values.get(field.name)
            scalars[field.name] = _partition_scalar(state, file, field.name, field.data_type, text)
    return scalars


def _partition_scalar(
    state: ScanState, file: ScanFile, name: str, data_type: DataType, text: str | None
) -> pa.Scalar[Any]:
    try:
        return pa.scalar(partition_values.parse(text, data_type), to_arrow_type(data_type))
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as error:
        raise CorruptTableError(
            f"The log of {state.table} gives {text!r} as value of partition column {name!r} "
            f"({data_type}) for file {file.path}: {error}.",
            table=state.table,
            file=file.path,
        ) from error
