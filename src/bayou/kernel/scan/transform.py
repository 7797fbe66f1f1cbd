"""Conversion of a data file's rows to rows of the table, and selection of columns.

See PROTOCOL.md, Requirements for Readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, cast

import pyarrow as pa
from pyroaring import BitMap64

from bayou.errors import (
    CorruptTableError,
    DataFileError,
    FileMissingError,
    SchemaError,
    StorageError,
)
from bayou.kernel.arrow.arrays import ConstantColumn, to_scalar
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.row import FilteredColumnarBatch
from bayou.kernel.arrow.types import to_arrow_type, with_schema
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.prefetch import LoadedVectors
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import (
    FILE_MODIFICATION_TIME,
    FILE_NAME,
    FILE_PATH,
    FILE_SIZE,
    ROW_ID,
    ROW_INDEX_COLUMN,
    ScanState,
)
from bayou.protocol import partition_values
from bayou.protocol.actions import CHANGE_TYPE
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

_Column: TypeAlias = Callable[[pa.RecordBatch], "pa.Array[Any]"]
"""A function that computes a column of the table from a batch of a data file."""


def transform_physical_data(
    engine: Engine, state: ScanState, file: ScanFile, batches: Iterable[pa.RecordBatch]
) -> CloseableIterator[FilteredColumnarBatch]:
    """Convert the rows of a data file to rows of the table with `state.logical_arrow_schema`.

    Rows that the file's deletion vector deletes aren't selected. Closing the result closes
    `batches`.
    """
    return CloseableIterator(_transform(engine, state, file, batches, {}), batches)


@closeable
def read_scan_file(
    engine: Engine,
    state: ScanState,
    file: ScanFile,
    first_row_group: int = 0,
    end_row_group: int | None = None,
    *,
    vectors: LoadedVectors | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a scan file, or some of its row groups, and convert the rows to rows of the table.

    Rows are in the order of the file, without deleted rows. A row group is skipped if none of its
    rows can match the scan's filter. The rows of other row groups aren't filtered.

    Args:
        first_row_group: index of the first row group to read.
        end_row_group: index after the last row group to read. If None, the file is read to its end.
        vectors: deletion vectors that `prefetch_vectors` has read. If they don't include the file's
            deletion vector, this function reads it.

    Returns:
        Batches with `state.logical_arrow_schema`.

    Raises:
        DataFileError: the file or its deletion vector is missing or can't be read.

    Examples:
        >>> for batch in read_scan_file(engine, state, file):
        ...     print(batch.num_rows)
    """
    status = file.status
    split = FileSplit(
        path=status.path,
        size=status.size,
        first_row_group=first_row_group,
        end_row_group=end_row_group,
    )
    with data_file_errors(state.table, status.path):
        physical = engine.parquet.read_parquet_files(
            [split], state.physical_read_schema, state.physical_predicate
        )
        with CloseableIterator(
            _transform(engine, state, file, physical, vectors or {}), physical
        ) as batches:
            for batch in batches:
                yield batch.selected()


@contextmanager
def data_file_errors(table: str, path: str) -> Iterator[None]:
    """Context manager that converts an engine's errors for a data file to `DataFileError`."""
    try:
        yield
    except FileMissingError as error:
        raise DataFileError(
            f"{table}: data file {path} is missing, although the log references it. VACUUM or a "
            "user may have deleted it; read a newer version, or restore the file.",
            table=table,
            file=path,
        ) from error
    except StorageError as error:
        raise DataFileError(
            f"{table}: data file {path} can't be read: {error}", table=table, file=path
        ) from error
    except SchemaError as error:
        raise DataFileError(
            f"{table}: data file {path} doesn't match the table's schema: {error}",
            table=table,
            file=path,
        ) from error


