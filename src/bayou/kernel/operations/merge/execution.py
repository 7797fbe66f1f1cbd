"""MERGE, in one process: the source in memory, the target file by file."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.kernel.closeable import CloseableIterator
from bayou.kernel.engine import Engine
from bayou.kernel.operations.file_change import FileChange
from bayou.kernel.operations.merge.candidates import may_change, may_match
from bayou.kernel.operations.merge.clauses import ClauseAction, ClauseKind
from bayou.kernel.operations.merge.decisions import Decisions, FileDecisions
from bayou.kernel.operations.merge.matching import Matcher
from bayou.kernel.operations.merge.metrics import MergeMetrics
from bayou.kernel.operations.merge.names import SOURCE
from bayou.kernel.operations.merge.new_versions import NewVersionsOfRows
from bayou.kernel.operations.merge.plan import MergeDefinition, MergePlan
from bayou.kernel.operations.merge.source import MergeSource
from bayou.kernel.operations.row_change_outcome import RowChanges
from bayou.kernel.operations.row_change_state import RowChangeState
from bayou.kernel.operations.row_changes import apply_row_changes
from bayou.kernel.operations.row_operation import commit_row_changes, history_metrics
from bayou.kernel.row_positions import bitmap
from bayou.kernel.scan import ScanBuilder
from bayou.kernel.scan_file import ScanFile
from bayou.kernel.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.table_state import TableState
from bayou.kernel.writes.builder import TransactionBuilder
from bayou.kernel.writes.operation import Operation
from bayou.kernel.writes.transaction import Transaction
from bayou.protocol.column_rules import identity_of
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import StructField, StructType

__all__ = ["merge"]

pc: Any = pyarrow.compute


def merge(
    engine: Engine,
    table: TableState,
    source: MergeSource,
    definition: MergeDefinition,
    *,
    engine_info: str,
    user_metadata: str | None = None,
    started: float | None = None,
) -> MergeMetrics:
    """Merge rows into a table, and commit; nothing is committed where nothing changes.

    Files that the source's keys can't be in are left out by partition values and statistics. Of the
    others those columns are read that the conditions name; then a deletion vector marks the rows
    that change (`delta.enableDeletionVectors`), or the rest is copied to a new file. A merge that
    only inserts adds files and touches none.

    Args:
        table: the version that is read.
        started: `time.perf_counter()` before the source was read, for the metrics.

    Raises:
        MultipleMatchesError: several source rows match one row that a clause may change.
        PredicateError, ArgumentError, SchemaError: the definition can't be understood, or doesn't
            fit the table; a value that can't be computed or doesn't fit its column.
        ConstraintViolationError: a new row breaks a rule, or the table is append-only.
        CommitConflictError: another writer's commit won and doesn't go with this one.
        UnsupportedFeatureError, DataFileError, CommitFailedError: as the names say.
    """
    clock = _Clock(time.perf_counter() if started is None else started)
    plan = MergePlan.build(
        table.path,
        table.schema,
        source.schema,
        definition,
        widens=TYPE_WIDENING.read(table.properties),
    )
    transaction = _transaction(
        table, plan, definition, engine_info=engine_info, user_metadata=user_metadata
    ).build(engine)
    run = _Run(engine, table, plan, transaction, source)
    clock.source_read()
    changed = run.changes()
    counts = {**run.counts(changed), **clock.times(run.scan_seconds)}
    version = _committed(engine, transaction, changed, history_metrics(counts))
    return MergeMetrics(version=version, **counts)


@dataclass(slots=True)
class _Clock:
    started: float
    source_seconds: float = 0.0

    def source_read(self) -> None:
        self.source_seconds = time.perf_counter() - self.started

    def times(self, scan_seconds: float) -> dict[str, int]:
        elapsed = time.perf_counter() - self.started
        return {
            "execution_time_ms": round(elapsed * 1000),
            "materialize_source_time_ms": round(self.source_seconds * 1000),
            "scan_time_ms": round(scan_seconds * 1000),
            "rewrite_time_ms": round((elapsed - self.source_seconds - scan_seconds) * 1000),
        }


class _Run:
    """One merge under way."""

    def __init__(
        self,
        engine: Engine,
        table: TableState,
        plan: MergePlan,
        transaction: Transaction,
        source: MergeSource,
    ) -> None:
        self._engine = engine
        self._table = table
        self._plan = plan
        self._transaction = transaction
        self._state = RowChangeState.of(engine, transaction)
        names = [f"{SOURCE}.{name}" for name in source.rows.schema.names]
        self._source = source.rows.rename_columns(names)
        self._matcher = Matcher(plan.condition, plan.names.schema, self._source)
        self._matching = may_match(plan, self._matcher, table.partition_columns)
        self._decisions = Decisions(engine, plan, self._matcher, self._source, self._read())
        self._new = NewVersionsOfRows(engine, plan, self._state.write, self._source)
        self._current: FileDecisions | None = None
        self._from_source: list[FileDecisions] = []
        self._clauses = (*plan.matched, *plan.not_matched_by_source)
        self._counts = [0] * len(self._clauses)
        self.scan_seconds = 0.0

    def changes(self) -> RowChanges:
        """Write what changes."""
        state = self._state
        # The new versions come from the source alone: the old ones needn't be read.
        blind = (
            state.marks_rows
            and not state.records_changes
            and not state.tracks_rows
            and not self._plan.updates_need_target
        )
        files = self._changed_files(blind=blind)
        first = next(files, None)
        return apply_row_changes(
            self._engine,
            state,
            [] if first is None else itertools.chain([first], files),
            new_versions=None if blind else self._new_versions,
            updated=self._new.of_source(self._from_source),
            inserted=self._inserted(),
            record_changes=None if first is not None else False,
        )

    def counts(self, changes: RowChanges) -> dict[str, int]:
        """Fields of `MergeMetrics` but for times and version."""
        updated = self._counted("update")
        deleted = self._counted("delete")
        vectors = {
            name.replace("num_", "num_target_", 1): count
            for name, count in changes.vector_counts().items()
        }
        return {
            "num_source_rows": self._source.num_rows,
            "num_target_rows_inserted": changes.num_inserted_rows,
            "num_target_rows_updated": sum(updated),
            "num_target_rows_matched_updated": updated[0],
            "num_target_rows_not_matched_by_source_updated": updated[1],
            "num_target_rows_deleted": sum(deleted),
            "num_target_rows_matched_deleted": deleted[0],
            "num_target_rows_not_matched_by_source_deleted": deleted[1],
            "num_target_rows_copied": changes.num_copied_rows,
            "num_output_rows": (changes.num_inserted_rows + sum(updated) + changes.num_copied_rows),
            "num_target_files_added": len(changes.added),
            "num_target_files_removed": changes.num_removed_files,
            "num_target_bytes_added": sum(add.size for add in changes.added),
            "num_target_bytes_removed": changes.num_removed_bytes,
            "num_target_change_files_added": len(changes.change_files),
            **vectors,
        }

    def _counted(self, action: ClauseAction) -> tuple[int, int]:
        """Rows that clauses of an action took: matched, and not matched by the source."""
        taken = [
            count if clause.action == action else 0
            for clause, count in zip(self._clauses, self._counts, strict=True)
        ]
        return sum(taken[: len(self._plan.matched)]), sum(taken[len(self._plan.matched) :])

    def _read(self) -> ScanState:
        """How files are read to find out what changes."""
        columns = self._table.schema.select(list(self._plan.deciding_columns))
        builder = (
            ScanBuilder(self._table)
            .with_read_schema(columns)
            .with_metadata_columns([ROW_INDEX_COLUMN])
        )
        if not self._plan.not_matched_by_source:
            # Row groups without a match don't matter.
            builder = builder.with_filter(self._matching)
        return builder.build().scan_state(self._engine)

    def _files(self) -> CloseableIterator[ScanFile]:
        """Files that may have rows that change; they, and the reason, count at the commit."""
        return self._transaction.read_files(self._engine, may_change(self._plan, self._matching))

    def _changed_files(self, *, blind: bool) -> Iterator[FileChange]:
        since = time.perf_counter()
        with self._files() as files:
            for found in self._decisions.of_files(files):
                self.scan_seconds += time.perf_counter() - since
                yield self._changed_file(found, blind=blind)
                since = time.perf_counter()
        self.scan_seconds += time.perf_counter() - since

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


def _transaction(
    table: TableState,
    plan: MergePlan,
    definition: MergeDefinition,
    *,
    engine_info: str,
    user_metadata: str | None,
) -> TransactionBuilder:
    builder = (
        TransactionBuilder(
            table=table.path,
            read_state=table,
            engine_info=engine_info,
            operation=Operation.MERGE,
        )
        .with_operation_parameters(_parameters(definition))
        .with_user_metadata(user_metadata)
    )
    if plan.explicit_identity:
        builder = builder.with_schema(_without_made_identity(plan))
    elif plan.schema != table.schema:
        builder = builder.with_schema(plan.schema)
    return builder.with_schema_evolution(definition.schema_evolution)


def _without_made_identity(plan: MergePlan) -> StructType:
    """The columns that new rows bring, where they bring identity columns."""
    fields: list[StructField] = []
    for field in plan.schema:
        if identity_of(field) is None:
            fields.append(field)
        elif field.name in plan.explicit_identity:
            fields.append(replace(field, metadata={}))
    return StructType(tuple(fields))


def _parameters(definition: MergeDefinition) -> dict[str, object]:
    """`operationParameters` as delta-spark writes them: texts of JSON."""
    kinds: tuple[tuple[ClauseKind, str], ...] = (
        ("MATCHED", "matchedPredicates"),
        ("NOT MATCHED", "notMatchedPredicates"),
        ("NOT MATCHED BY SOURCE", "notMatchedBySourcePredicates"),
    )
    parameters: dict[str, object] = {"predicate": _json([str(definition.on)])}
    for kind, name in kinds:
        parameters[name] = _json(
            [
                {
                    **({} if c.condition is None else {"predicate": str(c.condition)}),
                    "actionType": c.action,
                }
                for c in definition.clauses
                if c.kind == kind
            ]
        )
    return parameters


def _json(value: Sequence[object]) -> str:
    return msgspec.json.encode(value).decode()


def _committed(
    engine: Engine,
    transaction: Transaction,
    changes: RowChanges,
    metrics: dict[str, object],
) -> int:
    if changes.actions or not transaction.changes_metadata:
        return commit_row_changes(engine, transaction, changes, metrics)
    result = transaction.commit(engine, [], operation_metrics=metrics)
    result.run_post_commit_hooks(engine)
    return result.version
