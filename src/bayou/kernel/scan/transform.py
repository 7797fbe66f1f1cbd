"""From a data file's rows to the table's rows (PROTOCOL.md, Requirements for Readers).

The columns that a scan gives: a subset of the table's, nested fields too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.errors import (
    CorruptTableError,
    DataFileError,
    FileMissingError,
    SchemaError,
    StorageError,
)
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.row import FilteredColumnarBatch
from bayou.kernel.arrow.types import relabelled, to_arrow_type
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

__all__ = ["naming_data_file", "read_scan_file", "select_columns", "transform_physical_data"]


pc: Any = pyarrow.compute

_Column: TypeAlias = Callable[[pa.RecordBatch], "pa.Array[Any]"]
"""How a column of the result comes from a batch of the file."""


def transform_physical_data(
    engine: Engine, state: ScanState, file: ScanFile, batches: Iterable[pa.RecordBatch]
) -> CloseableIterator[FilteredColumnarBatch]:
    """Rows of the table out of the rows of a data file, in `state.logical_arrow_schema`.

    Columns get their logical names, partition columns the file's values, void columns nulls. The
    rows that the file's deletion vector names aren't selected. Closing the result closes
    `batches`.

    Args:
        batches: of the whole file or of a part, in `state.physical_read_schema`.

    Raises:
        CorruptTableError: a partition value that isn't one of its type, or a deletion vector that
            breaks the format.
        DataFileError: the file of the deletion vector is missing or damaged.
    """
    return CloseableIterator(_transformed(engine, state, file, batches, {}), batches)


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
    """Read a scan file, or some of its row groups, and transform it.

    Rows come in the order of the file, without those that are deleted. The scan's remaining filter
    isn't applied to them, but row groups that hold no row for it are left out.

    Args:
        vectors: deletion vectors that have been read (`with_vectors`); the file's own is read here
            where it isn't among them.

    Returns:
        Batches in `state.logical_arrow_schema`.

    Raises:
        DataFileError: the file or its deletion vector is missing or can't be read; names it.
    """
    status = file.status
    split = FileSplit(
        path=status.path,
        size=status.size,
        first_row_group=first_row_group,
        end_row_group=end_row_group,
    )
    with naming_data_file(state.table, status.path):
        physical = engine.parquet.read_parquet_files(
            [split], state.physical_read_schema, state.physical_predicate
        )
        with CloseableIterator(
            _transformed(engine, state, file, physical, vectors or {}), physical
        ) as batches:
            for batch in batches:
                yield batch.selected()


@contextmanager
def naming_data_file(table: str, path: str) -> Iterator[None]:
    """Turn an engine's errors at a data file into `DataFileError`s that name file and table."""
    try:
        yield
    except FileMissingError as error:
        raise DataFileError(
            f"Data file {path} of {table} is missing: the log names it, but it isn't there. VACUUM "
            "may have deleted it while this version was read, or it was deleted by hand; read a "
            "newer version, or restore the file.",
            table=table,
            file=path,
        ) from error
    except StorageError as error:
        raise DataFileError(
            f"Data file {path} of {table} can't be read: {error}", table=table, file=path
        ) from error
    except SchemaError as error:
        raise DataFileError(
            f"Data file {path} doesn't fit the schema of {table}: {error}", table=table, file=path
        ) from error


def _transformed(
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
                f"The log of {state.table} has a deletion vector for file {file.path}, but the "
                "table's protocol doesn't name the feature deletionVectors.",
                table=state.table,
            )
        selection = (
            None if deleted is None else read.selection(deleted, batch.column(ROW_INDEX_COLUMN))
        )
        if columns:
            data = _labelled([column(batch) for column in columns], schema, state.table)
        else:
            data = batch.select([])
        yield FilteredColumnarBatch(data, selection)


def _labelled(arrays: list[pa.Array[Any]], schema: pa.Schema, table: str) -> pa.RecordBatch:
    kinds = schema.types
    if all(a.type.equals(k, check_metadata=True) for a, k in zip(arrays, kinds, strict=True)):
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return relabelled(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema, table=table)


def _columns(state: ScanState, file: ScanFile) -> list[_Column]:
    """How to make each column of `state.logical_arrow_schema`."""
    positions = {f.name: i for i, f in enumerate(state.data_columns)}
    columns: list[_Column] = []
    for field in state.logical_schema:
        if field.name in positions:
            columns.append(_taken(positions[field.name]))
        elif field.name in state.partition_columns:
            columns.append(_repeated(_partition_scalar(state, file, field)))
        else:
            columns.append(_repeated(pa.scalar(None, pa.null())))
    columns.extend(_metadata_column(state, file, name) for name in state.metadata_columns)
    return columns


def _taken(position: int) -> _Column:
    return lambda batch: batch.column(position)


def _repeated(value: Any) -> _Column:
    return lambda batch: pa.repeat(value, batch.num_rows)


