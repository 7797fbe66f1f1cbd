"""Transaction of a merge: records the rows that the merge reads, and commits its changes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Required, TypedDict, Unpack

import msgspec

from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.commands.merge.clauses import ClauseAction, ClauseKind
from bayou.kernel.commands.merge.plan import MergeDefinition, MergePlan, PlannedClause
from bayou.kernel.commands.merge.result import MergeMetrics
from bayou.kernel.commands.row_changes.operation import commit_row_changes, history_metrics
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.schema_evolution import widening_rule
from bayou.protocol.actions import Transaction as TransactionIdentifier
from bayou.protocol.actions import UserMetadata
from bayou.protocol.column_metadata import identity_column
from bayou.protocol.schema import StructField, StructType


def check_merge(table: TableState, source: StructType, definition: MergeDefinition) -> MergePlan:
    """Plan a merge without reading any rows."""
    return MergePlan.build(
        table.path,
        table.schema,
        source,
        definition,
        widening=widening_rule(table.properties, definition.automatic_widening),
    )


class MergeOptions(TypedDict, total=False):
    """Options of the transaction of a merge.

    Attributes:
        started: start time of the merge (`time.perf_counter()`), before the source is read. It is
            used for the metrics only.
        transaction_ids: versions to record as transaction identifiers, by application id
            (PROTOCOL.md, Transaction Identifiers). If there is at least one, the merge commits even
            if no row changes.
        table_properties: table properties that the commit sets.
        counter: application id of a transaction identifier whose version the commit increments.
            Concurrent merges with the same counter conflict.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
            The default is UTC.
    """

    engine_info: Required[str]
    user_metadata: UserMetadata | None
    started: float | None
    transaction_ids: Mapping[str, int] | None
    table_properties: Mapping[str, str] | None
    counter: str | None
    time_zone: str


class MergeTransaction:
    """Transaction of a merge; the object stays in the process that commits.

    The rows are joined by `MergeTask` or by another engine. Another engine passes the row indexes
    and new values of changed rows to `MatchedRowsTask`. In this case, build `plan` from
    `MergeDefinition.without_expressions`.

    Args:
        definition: the definition with all expressions, for the operation parameters in the
            history.
        options: the fields of `MergeOptions`, such as `transaction_ids`, as keyword arguments.

    Attributes:
        started: start time of the merge, by `time.perf_counter()`.
        time_zone: see `MergeOptions`.
    """

    def __init__(
        self,
        engine: Engine,
        table: TableState,
        plan: MergePlan,
        definition: MergeDefinition,
        **options: Unpack[MergeOptions],
    ) -> None:
        self.plan = plan
        self.started = options.get("started") or time.perf_counter()
        transaction_ids = options.get("transaction_ids") or {}
        self.time_zone = options.get("time_zone", "UTC")
        self._table = table
        self._commits_without_changes = bool(transaction_ids)
        self._is_write = definition.write_parameters is not None
        builder = (
            TransactionBuilder(
                table=table.path,
                read_state=table,
                engine_info=options["engine_info"],
                operation=Operation.WRITE if self._is_write else Operation.MERGE,
            )
            .with_operation_parameters(definition.write_parameters or _parameters(definition))
            .with_user_metadata(options.get("user_metadata"))
            .with_table_properties(options.get("table_properties") or {})
            .with_schema_evolution(
                definition.schema_evolution, automatic_widening=definition.automatic_widening
            )
        )
        if plan.explicit_identity:
            builder = builder.with_schema(_without_generated_identity(plan))
        elif plan.schema != table.schema:
            builder = builder.with_schema(plan.schema)
        for name, version in transaction_ids.items():
            builder = builder.with_transaction_id(name, version)
        counter = options.get("counter")
        if counter is not None:
            count = table.transactions.get(counter, -1) + 1
            identifier = TransactionIdentifier(app_id=counter, version=count)
            builder = builder.with_copied_transaction_ids([identifier])
        self._transaction = builder.build(engine)
        self.state = RowChangeState.of(engine, self._transaction, time_zone=self.time_zone)

    def files(
        self, engine: Engine, predicate: Predicate | None = None
    ) -> CloseableIterator[ScanFile]:
        """Return the files with rows that the merge may need, and record these files as read.

        The conflict checker compares the recorded files with the files of concurrent commits.

        Args:
            predicate: true for each target row that may match or change; see
                `TargetRows.predicate`. If None, every row may match or change, and every concurrent
                change is a conflict.
        """
        return self._transaction.read_files(engine, predicate, time_zone=self.time_zone)

    @closeable
    def unrecorded_files(
        self, engine: Engine, predicate: Predicate | None = None
    ) -> Iterator[ScanFile]:
        """Yield the same files as `files`, but don't record them as read.

        The caller must call `record_read` before `commit`.
        """
        builder = ScanBuilder(self._table).with_filter(predicate).with_time_zone(self.time_zone)
        scan = builder.with_whole_adds().build()
        with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
            yield from files

    def record_read(self, engine: Engine, predicate: Predicate | None) -> None:
        """Record which rows of the table the merge has read, for conflict detection.

        Call this method before `commit` if rows were read in another way than by `files`, for
        example by `unrecorded_files`.

        Args:
            predicate: true for each row that the merge has read; None for all rows.
        """
        self._transaction.record_rows_read(engine, predicate, time_zone=self.time_zone)

    def commit(
        self,
        engine: Engine,
        changes: RowChanges,
        clause_counts: Sequence[tuple[PlannedClause, int]],
        *,
        source_rows: int | None = None,
        source_seconds: float = 0.0,
    ) -> MergeMetrics:
        """Commit the merge if it changes anything.

        Args:
            changes: combined changes of all workers.
            clause_counts: pairs of a clause and the number of rows that it updates or deletes.
            source_rows: number of source rows, for the metrics; None if unknown.
            source_seconds: time for reading the source into memory, for the metrics.
        """
        elapsed = time.perf_counter() - self.started
        rest = max(0.0, elapsed - source_seconds - changes.scan_seconds)
        counts = {
            **_counts(changes, clause_counts, source_rows),
            "execution_time_ms": round(elapsed * 1000),
            "materialize_source_time_ms": round(source_seconds * 1000),
            "scan_time_ms": round(changes.scan_seconds * 1000),
            "rewrite_time_ms": round(rest * 1000),
        }
        version = commit_row_changes(
            engine,
            self._transaction,
            changes,
            _write_metrics(counts, changes) if self._is_write else history_metrics(counts),
            commits_without_changes=self._commits_without_changes
            or self._transaction.changes_metadata,
        )
        return MergeMetrics(version=version, **counts)


def _counts(
    changes: RowChanges, clause_counts: Sequence[tuple[PlannedClause, int]], source_rows: int | None
) -> dict[str, Any]:
    """Return the fields of `MergeMetrics` except for times and version."""

    def rows(action: ClauseAction, kind: ClauseKind) -> int:
        return sum(n for c, n in clause_counts if (c.action, c.kind) == (action, kind))

    kinds: tuple[ClauseKind, ...] = ("MATCHED", "NOT MATCHED BY SOURCE")
    updated = [rows("update", kind) for kind in kinds]
    deleted = [rows("delete", kind) for kind in kinds]
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


def _write_metrics(counts: Mapping[str, Any], changes: RowChanges) -> dict[str, object]:
    """Return the metrics of a WRITE that replaces rows, under delta-spark's names."""
    return {
        "numFiles": len(changes.added) + len(changes.with_deletion_vectors),
        "numOutputRows": counts["num_target_rows_inserted"] + counts["num_target_rows_copied"],
        "numOutputBytes": counts["num_target_bytes_added"],
        "numAddedChangeFiles": counts["num_target_change_files_added"],
        "numRemovedFiles": counts["num_target_files_removed"],
        "numRemovedBytes": counts["num_target_bytes_removed"],
        "numDeletedRows": counts["num_target_rows_deleted"],
        "numCopiedRows": counts["num_target_rows_copied"],
    }


def _without_generated_identity(plan: MergePlan) -> StructType:
    """Return the columns of new rows; an identity column is omitted if the merge doesn't set it."""
    fields: list[StructField] = []
    for field in plan.schema:
        if identity_column(field) is None:
            fields.append(field)
        elif field.name in plan.explicit_identity:
            fields.append(replace(field, metadata={}))
    return StructType(tuple(fields))


def _parameters(definition: MergeDefinition) -> dict[str, object]:
    """Return the `operationParameters` in delta-spark's form, with JSON text for lists."""
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
