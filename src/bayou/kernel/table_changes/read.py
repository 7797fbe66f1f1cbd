"""From a file of changes to rows of the change data feed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.errors import DataFileError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.prefetch import LoadedVectors
from bayou.kernel.deletion_vectors.row_positions import row_group_ranges
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.scan.transform import read_scan_file
from bayou.kernel.table_changes.change_file import ChangeFile, ChangeState
from bayou.protocol.change_data import CHANGE_TYPE

__all__ = ["read_change_file"]

pc: Any = pyarrow.compute


@closeable
def read_change_file(
    engine: Engine,
    state: ChangeState,
    file: ChangeFile,
    first_row_group: int = 0,
    end_row_group: int | None = None,
    *,
    vectors: LoadedVectors | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the changed rows of a file, or of some of its row groups.

    Rows come in the order of the file. The scan's remaining filter isn't applied to them, but row
    groups that hold no row for it are left out.

    Args:
        vectors: deletion vectors that have been read (`with_vectors`); others are read here.

    Returns:
        Batches in `state.logical_arrow_schema`, none of them empty.

    Raises:
        DataFileError: the file or a deletion vector is missing or can't be read; names it.
        CorruptTableError: the log describes the file wrongly.
    """
    schema = state.logical_arrow_schema
    scan_state = _state_for(state.scan_state, file.file)
    only: BitMap64 | None = None
    if not scan_state.logical_schema.fields:  # a batch without columns has no rows
        scan_state = replace(scan_state, metadata_columns=(ROW_INDEX_COLUMN,))
    if file.change_type is None:
        scan_state = replace(scan_state, metadata_columns=(CHANGE_TYPE,))
    if file.only is not None:
        scan_state = replace(scan_state, metadata_columns=(ROW_INDEX_COLUMN,))
        only = (vectors or {}).get(file.only)
        if only is None:
            only = read.load(engine, scan_state.table, file.only)
    version = pa.scalar(file.version, pa.int64())
    timestamp: Any = pa.scalar(file.timestamp * 1000, schema.types[-1])
    for first, end in row_group_ranges(engine, file.file, only, first_row_group, end_row_group):
        with read_scan_file(engine, scan_state, file.file, first, end, vectors=vectors) as batches:
            for found in batches:
                batch = found if only is None else _only(only, found)
                if batch.num_rows == 0:
                    continue
                change_types = (
                    _recorded_types(scan_state.table, file, batch)
                    if file.change_type is None
                    else pa.repeat(pa.scalar(file.change_type), batch.num_rows)
                )
                columns = [
                    *batch.columns[: len(schema) - 3],
                    change_types,
                    pa.repeat(version, batch.num_rows),
                    pa.repeat(timestamp, batch.num_rows),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _state_for(state: ScanState, file: ScanFile) -> ScanState:
    """The state for a file that may be older than a change of the table's partition columns.

    A file doesn't hold the columns that have a value in the log, and holds the others.
    """
    inside = tuple(
        f.name for f in state.logical_schema if state.partition_key(f) in file.partition_values
    )
    state = replace(state, deletion_vectors=file.deletion_vector is not None)
    if set(inside) == set(state.logical_schema.names).intersection(state.partition_columns):
        return state
    return replace(state, partition_columns=inside, predicate=None)


def _only(only: BitMap64, batch: pa.RecordBatch) -> pa.RecordBatch:
    unmarked = read.selection(only, batch.column(ROW_INDEX_COLUMN))
    if unmarked is None:
        return batch.slice(0, 0)
    return batch.filter(pc.invert(unmarked))


def _recorded_types(table: str, file: ChangeFile, batch: pa.RecordBatch) -> pa.Array[Any]:
    types: pa.Array[Any] = batch.column(CHANGE_TYPE)
    if types.null_count:
        path = file.file.status.path
        raise DataFileError(
            f"Change data file {path} of {table} has rows without {CHANGE_TYPE}, the column that "
            "says what happened to them.",
            table=table,
            file=path,
        )
    return types