def _metadata_column(state: ScanState, file: ScanFile, name: str) -> _Column:
    """PROTOCOL.md, Row Tracking: a stored id counts, else `baseRowId` + the row's index."""
    status = file.status
    if name == FILE_PATH:
        return _repeated(pa.scalar(status.path))
    if name == FILE_NAME:
        return _repeated(pa.scalar(status.path.rpartition("/")[2]))
    if name == FILE_SIZE:
        return _repeated(pa.scalar(status.size, pa.int64()))
    if name == FILE_MODIFICATION_TIME:
        micros = status.modification_time * 1000
        return _repeated(pa.scalar(micros, pa.timestamp("us", tz="UTC")))
    if name in (ROW_INDEX_COLUMN, CHANGE_TYPE):
        return lambda batch: batch.column(name)
    return _row_tracking_column(state, file, name)


def _row_tracking_column(state: ScanState, file: ScanFile, name: str) -> _Column:
    assert state.row_tracking is not None  # the scan was built for it
    stored_name = state.row_tracking[0 if name == ROW_ID else 1]
    base = file.add.base_row_id if name == ROW_ID else file.add.default_row_commit_version
    if base is None:
        raise CorruptTableError(
            f"The log of {state.table} has no row tracking fields (baseRowId, "
            f"defaultRowCommitVersion) for file {file.path}, though row tracking is enabled.",
            table=state.table,
            file=file.path,
        )

    def make(batch: pa.RecordBatch) -> pa.Array[Any]:
        default: Any = pa.scalar(base, pa.int64())
        if name == ROW_ID:
            default = pc.add(batch.column(ROW_INDEX_COLUMN), default)
        if stored_name:
            default = pc.coalesce(batch.column(stored_name), default)
        if isinstance(default, pa.Scalar):
            default = pa.repeat(cast("Any", default), batch.num_rows)
        assert isinstance(default, pa.Array)
        return default

    return make


def _partition_scalar(state: ScanState, file: ScanFile, field: StructField) -> pa.Scalar[Any]:
    text = file.partition_values.get(state.partition_key(field))
    try:
        value = partition_values.parse(text, field.data_type, state.time_zone)
        return pa.scalar(value, to_arrow_type(field.data_type))
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as error:
        raise CorruptTableError(
            f"The log of {state.table} gives {text!r} as value of partition column {field.name!r} "
            f"({field.data_type}) for file {file.path}: {error}.",
            table=state.table,
            file=file.path,
        ) from error


def select_columns(table: str, schema: StructType, wanted: StructType) -> StructType:
    """The table's columns that `wanted` names, with the table's metadata.

    Names are those of the table exactly; order and subsets, of structs anywhere too, are those of
    `wanted`. A column that is never null may be read as one that may be.

    Raises:
        SchemaError: an unknown column or nested field, one named twice, or another type.
    """
    return _struct(table, schema, wanted, "")


def _struct(table: str, known: StructType, wanted: StructType, prefix: str) -> StructType:
    by_name = {f.name: f for f in known}
    fields: list[StructField] = []
    for field in wanted:
        name = prefix + field.name
        found = by_name.pop(field.name, None)
        if found is None:
            raise _unknown(table, known, field.name, prefix)
        if found.nullable and not field.nullable:
            raise SchemaError(
                f"Column {name!r} of {table} may be null; it can't be read as NOT NULL.",
                table=table,
                column=name,
            )
        data_type = _data_type(table, found.data_type, field.data_type, name)
        fields.append(replace(found, data_type=data_type, nullable=field.nullable))
    return StructType(tuple(fields))


def _data_type(table: str, known: DataType, wanted: DataType, name: str) -> DataType:
    match known, wanted:
        case StructType(), StructType():
            return _struct(table, known, wanted, f"{name}.")
        case ArrayType(), ArrayType() if wanted.contains_null or not known.contains_null:
            element = _data_type(table, known.element_type, wanted.element_type, f"{name}.element")
            return replace(wanted, element_type=element)
        case MapType(), MapType() if wanted.value_contains_null or not known.value_contains_null:
            return replace(
                wanted,
                key_type=_data_type(table, known.key_type, wanted.key_type, f"{name}.key"),
                value_type=_data_type(table, known.value_type, wanted.value_type, f"{name}.value"),
            )
        case _ if known == wanted:
            return known
        case _:
            raise SchemaError(
                f"Column {name!r} of {table} has type {known}; it can't be read as {wanted}.",
                table=table,
                column=name,
            )


def _unknown(table: str, known: StructType, name: str, prefix: str) -> SchemaError:
    if name in known.names:
        return SchemaError(
            f"Column {prefix + name!r} of {table} is asked for twice.",
            table=table,
            column=prefix + name,
        )
    where = f"Column {prefix[:-1]!r} of {table}" if prefix else table
    what = "field" if prefix else "column"
    shown = ", ".join(known.names[:50]) + (", ..." if len(known) > 50 else "")
    return SchemaError(
        f"{where} has no {what} {name!r}; it has {shown or 'none'}.",
        table=table,
        column=prefix + name,
    )
