"""Planning and commit of a MERGE whose work runs in this process or in others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from pyroaring import BitMap64

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.commands.merge.clauses import ClauseAction, ClauseKind, MergeClause
from bayou.kernel.commands.merge.plan import MergeDefinition, MergePlan
from bayou.kernel.commands.merge.result import MergeMetrics, MergeResult
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.commands.merge.target_rows import may_change, may_match
from bayou.kernel.commands.merge.task import MergeTask
from bayou.kernel.commands.row_changes.operation import commit_row_changes, history_metrics
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.transaction import Transaction
from bayou.protocol.column_rules import identity_column
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import StructField, StructType

__all__ = [
    "MergeOperation",
    "check_merge",
    "commit_merge",
    "merge",
    "merge_counts",
    "merge_parameters",
]


def merge(
    engine: Engine,
    table: TableState,
    source: MergeSource,
    definition: MergeDefinition,
    *,
    engine_info: str,
    user_metadata: str | None = None,
    started: float | None = None,
    transaction_ids: Mapping[str, int] | None = None,
    table_properties: Mapping[str, str] | None = None,
) -> MergeMetrics:
    """Merge rows into a table and commit; if nothing changes, nothing is committed.

    Files that can't match the source's keys are skipped by partition values and statistics. Of
    other files only the columns of the conditions are read. Then a deletion vector marks the
    changed rows (`delta.enableDeletionVectors`), or the other rows are copied to a new file. A
    merge with only insert clauses only adds files.

    Args:
        table: the version that is read.
        started: `time.perf_counter()` before the source was read, for the metrics.
        transaction_ids: version by application id (PROTOCOL.md, Transaction Identifiers); if set,
            the merge commits even if no row changes.
        table_properties: table properties that the commit sets.

    Raises:
        MultipleMatchesError: several source rows match one row that a clause may change.
        PredicateError, ArgumentError, SchemaError: the definition is invalid or doesn't fit the
            table, or a value can't be computed or doesn't fit its column.
        ConstraintViolationError: a row violates a constraint, or the table is append-only.
        CommitConflictError: another writer's commit conflicts with this one.
        UnsupportedFeatureError: this version of the package can't write the table.
        DataFileError, CommitFailedError: a file can't be read, or the commit failed.
    """
    operation = MergeOperation(
        engine,
        table,
        source,
        definition,
        engine_info=engine_info,
        user_metadata=user_metadata,
        started=started,
        transaction_ids=transaction_ids,
        table_properties=table_properties,
    )
    with operation.files(engine) as files:
        result = operation.work.run(engine, operation.source, files, inserting=True)
    return operation.commit(engine, result)


class MergeOperation:
    """A started merge, in the process that commits.

    Any number of workers run `work` on parts of `files` (`MergeTask.run`), and
    `MergeResult.combined` combines their results. Then this process or the workers insert the
    unmatched source rows (`unmatched`, `MergeTask.insert`), and `commit` commits everything.

    Args:
        started: `time.perf_counter()` before the source was read, for the metrics.
        application: transaction identifier that the commit records, even if nothing changes.
        transaction_ids, table_properties: see `merge`.

    Raises:
        PredicateError, ArgumentError, SchemaError, ConstraintViolationError,
        UnsupportedFeatureError: see `merge`.

    Attributes:
        work: the task to run on the files.
        source: the source with hashed keys.
    """

    def __init__(
        self,
        engine: Engine,
        table: TableState,
        source: MergeSource,
        definition: MergeDefinition,
        *,
        engine_info: str,
        user_metadata: str | None = None,
        started: float | None = None,
        application: tuple[str, int] | None = None,
        transaction_ids: Mapping[str, int] | None = None,
        table_properties: Mapping[str, str] | None = None,
    ) -> None:
        self._started = time.perf_counter() if started is None else started
        self._plan = check_merge(table, source.schema, definition)
        self._target_clauses = [
            clause for kind in _TARGET_KINDS for clause in definition.clauses if clause.kind == kind
        ]
        progress = list((transaction_ids or {}).items())
        progress += [] if application is None else [application]
        self._commits_progress = bool(progress)
        transaction = _transaction(
            table, self._plan, definition, engine_info=engine_info, user_metadata=user_metadata
        ).with_table_properties(table_properties or {})
        for name, version in progress:
            transaction = transaction.with_transaction_id(name, version)
        self._transaction = transaction.build(engine)
        builder = (
            ScanBuilder(table)
            .with_read_schema(table.schema.select(list(self._plan.deciding_columns)))
            .with_metadata_columns([ROW_INDEX_COLUMN])
        )
        work = MergeTask(
            plan=self._plan,
            state=RowChangeState.of(engine, self._transaction),
            scan_state=builder.build().scan_state(engine),
        )
        self.source = work.prepare(source)
        self._matching = may_match(
            self._plan.condition, self.source.matcher, table.partition_columns
        )
        if not self._plan.not_matched_by_source:
            # Row groups without a match can be skipped.
            builder = builder.with_filter(self._matching)
            work = replace(work, scan_state=builder.build().scan_state(engine))
        self.work = work
        self._source_seconds = time.perf_counter() - self._started

    def files(self, engine: Engine) -> CloseableIterator[ScanFile]:
        """Return the files that may have changed rows, and record them for conflict detection."""
        return self._transaction.read_files(engine, may_change(self._plan, self._matching))

    def unmatched(self, result: MergeResult) -> BitMap64:
        """Return the source rows that match no target row, if a clause inserts them.

        Args:
            result: combined result of all files.
        """
        if not self._plan.not_matched:
            return BitMap64()
        return BitMap64(range(self.source.rows.num_rows)) - result.matched

    def records_changes(self, result: MergeResult) -> bool:
        """Whether inserted rows are also written to change data files.

        Args:
            result: combined result of all files.
        """
        return self.work.state.change_data_feed and bool(result.changes.removed)

    def commit(self, engine: Engine, result: MergeResult) -> MergeMetrics:
        """Commit the merge, unless nothing changes.

        Args:
            result: combined result of all files and inserts.

        Raises:
            CommitConflictError: another writer's commit conflicts; the written files were deleted.
            CommitFailedError: the commit failed.
        """
        counts = {**self._counts(result), **self._times(result.changes.scan_seconds)}
        version = commit_merge(
            engine,
            self._transaction,
            result.changes,
            counts,
            commits_progress=self._commits_progress,
        )
        return MergeMetrics(version=version, **counts)

    def _counts(self, result: MergeResult) -> dict[str, Any]:
        """Return the fields of `MergeMetrics` except for times and version."""
        return merge_counts(
            result.changes,
            list(zip(self._target_clauses, result.taken, strict=False)),
            self.source.rows.num_rows,
        )

    def _times(self, scan_seconds: float) -> dict[str, int]:
        elapsed = time.perf_counter() - self._started
        rest = max(0.0, elapsed - self._source_seconds - scan_seconds)
        return {
            "execution_time_ms": round(elapsed * 1000),
            "materialize_source_time_ms": round(self._source_seconds * 1000),
            "scan_time_ms": round(scan_seconds * 1000),
            "rewrite_time_ms": round(rest * 1000),
        }


def check_merge(table: TableState, source: StructType, definition: MergeDefinition) -> MergePlan:
    """Plan a merge without reading any rows.

    Raises:
        PredicateError, ArgumentError, SchemaError: see `merge`.
    """
    return MergePlan.build(
        table.path,
        table.schema,
        source,
        definition,
        widens=TYPE_WIDENING.read(table.properties),
    )


_TARGET_KINDS: tuple[ClauseKind, ...] = ("MATCHED", "NOT MATCHED BY SOURCE")
"""Kinds of clauses that change target rows, in the order of `MergeResult.taken`."""


def merge_counts(
    changes: RowChanges, taken: Sequence[tuple[MergeClause, int]], source_rows: int | None
) -> dict[str, Any]:
    """Return the fields of `MergeMetrics` except for times and version.

    Args:
        taken: clauses that change target rows, with their numbers of changed rows.
        source_rows: number of source rows; None if unknown.
    """

    def rows(action: ClauseAction, kind: ClauseKind) -> int:
        return sum(n for c, n in taken if (c.action, c.kind) == (action, kind))

    updated = [rows("update", kind) for kind in _TARGET_KINDS]
    deleted = [rows("delete", kind) for kind in _TARGET_KINDS]
    vectors = {
        name.replace("num_", "num_target_", 1): count
        for name, count in changes.vector_counts().items()
    }
    return {
        "num_source_rows": source_rows,
        "num_target_rows_inserted": changes.num_inserted_rows,
        "num_target_rows_updated": sum(updated),
        "num_target_rows_matched_updated": updated[0],
        "num_target_rows_not_matched_by_source_updated": updated[1],
        "num_target_rows_deleted": sum(deleted),
        "num_target_rows_matched_deleted": deleted[0],
        "num_target_rows_not_matched_by_source_deleted": deleted[1],
        "num_target_rows_copied": changes.num_copied_rows,
        "num_output_rows": changes.num_inserted_rows + sum(updated) + changes.num_copied_rows,
        "num_target_files_added": len(changes.added),
        "num_target_files_removed": changes.num_removed_files,
        "num_target_bytes_added": sum(add.size for add in changes.added),
        "num_target_bytes_removed": changes.num_removed_bytes,
        "num_target_change_files_added": len(changes.change_files),
        **vectors,
    }


def commit_merge(
    engine: Engine,
    transaction: Transaction,
    changes: RowChanges,
    counts: dict[str, Any],
    *,
    commits_progress: bool = False,
) -> int:
    """Commit the changes of a merge, unless nothing changes.

    Args:
        counts: metrics for the history.
        commits_progress: see `commit_row_changes`.

    Returns:
        The table's version after the commit.

    Raises:
        CommitConflictError, CommitFailedError: see `commit_row_changes`.
    """
    metrics = history_metrics(counts)
    return commit_row_changes(
        engine,
        transaction,
        changes,
        metrics,
        commits_progress=commits_progress or transaction.changes_metadata,
    )


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
        .with_operation_parameters(merge_parameters(definition))
        .with_user_metadata(user_metadata)
    )
    if plan.explicit_identity:
        builder = builder.with_schema(_without_generated_identity(plan))
    elif plan.schema != table.schema:
        builder = builder.with_schema(plan.schema)
    return builder.with_schema_evolution(definition.schema_evolution)


def _without_generated_identity(plan: MergePlan) -> StructType:
    """Return the columns of new rows, without identity columns that the table generates."""
    fields: list[StructField] = []
    for field in plan.schema:
        if identity_column(field) is None:
            fields.append(field)
        elif field.name in plan.explicit_identity:
            fields.append(replace(field, metadata={}))
    return StructType(tuple(fields))


def merge_parameters(definition: MergeDefinition) -> dict[str, object]:
    """Return the `operationParameters` as delta-spark writes them: JSON strings."""
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
