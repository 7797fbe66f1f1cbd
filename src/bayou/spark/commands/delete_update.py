"""DELETE and UPDATE: `run_delete` and `run_update`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.engines import from_description
from bayou.errors import ArgumentError, PredicateError
from bayou.kernel import Snapshot
from bayou.kernel.commands.row_changes.delete import DeleteMetrics, begin_delete, commit_delete
from bayou.kernel.commands.row_changes.matched_rows import (
    MatchedRows,
    MatchedRowsTask,
    check_assigned,
)
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_search import Candidate
from bayou.kernel.commands.row_changes.task import RowChangeTask
from bayou.kernel.commands.row_changes.update import UpdateMetrics, begin_update, commit_update
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan_file import ScanFile
from bayou.spark.commands.merge_bounds import kernel_predicate
from bayou.spark.commands.optimize import runs_in_driver
from bayou.spark.commands.rows_by_spark import (
    ACTION,
    FILE,
    POSITION,
    RowAction,
    apply_rows,
    collect_positions,
    located_rows,
    pair_with_files,
)
from bayou.spark.executors.executor_tasks import (
    number_of_tasks,
    run_tasks,
    split_by_size,
)
from bayou.spark.expressions.assigned_columns import assigned_columns
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.kernel_eligibility import KernelExpressions, fall_back_to_spark
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable

__all__ = ["run_delete", "run_update"]


def run_delete(target: TargetTable, condition: RowExpression | None) -> DeleteMetrics | None:
    """Delete the rows that match a condition, and commit; see `DeltaTable.delete`.

    Returns:
        None if the table already has the session's transaction identifier.
    """
    snapshot = target.snapshot()
    if target.is_committed(snapshot, target.transaction_identifier):
        target.reset_transaction_version()
        return None
    metrics = _delete(target, snapshot, condition)
    target.reset_transaction_version()
    return metrics


def run_update(
    target: TargetTable, condition: RowExpression | None, values: Mapping[str, RowExpression]
) -> UpdateMetrics | None:
    """Update the rows that match a condition, and commit; see `DeltaTable.update`.

    Returns:
        None if the table already has the session's transaction identifier.
    """
    if not values:
        raise ArgumentError("set: it is empty. Set at least one column.", argument="set")
    snapshot = target.snapshot()
    if target.is_committed(snapshot, target.transaction_identifier):
        target.reset_transaction_version()
        return None
    metrics = _update(target, snapshot, condition, values)
    target.reset_transaction_version()
    return metrics


def _delete(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> DeleteMetrics:
    shown = None if condition is None else condition.display_string
    try:
        predicate = KernelExpressions(target, snapshot.schema).predicate(condition)
    except PredicateError as error:
        return fall_back_to_spark(
            target, error, lambda: _delete_by_spark(target, snapshot, condition)
        )
    operation = begin_delete(
        target.engine,
        snapshot,
        predicate,
        history_predicate=shown,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        transaction_id=target.transaction_identifier,
    )
    return commit_delete(target.engine, operation, _changes(target, operation))


def _update(
    target: TargetTable,
    snapshot: Snapshot,
    condition: RowExpression | None,
    values: Mapping[str, RowExpression],
) -> UpdateMetrics:
    kernel = KernelExpressions(target, snapshot.schema)
    try:
        predicate = kernel.predicate(condition)
        assigned = {
            kernel.column(name): kernel.value(name, value) for name, value in values.items()
        }
    except PredicateError as error:
        return fall_back_to_spark(
            target, error, lambda: _update_by_spark(target, snapshot, condition, values)
        )
    operation = begin_update(
        target.engine,
        snapshot,
        assigned,
        predicate,
        history_predicate=None if condition is None else condition.display_string,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        transaction_id=target.transaction_identifier,
    )
    return commit_update(target.engine, operation, _changes(target, operation))


def _changes(target: TargetTable, operation: RowOperation) -> RowChanges:
    """Find the rows and write the changed files, in the driver or on executors."""
    with operation.candidates(target.engine) as candidate_files:
        candidates = list(candidate_files)
    work = operation.task
    if runs_in_driver(
        target, (c.file.size for c in candidates if not c.all_rows_match or work.assigned)
    ):
        return work.run(target.engine, candidates)
    chunks = split_by_size(candidates, lambda c: c.file.size, number_of_tasks(target.spark))
    work_bytes, engine, count = work.to_bytes(), target.engine.description(), len(chunks)

    def run(number: int, chunk: list[bytes]) -> bytes:
        task_work = RowChangeTask.from_bytes(work_bytes)
        task_work = replace(task_work, state=task_work.state.for_writer(number, count))
        files = [Candidate.from_bytes(data) for data in chunk]
        return task_work.run(from_description(engine), files).to_bytes()

    return _run_on_executors(target, [[c.to_bytes() for c in chunk] for chunk in chunks], run)


def _run_on_executors(target: TargetTable, chunks: Sequence[Any], run: Any) -> RowChanges:
    def discard(results: list[bytes]) -> None:
        written = RowChanges.combined(map(RowChanges.from_bytes, results))
        written.discard(target.engine, target.path)

    results = run_tasks(
        target.spark,
        chunks,
        run,
        table=target.path,
        description=f"Change rows of {target.path}",
        discard=discard,
    )
    return RowChanges.combined(map(RowChanges.from_bytes, results))


def _delete_by_spark(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> DeleteMetrics:
    assert condition is not None  # the kernel handles a missing condition
    operation = begin_delete(
        target.engine,
        snapshot,
        kernel_predicate(target, snapshot, condition),
        history_predicate=condition.display_string,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        transaction_id=target.transaction_identifier,
    )
    rows = _with_alias(target, located_rows(target, snapshot)).where(condition.column)
    with operation.candidates(target.engine) as candidates:
        files = [candidate.file for candidate in candidates]
    matches = pair_with_files(files, collect_positions(rows))
    work = MatchedRowsTask(state=operation.task.state)
    recorded = work.state.change_data_feed and not work.state.deletion_vectors
    reads = recorded or not work.state.deletion_vectors
    if runs_in_driver(target, (file.size for file, _ in matches if reads)):
        changes = work.run(
            target.engine,
            [MatchedRows(file=file, deleted=rows) for file, rows in matches],
            record_changes=recorded,
        )
    else:
        chunks = split_by_size(matches, lambda f: f[0].size, number_of_tasks(target.spark))
        work_bytes, engine, count = work.to_bytes(), target.engine.description(), len(chunks)

        def run(number: int, chunk: list[tuple[bytes, bytes]]) -> bytes:
            task_work = MatchedRowsTask.from_bytes(work_bytes).for_writer(number, count)
            rows_of_files = [_decode_rows(*item) for item in chunk]
            changes = task_work.run(
                from_description(engine), rows_of_files, record_changes=recorded
            )
            return changes.to_bytes()

        encoded = [[(f.to_bytes(), rows.serialize()) for f, rows in chunk] for chunk in chunks]
        changes = _run_on_executors(target, encoded, run)
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
        kernel_predicate(target, snapshot, condition),
        default_predicate=[],
        history_predicate=None if condition is None else condition.display_string,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        transaction_id=target.transaction_identifier,
    )
    alias = target.alias or "target"
    rows = located_rows(target, snapshot).alias(alias)
    schema = snapshot.schema
    columns = assigned_columns(schema, schema, values, alias, table=snapshot.path, rows=rows)
    check_assigned(operation.task.state.transaction_state, columns)
    if condition is not None:
        rows = rows.where(condition.column)
    names = tuple(field.name for field in snapshot.schema if field.name in columns)
    rows = rows.select(
        FILE, POSITION, F.lit(0).alias(ACTION), *(columns[name].alias(name) for name in names)
    )
    with operation.candidates(target.engine) as candidates:
        files = [candidate.file for candidate in candidates]
    work = MatchedRowsTask(state=operation.task.state, assigned=names)
    applied = apply_rows(target, rows, files, work, [RowAction(kind="update")])
    return commit_update(target.engine, operation, applied.changes)


def _with_alias(target: TargetTable, rows: Any) -> Any:
    return rows if target.alias is None else rows.alias(target.alias)


def _decode_rows(file: bytes, rows: bytes) -> MatchedRows:
    """Deserialize a file and the positions of its rows to delete."""
    return MatchedRows(file=ScanFile.from_bytes(file), deleted=BitMap64.deserialize(rows))
