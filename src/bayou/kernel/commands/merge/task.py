"""A worker's share of a merge: the source in memory, the target file by file."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.commands.merge.clauses import SOURCE
from bayou.kernel.commands.merge.decisions import Decisions, FileDecisions
from bayou.kernel.commands.merge.join import Matcher
from bayou.kernel.commands.merge.new_rows import NewVersionsOfRows
from bayou.kernel.commands.merge.plan import MergePlan
from bayou.kernel.commands.merge.plan_serialization import WirePlan, plan_from_wire, plan_to_wire
from bayou.kernel.commands.merge.result import MergeOutcome
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.commands.row_changes.row_changes import FileChange, apply_row_changes
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.deletion_vectors.deleted_rows import bitmap
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ScanState

__all__ = ["MergeWork", "PreparedSource"]

pc: Any = pyarrow.compute


class _WireWork(msgspec.Struct, frozen=True, array_like=True):
    plan: WirePlan
    state: bytes
    read: bytes


_WIRE = WireFormat("work of a merge", 1, _WireWork)


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """A merge's source with its keys hashed; safe in threads.

    Attributes:
        rows: under their joined names.
    """

    rows: pa.RecordBatch
    matcher: Matcher


@dataclass(frozen=True, kw_only=True)
class MergeWork:
    """What a worker needs of a merge, besides the source and the files.

    A target row is in one file, and a file with one worker: so several source rows that match one
    target row are found by the worker that has it. Which source rows match nothing is known when
    all files were looked at (`MergeOutcome.combined`); they are inserted then, by `insert`.

    Attributes:
        plan: what happens to which rows.
        state: how rows change.
        read: how files are read to find out: `plan.deciding_columns`, and the row's index.
    """

    plan: MergePlan
    state: RowChangeState
    read: ScanState

    def for_writer(self, index: int, count: int) -> MergeWork:
        """The work of one worker of several; see `TransactionState.for_writer`."""
        return replace(self, state=self.state.for_writer(index, count))

    def prepare(self, source: MergeSource) -> PreparedSource:
        """Hash the source's keys.

        Args:
            source: all of it; every worker has the same rows in the same order.

        Raises:
            EvaluationError: a key or filter of the source can't be computed.
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
    ) -> MergeOutcome:
        """Do what the merge does to the rows of some files. Nothing is committed.

        Args:
            inserting: these are all files of the merge: what matches nothing in them is inserted.

        Raises:
            MultipleMatchesError: several source rows match one row that a clause may change.
            ConstraintViolationError: a new row breaks a rule.
            EvaluationError, DataFileError, StorageError: as the names say. What was written has
                been deleted.
        """
        return _Run(engine, self, source).outcome(files, inserting=inserting)

    def insert(
        self, engine: Engine, source: PreparedSource, rows: BitMap64, *, record_changes: bool
    ) -> MergeOutcome:
        """Insert some rows of the source, as the clauses say.

        Args:
            rows: none of them matches a target row.
            record_changes: the commit has change data files (`MergeOperation.records_changes`).

        Raises:
            ConstraintViolationError: a new row breaks a rule.
            EvaluationError, StorageError: as the names say. What was written has been deleted.
        """
        new = NewVersionsOfRows(engine, self.plan, self.state.write, source.rows)
        chosen = pa.array(rows.to_array(), pa.int64())
        changes = apply_row_changes(
            engine, self.state, [], inserted=new.inserted(chosen), record_changes=record_changes
        )
        return MergeOutcome(changes=changes)

    def to_bytes(self) -> bytes:
        """For another process.

        Raises:
            SerializationError: it has an expression of a kind of the caller's own.
        """
        return _WIRE.encode(
            _WireWork(plan_to_wire(self.plan), self.state.to_bytes(), self.read.to_bytes())
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> MergeWork:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                plan=plan_from_wire(wire.plan),
                state=RowChangeState.from_bytes(wire.state),
                read=ScanState.from_bytes(wire.read),
            ),
        )


class _Run:
    """Some files of a merge under way."""

    def __init__(self, engine: Engine, work: MergeWork, source: PreparedSource) -> None:
        plan = work.plan
        self._engine = engine
        self._plan = plan
        self._state = work.state
        self._decisions = Decisions(engine, plan, source.matcher, source.rows, work.read)
        self._new = NewVersionsOfRows(engine, plan, work.state.write, source.rows)
        self._current: FileDecisions | None = None
        self._from_source: list[FileDecisions] = []
        self._clauses = (*plan.matched, *plan.not_matched_by_source)
        self._counts = [0] * len(self._clauses)
        self._scan_seconds = 0.0

    def outcome(self, files: Iterable[ScanFile], *, inserting: bool) -> MergeOutcome:
        state = self._state
        # The new versions come from the source alone: the old ones needn't be read.
        blind = (
            state.marks_rows
            and not state.records_changes
            and not state.tracks_rows
            and not self._plan.updates_need_target
        )
        changed = self._changed_files(files, blind=blind)
        first = next(changed, None)
        changes = apply_row_changes(
            self._engine,
            state,
            [] if first is None else itertools.chain([first], changed),
            new_versions=None if blind else self._new_versions,
            updated=self._new.of_source(self._from_source),
            inserted=self._inserted() if inserting else (),
            record_changes=None if first is not None else False,
        )
        changes.scan_seconds = self._scan_seconds
        return MergeOutcome(
            changes=changes,
            matched=bitmap(self._decisions.matched.rows()),
            taken=tuple(self._counts),
        )

    def _changed_files(self, files: Iterable[ScanFile], *, blind: bool) -> Iterator[FileChange]:
        since = time.perf_counter()
        for found in self._decisions.of_files(files):
            self._scan_seconds += time.perf_counter() - since
            yield self._changed_file(found, blind=blind)
            since = time.perf_counter()
        self._scan_seconds += time.perf_counter() - since

    def _changed_file(self, found: FileDecisions, *, blind: bool) -> FileChange:
        for number in range(len(self._counts)):
            self._counts[number] += pc.equal(found.clauses, number).true_count
        numbers = [n for n, c in enumerate(self._clauses) if c.action == "update"]
        updates = pa.array(numbers, pa.int8())
        updated = pc.is_in(found.clauses, value_set=updates)
        now = found.of(updated)
        if blind:
            self._from_source.append(now)
        else:
            self._current = now
        return FileChange(
            file=found.file,
            deleted=bitmap(found.positions.filter(pc.invert(updated))),
            updated=bitmap(now.positions),
            rewrite=not self._state.marks_rows,
        )

    def _new_versions(self, change: FileChange, before: pa.RecordBatch) -> pa.RecordBatch:
        assert self._current is not None  # a file's rows are asked for before the next file
        return self._new.of_file(self._current, before)

    def _inserted(self) -> Iterator[pa.RecordBatch]:
        if self._plan.not_matched:
            yield from self._new.inserted(self._decisions.matched.others())
