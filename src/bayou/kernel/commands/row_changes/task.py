"""Task of a DELETE or UPDATE: find the matching rows of some files and change them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from bayou.kernel.arrow.large_rows import computed_in_slices
from bayou.kernel.arrow.read_ahead import read_ahead
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.commands.row_changes.assignments import Assignments
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_changes import FileChange, NewVersions, apply_row_changes
from bayou.kernel.commands.row_changes.row_search import Candidate, RowSearch
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Expression
from bayou.kernel.scan.scan_file import ScanFile


@dataclass(frozen=True, kw_only=True)
class RowChangeTask(PickledTask):
    """Finds and changes the matching rows of files for a DELETE or UPDATE, on any worker.

    Attributes:
        assigned: the SET clause of an UPDATE. If None, matching rows are deleted.
    """

    state: RowChangeState
    search: RowSearch
    assigned: Mapping[str, Expression | str] | None = None

    @property
    def records_changes(self) -> bool:
        """Whether change data files are written.

        A DELETE that writes deletion vectors or removes whole files needs no change data files.
        """
        if self.assigned is None and (self.state.deletion_vectors or self.search.condition is None):
            return False
        return self.state.change_data_feed

    def for_writer(self, index: int, count: int) -> RowChangeTask:
        return replace(self, state=self.state.for_writer(index, count))

    def run(
        self, engine: Engine, files: Iterable[Candidate], *, data_change: bool = True
    ) -> RowChanges:
        """Change the matching rows of some files; the caller commits the result.

        On any error, the written files are deleted.

        Args:
            data_change: value of `dataChange` for removed files; False if rows are only moved.
        """
        new_versions: NewVersions | None = None
        assigned: frozenset[str] = frozenset()
        if self.assigned is not None:
            assignments = Assignments(engine, self.state.transaction_state, self.assigned)

            def assign(_: FileChange, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
                return computed_in_slices(
                    0, rows.num_rows, lambda *part: assignments.apply(rows.slice(*part))
                )

            new_versions, assigned = assign, assignments.columns
        finder = _Finder(self, engine)
        # A thread searches the next file while this thread changes the rows of a file.
        with read_ahead(finder.changes(files), 1) as changes:
            changed = apply_row_changes(
                engine,
                self.state,
                changes,
                new_versions=new_versions,
                assigned=assigned,
                record_changes=self.records_changes,
            )
        changed.remove_files(finder.whole, data_change=data_change)
        changed.scan_seconds = finder.seconds
        return changed


class _Finder:
    """Finds the rows to change, one file at a time.

    `changes` searches a file when the caller requests the next `FileChange`.

    Attributes:
        whole: files that are removed without being read.
        seconds: time spent on the search.
    """

    def __init__(self, task: RowChangeTask, engine: Engine) -> None:
        self._task = task
        self._engine = engine
        self._positions = task.search.positions(engine)
        self._deletes = task.assigned is None
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
        if candidate.all_rows_match:
            if self._deletes and not self._task.records_changes:
                self.whole.append(candidate.file)
                return None
            positions = candidate.all_positions(self._engine)
        else:
            positions = self._positions(candidate.file)
            if not positions:
                return None
        rewrite = not self._task.state.deletion_vectors
        if self._deletes:
            return FileChange(file=candidate.file, deleted=positions, rewrite=rewrite)
        return FileChange(file=candidate.file, updated=positions, rewrite=rewrite)
