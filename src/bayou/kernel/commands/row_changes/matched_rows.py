"""Row changes that another engine computed: positions of matched rows and their new values.

DELETE, UPDATE and MERGE normally evaluate conditions and values with the kernel's expressions. If
the kernel doesn't support an expression, an engine such as Spark evaluates it and passes row
positions and values. This module applies them to files, constraints, row ids and change data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from bayou.errors import SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.commands.row_changes.assignments import generated_from
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_changes import FileChange, apply_row_changes
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN
from bayou.kernel.table_features.constraints import RowConstraints
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.column_rules import identity_column

__all__ = ["MatchedRows", "MatchedRowsTask", "check_assigned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRows:
    """Rows of one file that change.

    Attributes:
        file: from a scan with statistics.
        deleted: positions of deleted rows.
        updated: positions of updated rows: int64, ascending, unique.
        values: new values of the `updated` rows, in their order, with the columns of
            `MatchedRowsTask.assigned` in the table's types.
    """

    file: ScanFile
    deleted: BitMap64 = field(default_factory=BitMap64)
    updated: pa.Int64Array = field(default_factory=lambda: pa.array([], pa.int64()))
    values: pa.RecordBatch | None = None


@dataclass(frozen=True, kw_only=True)
class MatchedRowsTask(PickledTask):
    """The part of the operation that a worker needs besides the rows.

    Attributes:
        state: state for changing rows.
        assigned: columns with new values. Other columns keep their values, except for generated
            columns, which are recomputed.
    """

    state: RowChangeState
    assigned: tuple[str, ...] = ()

    def for_writer(self, index: int, count: int) -> MatchedRowsTask:
        """Return the work of one of several workers; see `TransactionState.for_writer`."""
        return replace(self, state=self.state.for_writer(index, count))

    def run(
        self,
        engine: Engine,
        rows: Iterable[MatchedRows],
        inserted: Iterable[pa.RecordBatch] = (),
        *,
        record_changes: bool | None = None,
    ) -> RowChanges:
        """Write the changed files without a commit; deletes the written files on any error.

        Args:
            rows: rows to change, at most one entry for each file.
            inserted: new rows; missing columns get their default or generated values.
            record_changes: see `apply_row_changes`.

        Raises:
            ConstraintViolationError: a row violates a constraint of the table.
            DataFileError, StorageError: a file can't be read or written.
        """
        run = _Run(engine, self)
        return apply_row_changes(
            engine,
            self.state,
            run.changes(rows),
            new_versions=run.new_versions if self.assigned else None,
            inserted=inserted,
            record_changes=record_changes,
        )


def check_assigned(state: TransactionState, columns: Iterable[str]) -> None:
    """Check that columns may be updated.

    Raises:
        SchemaError: one is an identity column.
    """
    for name in columns:
        column = state.schema.get(name)
        if column is not None and identity_column(column) is not None:
            raise SchemaError(
                f"{state.table}: identity column {name!r} can't be updated "
                "(DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED). Remove it from the SET clause.",
                table=state.table,
                column=name,
            )


class _Run:
    def __init__(self, engine: Engine, work: MatchedRowsTask) -> None:
        self._rewrites = not work.state.deletion_vectors
        self._schema = work.state.transaction_state.schema
        self._assigned = work.assigned
        self._generated = generated_from(self._schema, set(work.assigned))
        self._rules = RowConstraints(engine, work.state.transaction_state)
        self._current: MatchedRows | None = None

    def changes(self, rows: Iterable[MatchedRows]) -> Iterator[FileChange]:
        for rows_of_file in rows:
            self._current = rows_of_file
            yield FileChange(
                file=rows_of_file.file,
                deleted=rows_of_file.deleted,
                updated=to_bitmap(rows_of_file.updated),
                rewrite=self._rewrites,
            )

    def new_versions(self, _: FileChange, before: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._current
        assert rows is not None  # this is called before `changes` yields the next file
        assert rows.values is not None  # updated rows have values
        indices = pc.index_in(before.column(ROW_INDEX_COLUMN), value_set=rows.updated)
        columns: dict[str, pa.Array[Any]] = {}
        for column in self._schema:
            if column.name in self._assigned:
                columns[column.name] = rows.values.column(column.name).take(indices)
            elif column.name not in self._generated:
                columns[column.name] = before.column(column.name)
        unchanged = [name for name in columns if name not in self._assigned]
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return self._rules.apply(batch, unchanged_columns=unchanged)
