"""The algebra of row changes: rows of data files go away, others come, all in one commit.

DELETE, UPDATE, MERGE and REORG PURGE decide which rows of which files go away and what comes
instead (`FileChange`, batches); `apply_row_changes` writes data files, deletion vectors and change
data files, and says which actions make it so. It commits nothing, and needs no transaction: a
worker does its share with a `RowChangeState` that came as bytes.

What is to happen to the rows of one data file: the unit of work of a row operation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.errors import ArgumentError, BayouError, CorruptTableError
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.arrow.types import relabelled, to_arrow_schema
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.data_writer.change_data_files import ChangeDataFiles
from bayou.kernel.data_writer.data_writer import write_rows
from bayou.kernel.data_writer.partitioner import keeping_texts
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.deleted_rows import num_rows, row_group_ranges
from bayou.kernel.deletion_vectors.write import DeletionVectorFiles
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID, ROW_INDEX_COLUMN
from bayou.kernel.scan.source import read_ahead
from bayou.kernel.scan.transform import read_scan_file
from bayou.kernel.table_features.constraints import RowRules
from bayou.kernel.transaction.table_update import remove_of
from bayou.protocol import stats
from bayou.protocol.actions import AddFile, ChangeType

__all__ = ["FileChange", "NewVersions", "apply_row_changes"]


class _WireFileChange(msgspec.Struct, frozen=True, array_like=True):
    file: bytes
    deleted: bytes
    updated: bytes
    rewrite: bool


_WIRE = WireFormat("change of a file", 1, _WireFileChange)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """Which rows of a data file go away.

    Positions are physical ones, from 0, whole file and rows that a deletion vector deletes
    included; those that it deletes already don't matter here.

    Attributes:
        file: as a scan with statistics gave it.
        deleted: rows that go away for good.
        updated: rows that go away because there is a new version of each.
        rewrite: what is left is copied to a new file; else a deletion vector marks what isn't.
    """

    file: ScanFile
    deleted: BitMap64 = field(default_factory=BitMap64)
    updated: BitMap64 = field(default_factory=BitMap64)
    rewrite: bool

    @property
    def gone(self) -> BitMap64:
        """All rows that go away."""
        return self.deleted | self.updated

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE.encode(
            _WireFileChange(
                self.file.to_bytes(),
                self.deleted.serialize(),
                self.updated.serialize(),
                self.rewrite,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> FileChange:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                file=ScanFile.from_bytes(wire.file),
                deleted=BitMap64.deserialize(wire.deleted),
                updated=BitMap64.deserialize(wire.updated),
                rewrite=wire.rewrite,
            ),
        )


_LOG = logging.getLogger(__name__)
pc: Any = pyarrow.compute

_BATCHES_AHEAD = 4
_WORTH_A_THREAD = 4 * 1024 * 1024
"""Bytes of a file from which it is read by a thread while what was read before is written."""

NewVersions: TypeAlias = Callable[[FileChange, pa.RecordBatch], pa.RecordBatch]
"""Gives new versions of some of a file's updated rows, in their order and number.

