"""Task of a merge: join the source in memory with target files, one after another."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyroaring import BitMap64

from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.commands.merge.clauses import SOURCE
from bayou.kernel.commands.merge.decisions import Decisions, FileDecisions
from bayou.kernel.commands.merge.join import Matcher
from bayou.kernel.commands.merge.new_rows import RowBuilder
from bayou.kernel.commands.merge.plan import MergePlan
from bayou.kernel.commands.merge.result import MergeResult
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.commands.row_changes.row_changes import FileChange, apply_row_changes
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ScanState


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """The source rows of a merge and their hashed join keys; thread-safe.

    Attributes:
        rows: source rows with joined column names (`source.<name>`).
    """

    rows: pa.RecordBatch
    matcher: Matcher


@dataclass(frozen=True, kw_only=True)
class MergeTask(PickledTask):
    """Merges a source into target files, on one or several workers; can be pickled.

    Each file must be processed by one worker only, because a worker detects target rows with
    several matches only among the rows that it processes. After all files are processed,
    `MergeResult.combined` combines the results of the workers. `MergeOperation.unmatched` then
    returns the source rows without a match, and `insert` inserts these rows.

    Attributes:
        scan_state: scan state for reading `plan.condition_columns` and the row index.
    """

    plan: MergePlan
    state: RowChangeState
    scan_state: ScanState

    def for_writer(self, index: int, count: int) -> MergeTask:
        return replace(self, state=self.state.for_writer(index, count))

    def prepare(self, source: MergeSource) -> PreparedSource:
        """Hash the join keys of the source rows.

        Results of workers contain row numbers of the source. Therefore, each worker must pass all
        source rows, in the same order.
        """
        names = [f"{SOURCE}.{name}" for name in source.rows.schema.names]
        rows = source.rows.rename_columns(names)
        return PreparedSource(rows, Matcher(self.plan.condition, self.plan.names.schema, rows))

    def run(
        self,
        engine: Engine,
        source: PreparedSource,
        files: Iterable[ScanFile],
        *,
        inserting: bool = False,
    ) -> MergeResult:
        """Apply the merge to some files without a commit; on any error, delete the written files.

        Args:
            inserting: whether to also insert source rows without a match. If True, `files` must be
                all files of the merge.
        """
        return _Run(engine, self, source).run(files, inserting=inserting)

    def insert(
        self, engine: Engine, source: PreparedSource, rows: BitMap64, *, record_changes: bool
    ) -> MergeResult:
        """Apply the insert clauses to source rows; on any error, delete the written files.

        Args:
            rows: row numbers of the source rows without a match.
            record_changes: whether to write change data files (`MergeOperation.records_changes`).
        """
        new = RowBuilder(engine, self.plan, self.state.transaction_state, source.rows)
        chosen = pa.array(rows.to_array(), pa.int64())
        changes = apply_row_changes(
            engine, self.state, [], inserted=new.inserted(chosen), record_changes=record_changes
        )
        return MergeResult(changes=changes)


class _Run:
    def __init__(self, engine: Engine, task: MergeTask, source: PreparedSource) -> None:
        plan = task.plan
        self._engine = engine
        self._plan = plan
        self._state = task.state
        self._decisions = Decisions(engine, plan, source.matcher, source.rows, task.scan_state)
        self._new = RowBuilder(engine, plan, task.state.transaction_state, source.rows)
        self._current: FileDecisions | None = None
        self._clauses = plan.target_clauses
        self._counts = [0] * len(self._clauses)
        self._scan_seconds = 0.0

    def run(self, files: Iterable[ScanFile], *, inserting: bool) -> MergeResult:
        state = self._state
        # New values depend only on the source, so the old rows don't have to be read.
        source_only = not state.needs_old_rows and not self._plan.updates_need_target
        changed = self._changed_files(files)
        first = next(changed, None)
        changes = apply_row_changes(
            self._engine,
            state,
            [] if first is None else itertools.chain([first], changed),
            new_versions=None if source_only else self._new_versions,
            updated_rows=self._updated_rows if source_only else None,
            assigned=self._plan.always_updated,
            inserted=self._inserted() if inserting else (),
            record_changes=None if first is not None else False,
        )
        changes.scan_seconds = self._scan_seconds
        return MergeResult(
            changes=changes,
            matched=to_bitmap(self._decisions.matched.rows()),
            clause_counts=tuple(self._counts),
        )

    def _changed_files(self, files: Iterable[ScanFile]) -> Iterator[FileChange]:
        since = time.perf_counter()
        for decisions in self._decisions.of_files(files):
            self._scan_seconds += time.perf_counter() - since
            yield self._changed_file(decisions)
            since = time.perf_counter()
        self._scan_seconds += time.perf_counter() - since

    def _changed_file(self, decisions: FileDecisions) -> FileChange:
        for number in range(len(self._counts)):
            self._counts[number] += pc.equal(decisions.clauses, number).true_count
        numbers = [n for n, c in enumerate(self._clauses) if c.action == "update"]
        updates = pa.array(numbers, pa.int8())
        updated = pc.is_in(decisions.clauses, value_set=updates)
        self._current = decisions.of(updated)
        return FileChange(
            file=decisions.file,
            deleted=to_bitmap(decisions.positions.filter(pc.invert(updated))),
            updated=to_bitmap(self._current.positions),
            rewrite=not self._state.deletion_vectors,
        )

    def _new_versions(self, _: FileChange, before: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        assert self._current is not None  # called before `_changed_files` yields the next file
        return self._new.updated_from_file(self._current, before)

    def _updated_rows(self, _: FileChange) -> Iterator[pa.RecordBatch]:
        assert self._current is not None  # called before `_changed_files` yields the next file
        return self._new.updated_from_source(self._current)

    def _inserted(self) -> Iterator[pa.RecordBatch]:
        if self._plan.not_matched:
            yield from self._new.inserted(self._decisions.matched.unmatched())
