"""DELETE and UPDATE of `DeltaTable`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.engines import from_description
from bayou.errors import ArgumentError, PredicateError
from bayou.kernel import Snapshot
from bayou.kernel.commands.row_changes.delete import DeleteMetrics, begin_delete, commit_delete
from bayou.kernel.commands.row_changes.matched_rows import FoundRows, FoundRowsWork, check_assigned
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_search import Candidate
from bayou.kernel.commands.row_changes.task import RowWork
from bayou.kernel.commands.row_changes.update import UpdateMetrics, begin_update, commit_update
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan_file import ScanFile
from bayou.spark.commands.merge_bounds import known_part
from bayou.spark.commands.optimize import stays_local
from bayou.spark.commands.rows_by_spark import (
    ACTION,
    FILE,
    POSITION,
    RowAction,
    apply_rows,
    by_file,
    found_positions,
    located_rows,
)
from bayou.spark.executors.executor_tasks import (
    number_of_tasks,
    run_shares,
    shares_by_size,
)
from bayou.spark.expressions.assigned_columns import assigned_columns
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.kernel_eligibility import Understood, by_spark
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable

__all__ = ["run_delete", "run_update"]


def run_delete(target: TargetTable, condition: RowExpression | None) -> DeleteMetrics | None:
    """Delete the rows for which a condition is true, and commit; see `DeltaTable.delete`.

    Returns:
        None where the session's application has done it before.
    """
    snapshot = target.snapshot()
    if target.has_recorded(snapshot, target.application):
        target.forget_transaction_version()
        return None
    metrics = _deleted(target, snapshot, condition)
    target.forget_transaction_version()
    return metrics


def run_update(
    target: TargetTable, condition: RowExpression | None, values: Mapping[str, RowExpression]
) -> UpdateMetrics | None:
    """Give rows new values, and commit; see `DeltaTable.update`.

    Returns:
        None where the session's application has done it before.
    """
    if not values:
        raise ArgumentError("An update sets at least one column.", argument="set")
    snapshot = target.snapshot()
    if target.has_recorded(snapshot, target.application):
        target.forget_transaction_version()
        return None
    metrics = _updated(target, snapshot, condition, values)
    target.forget_transaction_version()
    return metrics


def _deleted(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> DeleteMetrics:
    shown = None if condition is None else condition.shown
    try:
        predicate = Understood(target, snapshot.schema).predicate(condition)
    except PredicateError as error:
        return by_spark(target, error, lambda: _delete_by_spark(target, snapshot, condition))
    operation = begin_delete(
        target.engine,
        snapshot,
        predicate,
        shown=shown,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        application=target.application,
    )
    return commit_delete(target.engine, operation, _changes(target, operation))


def _updated(
    target: TargetTable,
    snapshot: Snapshot,
    condition: RowExpression | None,
    values: Mapping[str, RowExpression],
) -> UpdateMetrics:
    understood = Understood(target, snapshot.schema)
    try:
        predicate = understood.predicate(condition)
        assigned = {
            understood.column(name): understood.value(name, value) for name, value in values.items()
        }
    except PredicateError as error:
        return by_spark(
            target, error, lambda: _update_by_spark(target, snapshot, condition, values)
        )
    operation = begin_update(
        target.engine,
        snapshot,
        assigned,
        predicate,
        shown=None if condition is None else condition.shown,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        application=target.application,
    )
    return commit_update(target.engine, operation, _changes(target, operation))


def _changes(target: TargetTable, operation: RowOperation) -> RowChanges:
    """Find the rows and write what changes them, here or on executors."""
    with operation.candidates(target.engine) as found:
        candidates = list(found)
    work = operation.work
    if stays_local(target, (c.file.size for c in candidates if not c.certain or work.assigned)):
        return work.run(target.engine, candidates)
    shares = shares_by_size(candidates, lambda c: c.file.size, number_of_tasks(target.spark))
    sent, engine, count = work.to_bytes(), target.engine.description(), len(shares)

    def run(number: int, share: list[bytes]) -> bytes:
        mine = RowWork.from_bytes(sent)
        mine = replace(mine, state=mine.state.for_writer(number, count))
        files = [Candidate.from_bytes(data) for data in share]
        return mine.run(from_description(engine), files).to_bytes()

    return _run(target, [[c.to_bytes() for c in share] for share in shares], run)


def _run(target: TargetTable, shares: Sequence[Any], run: Any) -> RowChanges:
    def discard(outcomes: list[bytes]) -> None:
        written = RowChanges.combined(map(RowChanges.from_bytes, outcomes))
        written.discard(target.engine, target.path)

    outcomes = run_shares(
        target.spark,
        shares,
        run,
        table=target.path,
        description=f"Change rows of {target.path}",
        discard=discard,
    )
    return RowChanges.combined(map(RowChanges.from_bytes, outcomes))


def _delete_by_spark(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> DeleteMetrics:
    assert condition is not None  # the kernel understands that there is none
    operation = begin_delete(
        target.engine,
        snapshot,
        known_part(target, snapshot, condition),
        shown=condition.shown,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        application=target.application,
    )
    rows = _named(target, located_rows(target, snapshot)).where(condition.column)
    with operation.candidates(target.engine) as candidates:
        files = [candidate.file for candidate in candidates]
    found = by_file(files, found_positions(rows))
    work = FoundRowsWork(state=operation.work.state)
    recorded = work.state.records_changes and not work.state.marks_rows
    reads = recorded or not work.state.marks_rows
    if stays_local(target, (file.size for file, _ in found if reads)):
        changes = work.run(
            target.engine,
            [FoundRows(file=file, deleted=rows) for file, rows in found],
            record_changes=recorded,
        )
    else:
        shares = shares_by_size(found, lambda f: f[0].size, number_of_tasks(target.spark))
        sent, engine, count = work.to_bytes(), target.engine.description(), len(shares)

        def run(number: int, share: list[tuple[bytes, bytes]]) -> bytes:
            mine = FoundRowsWork.from_bytes(sent).for_writer(number, count)
            given = [_found_rows(*item) for item in share]
            written = mine.run(from_description(engine), given, record_changes=recorded)
            return written.to_bytes()

        encoded = [[(f.to_bytes(), rows.serialize()) for f, rows in share] for share in shares]
        changes = _run(target, encoded, run)
    return commit_delete(target.engine, operation, changes)


def _update_by_spark(
    target: TargetTable,
    snapshot: Snapshot,
    condition: RowExpression | None,
    values: Mapping[str, RowExpression],
) -> UpdateMetrics:
    operation = RowOperation.begin(
        target.engine,
        snapshot,
        Operation.UPDATE,
        known_part(target, snapshot, condition),
        without_condition=[],
        shown=None if condition is None else condition.shown,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        application=target.application,
    )
    alias = target.alias or "target"
    rows = located_rows(target, snapshot).alias(alias)
    schema = snapshot.schema
    columns = assigned_columns(schema, schema, values, alias, table=snapshot.path, rows=rows)
    check_assigned(operation.work.state.write, columns)
    if condition is not None:
        rows = rows.where(condition.column)
    names = tuple(field.name for field in snapshot.schema if field.name in columns)
    rows = rows.select(
        FILE, POSITION, F.lit(0).alias(ACTION), *(columns[name].alias(name) for name in names)
    )
    with operation.candidates(target.engine) as candidates:
        files = [candidate.file for candidate in candidates]
    work = FoundRowsWork(state=operation.work.state, assigned=names)
    applied = apply_rows(target, rows, files, work, [RowAction(kind="update")])
    return commit_update(target.engine, operation, applied.changes)


def _named(target: TargetTable, rows: Any) -> Any:
    return rows if target.alias is None else rows.alias(target.alias)


def _found_rows(file: bytes, rows: bytes) -> FoundRows:
    """Rows of a file to be deleted, as they travel."""
    return FoundRows(file=ScanFile.from_bytes(file), deleted=BitMap64.deserialize(rows))