What it gets has the table's columns and those of `RowChangeState.metadata_columns`; it gives
exactly the table's, keeping its rules (`RowRules.apply`).
"""


def apply_row_changes(
    engine: Engine,
    state: RowChangeState,
    changes: Iterable[FileChange],
    *,
    new_versions: NewVersions | None = None,
    updated: Iterable[pa.RecordBatch] = (),
    inserted: Iterable[pa.RecordBatch] = (),
    record_changes: bool | None = None,
    data_change: bool = True,
) -> RowChanges:
    """Write what takes the rows from how they are to how they are to be.

    File after file, batch after batch: memory holds what waits for its partition's file (see
    `write_data`) and one deletion vector a file. All new rows go to files together, so that few
    files come of many small ones.

    A commit with change data files has all of its changes in them (PROTOCOL.md, Change Data
    Files). One that only marks, removes whole files, or only adds rows needs none.

    Args:
        changes: at most one a file. What is gone already doesn't count; a file with nothing to do
            is passed over, unless it is to be rewritten.
        new_versions: makes the new versions of `FileChange.updated` rows while their files are
            read; None where `updated` brings them.
        updated: new versions of updated rows: exactly the table's columns, rules kept, and
            `_metadata.row_id` (int64) where the table tracks rows.
        inserted: new rows; what they lack is made, and the table's rules are checked.
        record_changes: whether change data files are written; None: where the feed is on.
        data_change: False where rows only move (a purge).

    Raises:
        DataFileError: a file can't be read, or a deletion vector.
        ConstraintViolationError, SchemaError: inserted rows that break a rule.
        ArgumentError: a position that the file doesn't have, or a file that can't be marked.
        StorageError: the store refused. Whatever the error, what was written has been deleted.
    """
    if record_changes is None:
        record_changes = state.records_changes and data_change
    work = _Work(engine, state, new_versions, record_changes=record_changes, moves=not data_change)
    try:
        rows = work.rows(changes, updated, inserted)
        work.result.added = write_rows(engine, state.write, rows, carried=state.materialized)
        work.finish()
    except BaseException:
        work.discard()
        raise
    if not data_change:
        work.result.added = [_unchanged(add) for add in work.result.added]
    return work.result


class _Work:
    def __init__(
        self,
        engine: Engine,
        state: RowChangeState,
        new_versions: NewVersions | None,
        *,
        record_changes: bool,
        moves: bool,
    ) -> None:
        self._engine = engine
        self._state = state
        self._new_versions = new_versions
        self._data_change = not moves
        self._changes = ChangeDataFiles(engine, state.write) if record_changes else None
        self._vectors = DeletionVectorFiles(engine, state.write)
        self._schema = to_arrow_schema(state.write.schema)
        self._now = time.time_ns() // 1_000_000
        self.result = RowChanges()

    def rows(
        self,
        changes: Iterable[FileChange],
        updated: Iterable[pa.RecordBatch],
        inserted: Iterable[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """Rows for new files: copied, updated, inserted; what files need is noted on the way."""
        for change in changes:
            yield from self._rows_of(change)
        for batch in updated:
            ids = batch.column(ROW_ID) if self._state.tracks_rows else None
            yield self._updated(batch.select(self._schema.names), ids)
        rules = RowRules(self._engine, self._state.write)
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
        """Delete what was written; a failure to do so is logged, for there is another error."""
        self.result.vector_files = self._vectors.paths
        if self._changes is not None:
            self.result.change_files = self._changes.actions
        table = self._state.write.table
        try:
            self.result.discard(self._engine, table)
        except BayouError as error:
            _LOG.warning("Files of a failed change of rows of %s stay: %s", table, error)

    def _rows_of(self, change: FileChange) -> Iterator[pa.RecordBatch]:
        file = change.file
        old = BitMap64()
        if file.deletion_vector is not None:
            old = read.load(self._engine, self._state.write.table, file.deletion_vector)
        gone = change.gone - old
        if not gone and not change.rewrite:
            return
        physical = num_rows(self._engine, file)
        if gone and gone.max() >= physical:
            raise ArgumentError(
                f"{file.path} of {self._state.write.table} has {physical} rows; row {gone.max()} "
                "was to be changed.",
                argument="changes",
            )
        num_updated = len(gone & change.updated)
        self.result.num_updated_rows += num_updated
        if self.result.num_deleted_rows is not None:
            self.result.num_deleted_rows += len(gone) - num_updated
        if old and old.max() >= physical:
            raise CorruptTableError(
                f"The deletion vector of {file.path} in the log of {self._state.write.table} "
                f"deletes row {old.max()} of a file of {physical} rows. Rewrite the file with the "
                "writer that made the vector.",
                table=self._state.write.table,
                file=file.path,
            )
        whole = len(gone) + len(old) == physical
        if change.rewrite and not whole:
            self.result.num_copied_rows += physical - len(gone) - len(old)
            yield from self._read(change, gone, None, copies=True)
        elif self._changes is not None or (self._new_versions is not None and num_updated):
            yield from self._read(change, gone, None if whole else gone, copies=False)
        if change.rewrite or whole:
            self.result.remove(file.add, self._now, data_change=self._data_change)
        else:
            self._mark(file.add, gone | old, physical)

    def _mark(self, add: AddFile, deleted: BitMap64, physical: int) -> None:
        if not self._state.marks_rows:
            raise ArgumentError(
                f"{self._state.write.table} has no deletion vectors "
                f"(delta.enableDeletionVectors): {add.path} can only be rewritten.",
                argument="changes",
            )
        try:
            statistics = stats.with_wide_bounds(add.stats, physical)
        except ValueError as error:
            raise CorruptTableError(
                f"The statistics of {add.path} in the log of {self._state.write.table} can't be "
                f"read: {error}.",
                table=self._state.write.table,
                file=add.path,
            ) from error
        self.result.removed.append(remove_of(add, self._now, data_change=self._data_change))
        self.result.marked.append(
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
        self, change: FileChange, gone: BitMap64, only: BitMap64 | None, *, copies: bool
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a file that are copied, and new versions of those that are updated.

        Args:
            only: rows that are looked for, None for all.
            copies: rows that aren't gone are copied.
        """
        for first, end in row_group_ranges(self._engine, change.file, only):
            with self._batches(change.file, first, end) as batches:
                for batch in batches:
                    kept = read.selection(gone, batch.column(ROW_INDEX_COLUMN))
                    if copies:
                        copied = self._copied(batch if kept is None else batch.filter(kept))
                        yield self._keeping_texts(change, copied)
                    if kept is not None:
                        changed = self._changed(change, batch.filter(pc.invert(kept)))
                        yield from (self._keeping_texts(change, rows) for rows in changed)

    def _keeping_texts(self, change: FileChange, rows: pa.RecordBatch) -> pa.RecordBatch:
        return keeping_texts(self._state.write, rows, change.file.partition_values)

    def _batches(
        self, file: ScanFile, first: int, end: int | None
    ) -> CloseableIterator[pa.RecordBatch]:
        batches = read_scan_file(self._engine, self._state.read, file, first, end)
        return read_ahead(batches, _BATCHES_AHEAD) if file.size > _WORTH_A_THREAD else batches

    def _copied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.select(self._schema.names)
        if not self._state.tracks_rows:
            return self._tracked(rows, None, None)
        return self._tracked(rows, batch.column(ROW_ID), batch.column(ROW_COMMIT_VERSION))

    def _changed(self, change: FileChange, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """New versions of a batch's updated rows; what changes is recorded."""
        not_updated = read.selection(change.updated, batch.column(ROW_INDEX_COLUMN))
        if not_updated is None:
            self._record(change, batch, "delete")
            return
        before = batch.filter(pc.invert(not_updated))
        self._record(change, batch.filter(not_updated), "delete")
        self._record(change, before, "update_preimage")
        if self._new_versions is not None:
            ids = before.column(ROW_ID) if self._state.tracks_rows else None
            versions = self._keeping_texts(change, self._new_versions(change, before))
            yield self._updated(versions, ids)

    def _record(self, change: FileChange, rows: pa.RecordBatch, change_type: ChangeType) -> None:
        if self._changes is not None:
            self._changes.add(self._keeping_texts(change, rows), change_type)

    def _updated(self, rows: pa.RecordBatch, ids: pa.Array[Any] | None) -> pa.RecordBatch:
        if self._changes is not None:
            self._changes.add(rows, "update_postimage")
        return self._tracked(rows, ids, None)

    def _tracked(
        self,
        rows: pa.RecordBatch,
        ids: pa.Array[Any] | None,
        versions: pa.Array[Any] | None,
    ) -> pa.RecordBatch:
        """Rows with their ids and commit versions, where the table has them; null: fresh ones."""
        rows = relabelled(rows, self._schema, table=self._state.write.table)
        for name, values in ((ROW_ID, ids), (ROW_COMMIT_VERSION, versions)):
            if name in self._state.materialized:
                column = pa.nulls(rows.num_rows, pa.int64()) if values is None else values
                rows = rows.append_column(pa.field(name, pa.int64()), column)
        return rows


def _unchanged(add: AddFile) -> AddFile:
    return msgspec.structs.replace(add, data_change=False)