def _transform(
    engine: Engine,
    state: ScanState,
    file: ScanFile,
    batches: Iterable[pa.RecordBatch],
    vectors: LoadedVectors,
) -> Iterator[FilteredColumnarBatch]:
    if state.reads_as_is and file.deletion_vector is None:
        for batch in batches:
            yield FilteredColumnarBatch(batch)
        return
    deleted: BitMap64 | None = None
    if file.deletion_vector is not None:
        deleted = vectors.get(file.deletion_vector)
        if deleted is None:
            deleted = read.load(engine, state.table, file.deletion_vector)
    columns = _columns(state, file)
    schema = state.logical_arrow_schema
    for batch in batches:
        if deleted is not None and ROW_INDEX_COLUMN not in batch.schema.names:
            raise CorruptTableError(
                f"{state.table}: file {file.path} has a deletion vector, but the protocol doesn't "
                "list the feature deletionVectors. Restore an earlier version of the table.",
                table=state.table,
            )
        selection = (
            None
            if deleted is None
            else read.selection_vector(deleted, batch.column(ROW_INDEX_COLUMN))
        )
        if columns:
            data = _to_batch([column(batch) for column in columns], schema, state.table)
        else:
            data = batch.select([])
        yield FilteredColumnarBatch(data, selection)


def _to_batch(arrays: list[pa.Array[Any]], schema: pa.Schema, table: str) -> pa.RecordBatch:
    kinds = schema.types
    if all(a.type.equals(k, check_metadata=True) for a, k in zip(arrays, kinds, strict=True)):
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return with_schema(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema, table=table)


def _columns(state: ScanState, file: ScanFile) -> list[_Column]:
    """Return the functions that compute the columns of `state.logical_arrow_schema`, in order."""
    positions = {f.name: i for i, f in enumerate(state.data_columns)}
    columns: list[_Column] = []
    for field in state.logical_schema:
        if field.name in positions:
            columns.append(_file_column(positions[field.name]))
        elif field.name in state.partition_columns:
            columns.append(_constant_column(_partition_scalar(state, file, field)))
        else:
            columns.append(_constant_column(to_scalar(None, pa.null())))
    columns.extend(_metadata_column(state, file, name) for name in state.metadata_columns)
    return columns


def _file_column(position: int) -> _Column:
    return lambda batch: batch.column(position)


def _constant_column(value: Any) -> _Column:
    constant = ConstantColumn(value)
    return lambda batch: constant.array(batch.num_rows)


def _metadata_column(state: ScanState, file: ScanFile, name: str) -> _Column:
    status = file.status
    if name == FILE_PATH:
        return _constant_column(to_scalar(status.path, pa.string()))
    if name == FILE_NAME:
        return _constant_column(to_scalar(status.path.rpartition("/")[2], pa.string()))
    if name == FILE_SIZE:
        return _constant_column(to_scalar(status.size, pa.int64()))
    if name == FILE_MODIFICATION_TIME:
        micros = to_scalar(status.modification_time * 1000, pa.int64())
        return _constant_column(pc.cast(micros, pa.timestamp("us", tz="UTC")))
    if name in (ROW_INDEX_COLUMN, CHANGE_TYPE):
        return lambda batch: batch.column(name)
    return _row_tracking_column(state, file, name)


def _row_tracking_column(state: ScanState, file: ScanFile, name: str) -> _Column:
    """Return the function that computes the row ids or row commit versions of a batch.

    Args:
        name: name of the metadata column.
    """
    assert state.row_tracking is not None  # checked by the scan builder
    materialized_name = state.row_tracking[0 if name == ROW_ID else 1]
    base = file.add.base_row_id if name == ROW_ID else file.add.default_row_commit_version
    if base is None:
        raise CorruptTableError(
            f"{state.table}: file {file.path} has no row tracking fields (baseRowId, "
            "defaultRowCommitVersion) in the log, although row tracking is enabled. Read the table "
            "without row ids and row commit versions, or restore an earlier version.",
            table=state.table,
            file=file.path,
        )

    def column(batch: pa.RecordBatch) -> pa.Array[Any]:
        values: Any = to_scalar(base, pa.int64())
        if name == ROW_ID:
            values = pc.add(batch.column(ROW_INDEX_COLUMN), values)
        if materialized_name:
            values = pc.coalesce(batch.column(materialized_name), values)
        if isinstance(values, pa.Scalar):
            values = pa.repeat(cast("Any", values), batch.num_rows)
        assert isinstance(values, pa.Array)
        return values

    return column


