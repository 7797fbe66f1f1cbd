"""Row changes that another engine computed: row indexes of matched rows, and new values.

The kernel may not support an expression of a DELETE, UPDATE or MERGE. In this case, an engine such
as Spark finds the matching rows and computes their new values. This module checks constraints, and
writes the changed files with row ids and change data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.commands.row_changes.assignments import generated_from
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_changes import FileChange, apply_row_changes
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN
from bayou.kernel.table_features.generated_columns_and_constraints import RowConstraints

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRows:
    """The rows of a file that an operation deletes or updates.

    Attributes:
        file: the file, from a scan that returns statistics.
        deleted: row indexes of the deleted rows in the file.
        updated: row indexes of the updated rows in the file, ascending and unique.
        values: Arrow table with the new values of the updated rows, in the order of `updated`. Its
            columns are `MatchedRowsTask.assigned`, in the types of the Delta table. None if no row
            is updated.
    """

    file: ScanFile
    deleted: BitMap64 = field(default_factory=BitMap64)
    updated: pa.Int64Array = field(default_factory=lambda: pa.nulls(0, pa.int64()))
    values: pa.Table | None = None


@dataclass(frozen=True, kw_only=True)
class MatchedRowsTask(PickledTask):
    """Writes the changed files of a DELETE, UPDATE or MERGE whose rows another engine matched.

    Attributes:
        assigned: names of the columns with new values. Columns that are generated from these
            columns are recomputed. All other columns keep their values.
        always_assigned: names of the columns that get new values in all updated rows. If None,
            these are the columns in `assigned` and the columns that are generated from them.
        record_changes: whether to write change data files. If None, they are written if the change
            data feed is enabled.
    """

    state: RowChangeState
    assigned: tuple[str, ...] = ()
    always_assigned: frozenset[str] | None = None
    record_changes: bool | None = None

    def for_writer(self, index: int, count: int) -> MatchedRowsTask:
        return replace(self, state=self.state.for_writer(index, count))

    def run(
        self,
        engine: Engine,
        rows: Iterable[MatchedRows],
        inserted: Iterable[pa.RecordBatch] = (),
    ) -> RowChanges:
        """Write the changed files without a commit; on any error, delete the written files.

        Args:
            rows: rows to change, with at most one `MatchedRows` for each file.
            inserted: new rows; missing columns get their default or generated values.
        """
        run = _Run(engine, self)
        reads = self.state.needs_old_rows or not run.assigns_all
        return apply_row_changes(
            engine,
            self.state,
            run.changes(rows),
            new_versions=run.new_versions if self.assigned and reads else None,
            updated_rows=None if reads else run.updated_rows,
            assigned=run.always_assigned,
            inserted=inserted,
            record_changes=self.record_changes,
        )


class _Run:
    def __init__(self, engine: Engine, task: MatchedRowsTask) -> None:
        self._rewrites = not task.state.deletion_vectors
        self._schema = task.state.transaction_state.schema
        self._assigned = task.assigned
        self._generated = generated_from(self._schema, set(task.assigned))
        self.always_assigned = (
            self._generated.union(task.assigned)
            if task.always_assigned is None
            else task.always_assigned
        )
        self._rules = RowConstraints(engine, task.state.transaction_state)
        self._current: MatchedRows | None = None

    @property
    def assigns_all(self) -> bool:
        """Whether all columns of an updated row are assigned or generated."""
        return all(f.name in self._assigned or f.name in self._generated for f in self._schema)

    def changes(self, rows: Iterable[MatchedRows]) -> Iterator[FileChange]:
        for rows_of_file in rows:
            self._current = rows_of_file
            yield FileChange(
                file=rows_of_file.file,
                deleted=rows_of_file.deleted,
                updated=to_bitmap(rows_of_file.updated),
                rewrite=self._rewrites,
            )

    def updated_rows(self, _: FileChange) -> Iterator[pa.RecordBatch]:
        rows = self._current
        assert rows is not None  # this is called before `changes` yields the next file
        assert rows.values is not None  # updated rows have values
        for batch in rows.values.to_batches(max_chunksize=_BATCH_ROWS):
            yield self._rules.apply(batch, unchanged_columns=())

    def new_versions(self, _: FileChange, before: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = self._current
        assert rows is not None  # this is called before `changes` yields the next file
        assert rows.values is not None  # updated rows have values
        first = 0
        for values in self._values(rows, before.column(ROW_INDEX_COLUMN)):
            old = before.slice(first, values.num_rows)
            first += values.num_rows
            columns: dict[str, pa.Array[Any]] = {}
            for column in self._schema:
                if column.name in self._assigned:
                    columns[column.name] = values.column(column.name)
                elif column.name not in self._generated:
                    columns[column.name] = old.column(column.name)
            unchanged = [name for name in columns if name not in self._assigned]
            batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            yield self._rules.apply(batch, unchanged_columns=unchanged)

    def _values(self, rows: MatchedRows, positions: Any) -> Iterator[pa.RecordBatch]:
        """Yield the new values of the updated rows with the row indexes `positions` (ascending)."""
        assert rows.values is not None  # updated rows have values
        indices = pc.index_in(positions, value_set=rows.updated)
        if len(indices) == 0:
            return
        low, high = (pc.min_max(indices)[key].as_py() for key in ("min", "max"))
        first = 0  # of the chunk's rows
        for chunk in rows.values.to_batches():
            end = first + chunk.num_rows
            if first <= high and end > low:
                selected = pc.and_(pc.greater_equal(indices, first), pc.less(indices, end))
                yield chunk.take(pc.subtract(indices.filter(selected), first))
            first = end
