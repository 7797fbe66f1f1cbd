"""A worker's share of a DELETE or UPDATE: rows found in files, and changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.commands.row_changes.assignments import Assignments
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_changes import FileChange, NewVersions, apply_row_changes
from bayou.kernel.commands.row_changes.row_search import Candidate, RowSearch
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Expression
from bayou.kernel.expressions.serialization import from_wire, to_wire
from bayou.kernel.scan.scan_file import ScanFile

__all__ = ["RowWork"]


class _WireWork(msgspec.Struct, frozen=True, array_like=True):
    state: bytes
    search: bytes
    assigned: dict[str, str | list[Any]] | None


_WIRE = WireFormat("work of a row operation", 1, _WireWork)


@dataclass(frozen=True, kw_only=True)
class RowWork:
    """What a worker needs besides the files.

    Attributes:
        state: how rows change.
        search: finds them.
        assigned: new values of an UPDATE's rows, see `Assignments`; None: they are deleted.
    """

    state: RowChangeState
    search: RowSearch
    assigned: Mapping[str, Expression | str] | None = None

    @property
    def records_changes(self) -> bool:
        """Whether change data files are written.

        Of deletion vectors, and of files that go away, the feed of a DELETE is made without them.
        """
        if self.assigned is None and (self.state.marks_rows or self.search.condition is None):
            return False
        return self.state.records_changes

    def run(
        self, engine: Engine, files: Iterable[Candidate], *, data_change: bool = True
    ) -> RowChanges:
        """Find the rows of some files, and write what changes them. Nothing is committed.

        Args:
            data_change: False where files go away whole, and their rows come again.

        Raises:
            PredicateError: a condition or value can't be understood, or fails for a row.
            ConstraintViolationError: a new version breaks a rule of the table.
            DataFileError, StorageError: as the names say. What was written has been deleted.
        """
        new_versions: NewVersions | None = None
        if self.assigned is not None:
            assignments = Assignments(engine, self.state.write, self.assigned)

            def made(_: FileChange, rows: pa.RecordBatch) -> pa.RecordBatch:
                return assignments.apply(rows)

            new_versions = made
        finder = _Finder(self, engine)
        changed = apply_row_changes(
            engine,
            self.state,
            finder.changes(files),
            new_versions=new_versions,
            record_changes=self.records_changes,
        )
        changed.remove_files(finder.whole, data_change=data_change)
        changed.scan_seconds = finder.seconds
        return changed

    def to_bytes(self) -> bytes:
        """For another process."""
        assigned: dict[str, str | list[Any]] | None = None
        if self.assigned is not None:
            assigned = {
                name: value if isinstance(value, str) else to_wire(value)
                for name, value in self.assigned.items()
            }
        return _WIRE.encode(_WireWork(self.state.to_bytes(), self.search.to_bytes(), assigned))

    @classmethod
    def from_bytes(cls, data: bytes) -> RowWork:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(data, _of_wire)


def _of_wire(wire: _WireWork) -> RowWork:
    assigned: dict[str, Expression | str] | None = None
    if wire.assigned is not None:
        assigned = {
            name: value if isinstance(value, str) else from_wire(value)
            for name, value in wire.assigned.items()
        }
    return RowWork(
        state=RowChangeState.from_bytes(wire.state),
        search=RowSearch.from_bytes(wire.search),
        assigned=assigned,
    )


class _Finder:
    """Which rows of which files change, found while the ones before are written.

    Attributes:
        whole: files that go away without a look into them.
        seconds: spent on finding.
    """

    def __init__(self, work: RowWork, engine: Engine) -> None:
        self._work = work
        self._engine = engine
        self._positions = work.search.positions(engine)
        self._deletes = work.assigned is None
        self.whole: list[ScanFile] = []
        self.seconds = 0.0

    def changes(self, files: Iterable[Candidate]) -> Iterator[FileChange]:
        since = time.perf_counter()
        try:
            for candidate in files:
                change = self._change(candidate)
                if change is None:
                    continue
                self.seconds += time.perf_counter() - since
                yield change
                since = time.perf_counter()
        finally:
            self.seconds += time.perf_counter() - since

    def _change(self, candidate: Candidate) -> FileChange | None:
        if candidate.certain:
            if self._deletes and not self._work.records_changes:
                self.whole.append(candidate.file)
                return None
            positions = candidate.all_positions(self._engine)
        else:
            positions = self._positions(candidate.file)
            if not positions:
                return None
        rewrite = not self._work.state.marks_rows
        if self._deletes:
            return FileChange(file=candidate.file, deleted=positions, rewrite=rewrite)
        return FileChange(file=candidate.file, updated=positions, rewrite=rewrite)
