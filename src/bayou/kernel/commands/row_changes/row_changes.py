"""Writes the data files, deletion vectors and change data files that change rows of a table.

DELETE, UPDATE and MERGE decide which rows of each file change (`FileChange`) and which rows are
inserted. `apply_row_changes` writes the files and returns the actions to commit. It runs on any
worker that has the table's `RowChangeState`; it needs no transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from bayou.errors import ArgumentError, BayouError, CorruptTableError
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.read_ahead import read_ahead
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.arrow.types import to_arrow_schema, with_schema
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.data_writer.change_data_files import ChangeDataFiles
from bayou.kernel.data_writer.data_writer import write_rows
from bayou.kernel.data_writer.partitioner import with_original_values
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.deleted_rows import num_rows, row_group_ranges
from bayou.kernel.deletion_vectors.write import DeletionVectorFiles
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID, ROW_INDEX_COLUMN
from bayou.kernel.scan.transform import read_scan_file
from bayou.kernel.table_features.generated_columns_and_constraints import RowConstraints
from bayou.kernel.transaction.commit_table_actions import current_time_ms, to_remove
from bayou.protocol import stats
from bayou.protocol.actions import AddFile, ChangeType


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange(PickledTask):
    """Rows of a data file that an operation deletes or updates.

    Rows are identified by their row index in the file, from 0. Rows that the file's current
    deletion vector deletes are ignored.

    Attributes:
        file: the file, from a scan that returns statistics.
        deleted: row indexes of the rows that are deleted and not replaced.
        updated: row indexes of the rows that are replaced by updated rows.
        rewrite: whether to copy the remaining rows to a new file instead of writing a deletion
            vector.
    """

    file: ScanFile
    deleted: BitMap64 = field(default_factory=BitMap64)
    updated: BitMap64 = field(default_factory=BitMap64)
    rewrite: bool

    @property
    def removed(self) -> BitMap64:
        return self.deleted | self.updated


_LOG = logging.getLogger(__name__)
_BATCHES_AHEAD = 4
_MIN_READ_AHEAD_SIZE = 4 * 1024 * 1024
"""Minimum size in bytes of a file whose rows are read ahead in a thread during writes."""

NewVersions: TypeAlias = Callable[[FileChange, pa.RecordBatch], Iterable[pa.RecordBatch]]
"""Function that returns the updated rows for a batch of old rows, in the same order.

It can return several batches, because the updated rows can be larger than the old rows.

The old rows have the table's columns and `RowChangeState.metadata_columns`. The updated rows must
have exactly the table's columns and satisfy the constraints (`RowConstraints.apply`).
"""

UpdatedRows: TypeAlias = Callable[[FileChange], Iterable[pa.RecordBatch]]
"""Function that returns the updated rows of a file without the old rows.

