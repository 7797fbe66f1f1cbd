"""Rows that another engine found, and what it makes of them, put into a table's files.

DELETE, UPDATE and MERGE find rows and make new versions by the kernel's own expressions. Where
those aren't enough an engine of its own does both, and hands in positions and values: what becomes
of files, the table's rules, ids of rows and change data are seen to here, as for any row operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.errors import SchemaError
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.commands.row_changes.assignments import generated_from
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_changes import FileChange, apply_row_changes
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.deletion_vectors.deleted_rows import bitmap
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN
from bayou.kernel.table_features.constraints import RowRules
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.column_rules import identity_of

__all__ = ["FoundRows", "FoundRowsWork", "check_assigned"]

pc: Any = pyarrow.compute


class _WireWork(msgspec.Struct, frozen=True, array_like=True):
    state: bytes
    assigned: tuple[str, ...]


_WIRE = WireFormat("work on found rows", 1, _WireWork)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows of one file that change.

    Attributes:
        file: as a scan with statistics gave it.
        deleted: positions of rows that go away.
        updated: positions of rows that get new versions, int64, ascending, each once.
        values: new values, row by row those of `updated`: the columns of
            `FoundRowsWork.assigned`, by their names and in their types.
    """

    file: ScanFile
    deleted: BitMap64 = field(default_factory=BitMap64)
    updated: pa.Int64Array = field(default_factory=lambda: pa.array([], pa.int64()))
    values: pa.RecordBatch | None = None


@dataclass(frozen=True, kw_only=True)
class FoundRowsWork:
    """What a worker needs besides the rows.

    Attributes:
        state: how rows change.
        assigned: columns that new versions have new values of; the others keep theirs, but for
            generated columns, which follow.
    """

    state: RowChangeState
    assigned: tuple[str, ...] = ()

    def for_writer(self, index: int, count: int) -> FoundRowsWork:
        """The work of one worker of several; see `TransactionState.for_writer`."""
        return replace(self, state=self.state.for_writer(index, count))

    def run(
        self,
        engine: Engine,
        found: Iterable[FoundRows],
        inserted: Iterable[pa.RecordBatch] = (),
        *,
        record_changes: bool | None = None,
    ) -> RowChanges:
        """Write what takes rows from how they are to how they are to be. Nothing is committed.

        Args:
            found: at most one for each file.
            inserted: new rows; what they lack is made.
            record_changes: see `apply_row_changes`.

        Raises:
            ConstraintViolationError: a new row breaks a rule of the table.
            DataFileError, StorageError: as the names say. What was written has been deleted.
        """
        run = _Run(engine, self)
        return apply_row_changes(
            engine,
            self.state,
            run.changes(found),
            new_versions=run.new_versions if self.assigned else None,
            inserted=inserted,
            record_changes=record_changes,
        )

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE.encode(_WireWork(self.state.to_bytes(), self.assigned))

    @classmethod
    def from_bytes(cls, data: bytes) -> FoundRowsWork:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                state=RowChangeState.from_bytes(wire.state), assigned=tuple(wire.assigned)
            ),
        )


def check_assigned(state: TransactionState, columns: Iterable[str]) -> None:
    """Check that new versions of rows may have new values of columns.

    Raises:
        SchemaError: an identity column.
    """
    for name in columns:
        column = state.schema.get(name)
        if column is not None and identity_of(column) is not None:
            raise SchemaError(
                f"Identity column {name!r} of {state.table} can't be updated "
                "(DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED).",
                table=state.table,
                column=name,
            )


class _Run:
    def __init__(self, engine: Engine, work: FoundRowsWork) -> None:
        self._rewrites = not work.state.marks_rows
        self._schema = work.state.write.schema
        self._assigned = work.assigned
        self._made = generated_from(self._schema, set(work.assigned))
        self._rules = RowRules(engine, work.state.write)
        self._current: FoundRows | None = None

    def changes(self, found: Iterable[FoundRows]) -> Iterator[FileChange]:
        for rows in found:
            self._current = rows
            yield FileChange(
                file=rows.file,
                deleted=rows.deleted,
                updated=bitmap(rows.updated),
                rewrite=self._rewrites,
            )

    def new_versions(self, _: FileChange, before: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._current
        assert rows is not None  # a file's rows are asked for before the next file
        assert rows.values is not None  # updated rows come with values
        places = pc.index_in(before.column(ROW_INDEX_COLUMN), value_set=rows.updated)
        columns: dict[str, pa.Array[Any]] = {}
        for column in self._schema:
            if column.name in self._assigned:
                columns[column.name] = rows.values.column(column.name).take(places)
            elif column.name not in self._made:
                columns[column.name] = before.column(column.name)
        kept = [name for name in columns if name not in self._assigned]
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return self._rules.apply(batch, of_table=kept)