def _partition_scalar(state: ScanState, file: ScanFile, field: StructField) -> pa.Scalar[Any]:
    serialized = file.partition_values.get(state.partition_key(field))
    try:
        value = partition_values.parse(serialized, field.data_type, state.time_zone)
        scalar: pa.Scalar[Any] = to_scalar(value, to_arrow_type(field.data_type))
        return scalar
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as error:
        raise CorruptTableError(
            f"{state.table}: file {file.path} has the invalid value {serialized!r} of partition "
            f"column {field.name!r} ({field.data_type}): {error}. Restore an earlier version of "
            "the table.",
            table=state.table,
            file=file.path,
        ) from error


def select_columns(table: str, schema: StructType, requested: StructType) -> StructType:
    """Select the requested columns and nested fields of a table's schema, in the requested order.

    The result has the field metadata of the table's schema. Names must match exactly, including
    case. A NOT NULL column may be requested as nullable.
    """
    return _select_fields(table, schema, requested, "")


def _select_fields(
    table: str, schema: StructType, requested: StructType, prefix: str
) -> StructType:
    by_name = {f.name: f for f in schema}
    fields: list[StructField] = []
    for field in requested:
        name = prefix + field.name
        match = by_name.pop(field.name, None)
        if match is None:
            raise _missing_column(table, schema, field.name, prefix)
        if match.nullable and not field.nullable:
            raise SchemaError(
                f"{table}: column {name!r} is nullable and can't be read as NOT NULL. Request it "
                "as nullable.",
                table=table,
                column=name,
            )
        data_type = _select_type(table, match.data_type, field.data_type, name)
        fields.append(replace(match, data_type=data_type, nullable=field.nullable))
    return StructType(tuple(fields))


def _select_type(table: str, actual: DataType, requested: DataType, name: str) -> DataType:
    match actual, requested:
        case StructType(), StructType():
            return _select_fields(table, actual, requested, f"{name}.")
        case ArrayType(), ArrayType() if requested.contains_null or not actual.contains_null:
            return replace(
                requested,
                element_type=_select_type(
                    table, actual.element_type, requested.element_type, f"{name}.element"
                ),
            )
        case MapType(), MapType() if (
            requested.value_contains_null or not actual.value_contains_null
        ):
            return replace(
                requested,
                key_type=_select_type(table, actual.key_type, requested.key_type, f"{name}.key"),
                value_type=_select_type(
                    table, actual.value_type, requested.value_type, f"{name}.value"
                ),
            )
        case _ if actual == requested:
            return actual
        case _:
            raise SchemaError(
                f"{table}: column {name!r} has type {actual} and can't be read as {requested}. "
                "Request it with the table's type.",
                table=table,
                column=name,
            )


def _missing_column(table: str, schema: StructType, name: str, prefix: str) -> SchemaError:
    if name in schema.names:
        return SchemaError(
            f"{table}: column {prefix + name!r} is requested twice. Request it once.",
            table=table,
            column=prefix + name,
        )
    parent = f"column {prefix[:-1]!r}" if prefix else "the table"
    kind = "field" if prefix else "column"
    names = ", ".join(schema.names[:50]) + (", ..." if len(schema) > 50 else "")
    return SchemaError(
        f"{table}: {parent} has no {kind} {name!r}; it has {names or 'none'}. Correct the "
        "requested schema.",
        table=table,
        column=prefix + name,
    )