The updated rows must have exactly the table's columns and satisfy the constraints. Requires that
`RowChangeState.needs_old_rows` is False.
"""


def apply_row_changes(
    engine: Engine,
    state: RowChangeState,
    changes: Iterable[FileChange],
    *,
    new_versions: NewVersions | None = None,
    updated_rows: UpdatedRows | None = None,
    assigned: Collection[str] = (),
    inserted: Iterable[pa.RecordBatch] = (),
    record_changes: bool | None = None,
    data_change: bool = True,
) -> RowChanges:
    """Write the data files, deletion vectors and change data files of row changes.

    The copied, updated and inserted rows of all files are written to the same new files. On any
    error, the written files are deleted.

    If a commit has change data files, they must contain all of its changes (PROTOCOL.md, Change
    Data Files). A commit needs no change data files if each of its changes writes a deletion
    vector, removes a whole file or adds rows.

    Args:
        changes: the changed rows, with at most one `FileChange` for each file. If no row of a file
            changes and `FileChange.rewrite` is False, the file is skipped.
        new_versions: function that computes the updated rows from the old rows with the row
            indexes `FileChange.updated`.
        updated_rows: function that is passed instead of `new_versions` if the updated rows don't
            depend on the old rows. In this case, the old rows aren't read.
        assigned: names of the columns that get new values in all updated rows. Other partition
            columns keep their values. If such a value is a timestamp string without a time zone in
            the log, new files get the same string.
        inserted: new rows; missing columns get default or generated values. `apply_row_changes`
            checks the constraints of these rows.
        record_changes: whether to write change data files. If None, they are written if the change
            data feed is enabled and `data_change` is True.
        data_change: False if rows are only moved to other files (REORG PURGE).
    """
    if record_changes is None:
        record_changes = state.change_data_feed and data_change
    writer = _RowChangeWriter(
        engine,
        state,
        new_versions,
        updated_rows,
        assigned=assigned,
        record_changes=record_changes,
        moves=not data_change,
    )
    try:
        rows = writer.rows(changes, inserted)
        writer.result.added = write_rows(
            engine, state.transaction_state, rows, additional_columns=state.materialized
        )
        writer.finish()
    except BaseException:
        writer.discard()
        raise
    if not data_change:
        writer.result.added = [_unchanged(add) for add in writer.result.added]
    return writer.result


class _RowChangeWriter:
    def __init__(
        self,
        engine: Engine,
        state: RowChangeState,
        new_versions: NewVersions | None,
        updated_rows: UpdatedRows | None,
        *,
        assigned: Collection[str],
        record_changes: bool,
        moves: bool,
    ) -> None:
        self._engine = engine
        self._state = state
        self._new_versions = new_versions
        self._updated_rows = updated_rows
        self._assigned = assigned
        self._data_change = not moves
        self._changes = ChangeDataFiles(engine, state.transaction_state) if record_changes else None
        self._vectors = DeletionVectorFiles(engine, state.transaction_state)
        self._schema = to_arrow_schema(state.transaction_state.schema)
        self._now = current_time_ms()
        self.result = RowChanges()

    def rows(
        self, changes: Iterable[FileChange], inserted: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of new files (copied, updated, inserted), and record change data."""
        for change in changes:
            yield from self._rows_of(change)
        rules = RowConstraints(self._engine, self._state.transaction_state)
        for batch in inserted:
            rows = rules.apply(batch)
            self.result.num_inserted_rows += rows.num_rows
            if self._changes is not None:
                self._changes.add(rows, "insert")
            yield self._tracked(rows, None, None)

    def finish(self) -> None:
        self._vectors.finish()
        self.result.vector_files = self._vectors.paths
        if self._changes is not None:
            self._changes.finish()
            self.result.change_files = self._changes.actions

    def discard(self) -> None:
        """Delete the written files after an error.

        If this fails, only a warning is logged, so that the original error is raised.
        """
        self.result.vector_files = self._vectors.paths
        if self._changes is not None:
            self.result.change_files = self._changes.actions
        table = self._state.transaction_state.table
        try:
            self.result.discard(self._engine, table)
        except BayouError as error:
            _LOG.warning(
                "%s: can't delete the files of a failed operation: %s. VACUUM deletes them later.",
                table,
                error,
            )

    def _rows_of(self, change: FileChange) -> Iterator[pa.RecordBatch]:
        file = change.file
        old = BitMap64()
        if file.deletion_vector is not None:
            old = read.load(self._engine, self._state.transaction_state.table, file.deletion_vector)
        removed = change.removed - old
        if not removed and not change.rewrite:
            return
        physical = self._num_rows(file, removed | old)
        if removed and removed.max() >= physical:
            raise ArgumentError(
                f"{self._state.transaction_state.table}: {file.path} has {physical} rows, so "
                f"there is no row {removed.max()} to change. Pass row positions that exist in "
                "this file.",
                argument="changes",
            )
        num_updated = len(removed & change.updated)
        self.result.num_updated_rows += num_updated
        if self.result.num_deleted_rows is not None:
            self.result.num_deleted_rows += len(removed) - num_updated
        if old and old.max() >= physical:
            raise CorruptTableError(
                f"{self._state.transaction_state.table}: the deletion vector of {file.path} "
                f"deletes row {old.max()}, but the file has {physical} rows. Rewrite the file with "
                "the software that wrote the deletion vector.",
                table=self._state.transaction_state.table,
                file=file.path,
            )
        all_removed = len(removed) + len(old) == physical
        if change.rewrite and not all_removed:
            self.result.num_copied_rows += physical - len(removed) - len(old)
            yield from self._read(change, removed, None, copies=True)
        elif self._changes is not None or (self._new_versions is not None and num_updated):
            yield from self._read(change, removed, None if all_removed else removed, copies=False)
        elif self._updated_rows is not None and num_updated:
            for rows in self._updated_rows(change):
                yield self._updated(change, rows, None)
        if change.rewrite or all_removed:
            self.result.remove(file.add, self._now, data_change=self._data_change)
        else:
            self._mark(file.add, removed | old, physical)

    def _num_rows(self, file: ScanFile, deleted: BitMap64) -> int:
        """Return the number of rows in a file, including deleted rows.

        Some writers record a row count that is too low. A change could then remove a file that
        still has live rows. Therefore, the count in the statistics is used only if it is greater
        than both the highest row index in `deleted` and the number of deleted rows. Otherwise, the
        row count is read from the Parquet footer.

        Args:
            deleted: row indexes of the rows that are deleted after the change.
        """
        num_records = file.num_records
        if (
            num_records is not None
            and len(deleted) < num_records
            and (not deleted or deleted.max() < num_records)
        ):
            return num_records
        return num_rows(self._engine, file)

    def _mark(self, add: AddFile, deleted: BitMap64, physical: int) -> None:
        if not self._state.deletion_vectors:
            raise ArgumentError(
                f"{self._state.transaction_state.table}: deletion vectors are disabled "
                f"(delta.enableDeletionVectors), so {add.path} must be rewritten. Set "
                "rewrite=True.",
                argument="changes",
            )
        try:
            statistics = stats.with_wide_bounds(add.stats, physical)
        except ValueError as error:
            raise CorruptTableError(
                f"{self._state.transaction_state.table}: the statistics of {add.path} in the log "
                f"can't be parsed: {error}. Rewrite the file with the writer that added it.",
                table=self._state.transaction_state.table,
                file=add.path,
            ) from error
        self.result.removed.append(to_remove(add, self._now, data_change=self._data_change))
        self.result.with_deletion_vectors.append(
            msgspec.structs.replace(
                add,
                deletion_vector=self._vectors.add(deleted),
                stats=statistics,
                data_change=self._data_change,
            )
        )
        if add.deletion_vector is None:
            self.result.num_vectors_added += 1
        else:
            self.result.num_vectors_updated += 1

    def _read(
        self, change: FileChange, removed: BitMap64, only: BitMap64 | None, *, copies: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the copied rows of a file and the new versions of its updated rows.

        Args:
            removed: row indexes of the deleted and updated rows.
            only: row indexes of the rows to read. If None, all rows are read.
            copies: whether the rows that don't change are copied.
        """
        for first, end in row_group_ranges(self._engine, change.file, only):
            with self._batches(change.file, first, end) as batches:
                for batch in batches:
                    remaining = read.selection_vector(removed, batch.column(ROW_INDEX_COLUMN))
                    if copies:
                        rows = batch if remaining is None else batch.filter(remaining)
                        yield self._with_partition_strings(change, self._copied(rows))
                    if remaining is not None:
                        yield from self._changed(change, batch.filter(pc.invert(remaining)))

    def _with_partition_strings(
        self, change: FileChange, rows: pa.RecordBatch, assigned: Collection[str] = ()
    ) -> pa.RecordBatch:
        """Record in the rows' schema metadata which timestamp partition values lack a time zone.

        New files that contain the rows then get the same strings as partition values.

        Args:
            assigned: columns that have new values in these rows.
        """
        return with_original_values(
            self._state.transaction_state,
            rows,
            change.file.partition_values,
            time_zone=self._state.time_zone,
            assigned=assigned,
        )

    def _batches(
        self, file: ScanFile, first: int, end: int | None
    ) -> CloseableIterator[pa.RecordBatch]:
        batches = read_scan_file(self._engine, self._state.read, file, first, end)
        return read_ahead(batches, _BATCHES_AHEAD) if file.size > _MIN_READ_AHEAD_SIZE else batches

    def _copied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.select(self._schema.names)
        if not self._state.row_tracking:
            return self._tracked(rows, None, None)
        return self._tracked(rows, batch.column(ROW_ID), batch.column(ROW_COMMIT_VERSION))

    def _changed(self, change: FileChange, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Record deleted and updated rows as change data; yield new versions of the updated rows.

        If `apply_row_changes` was called without `new_versions`, nothing is yielded.
        """
        not_updated = read.selection_vector(change.updated, batch.column(ROW_INDEX_COLUMN))
        if not_updated is None:
            self._record(change, batch, "delete")
            return
        before = batch.filter(pc.invert(not_updated))
        self._record(change, batch.filter(not_updated), "delete")
        self._record(change, before, "update_preimage")
        if self._new_versions is not None:
            first = 0
            for rows in self._new_versions(change, before):
                ids = None
                if self._state.row_tracking:
                    ids = before.column(ROW_ID).slice(first, rows.num_rows)
                yield self._updated(change, rows, ids)
                first += rows.num_rows

    def _record(self, change: FileChange, rows: pa.RecordBatch, change_type: ChangeType) -> None:
        if self._changes is not None:
            self._changes.add(self._with_partition_strings(change, rows), change_type)

    def _updated(
        self, change: FileChange, rows: pa.RecordBatch, ids: pa.Array[Any] | None
    ) -> pa.RecordBatch:
        if self._changes is not None:
            recorded = self._with_partition_strings(change, rows, self._assigned)
            self._changes.add(recorded, "update_postimage")
        return self._with_partition_strings(change, self._tracked(rows, ids, None), self._assigned)

    def _tracked(
        self,
        rows: pa.RecordBatch,
        ids: pa.Array[Any] | None,
        versions: pa.Array[Any] | None,
    ) -> pa.RecordBatch:
        """If row tracking is enabled, append the columns of row ids and row commit versions.

        A null value means that the row has its default row id or default row commit version
        (PROTOCOL.md, Row Tracking).
        """
        rows = with_schema(rows, self._schema, table=self._state.transaction_state.table)
        for name, values in ((ROW_ID, ids), (ROW_COMMIT_VERSION, versions)):
            if name in self._state.materialized:
                column = pa.nulls(rows.num_rows, pa.int64()) if values is None else values
                rows = rows.append_column(pa.field(name, pa.int64()), column)
        return rows


def _unchanged(add: AddFile) -> AddFile:
    return msgspec.structs.replace(add, data_change=False)
