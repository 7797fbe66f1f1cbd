"""DELETE and UPDATE: `run_delete` and `run_update`.

The kernel changes the rows, in the driver or on executors. If the kernel doesn't support a
condition or value, Spark computes the changed rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.engines import from_description
from bayou.errors import ArgumentError, PredicateError
from bayou.kernel import Engine, Snapshot
from bayou.kernel.commands.row_changes.assignments import assigned_fields
from bayou.kernel.commands.row_changes.delete import DeleteMetrics, begin_delete, commit_delete
from bayou.kernel.commands.row_changes.matched_rows import MatchedRows, MatchedRowsTask
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.update import UpdateMetrics, begin_update, commit_update
from bayou.kernel.operation import Operation
from bayou.spark.commands.merge_bounds import kernel_predicate
from bayou.spark.commands.optimize import runs_in_driver
from bayou.spark.commands.rows_by_spark import (
    ACTION,
    FILE,
    POSITION,
    RowAction,
    apply_rows,
    check_version_read,
    collect_positions,
    located_rows,
    pair_with_files,
    run_at_version_read,
    user_columns,
)
from bayou.spark.executors.executor_tasks import (
    number_of_tasks,
    run_tasks,
    split_by_size,
)
from bayou.spark.expressions.assigned_columns import assigned_columns
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.kernel_eligibility import KernelExpressions, fall_back_to_spark
from bayou.spark.expressions.row_expressions import check_row_expression
from bayou.spark.expressions.store_assignment import check_null_structs
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.types import unused_name
from bayou.spark.write.self_reads import rows_read

ItemT = TypeVar("ItemT")
ItemT_contra = TypeVar("ItemT_contra", contravariant=True)


def run_delete(target: TargetTable, condition: RowExpression | None) -> DeleteMetrics | None:
    """Delete the rows that match a condition, and commit; see `DeltaTable.delete`.

    Returns None without a change if this DELETE is already in the table: the table's log contains
    the session's `txnAppId` with the same or a higher `txnVersion`.
    """
    return target.commit_once(lambda snapshot: _delete(target, snapshot, condition))


def run_update(
    target: TargetTable, condition: RowExpression | None, values: Mapping[str, RowExpression]
) -> UpdateMetrics | None:
    """Update the rows that match a condition, and commit; see `DeltaTable.update`.

    Returns None without a change if this UPDATE is already in the table: the table's log contains
    the session's `txnAppId` with the same or a higher `txnVersion`.
    """
    if not values:
        raise ArgumentError("set: no column is set. Set at least one column.", argument="set")
    return target.commit_once(lambda snapshot: _update(target, snapshot, condition, values))


def _delete(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> DeleteMetrics:
    try:
        predicate = KernelExpressions(target, snapshot.schema).predicate(condition)
    except PredicateError as error:
        return fall_back_to_spark(
            target,
            error,
            lambda: run_at_version_read(
                snapshot, lambda base: _delete_by_spark(target, base, condition)
            ),
        )
    operation = begin_delete(
        target.engine,
        snapshot,
        predicate,
        **_begin_arguments(target, condition),
    )
    return commit_delete(target.engine, operation, _changes(target, operation))


def _update(
    target: TargetTable,
    snapshot: Snapshot,
    condition: RowExpression | None,
    values: Mapping[str, RowExpression],
) -> UpdateMetrics:
    check_null_structs(target.spark, snapshot.schema, operation="merge", table=snapshot.path)
    kernel = KernelExpressions(target, snapshot.schema)
    try:
        predicate = kernel.predicate(condition)
        assigned = {
            kernel.column(name): kernel.value(name, value) for name, value in values.items()
        }
    except PredicateError as error:
        return fall_back_to_spark(
            target,
            error,
            lambda: run_at_version_read(
                snapshot, lambda base: _update_by_spark(target, base, condition, values)
            ),
        )
    operation = begin_update(
        target.engine,
        snapshot,
        assigned,
        predicate,
        **_begin_arguments(target, condition),
    )
    return commit_update(target.engine, operation, _changes(target, operation))


def _begin_arguments(target: TargetTable, condition: RowExpression | None) -> dict[str, Any]:
    """Return the common arguments of `begin_delete` and `begin_update`."""
    return {
        "history_predicate": None if condition is None else condition.display_string,
        "engine_info": SPARK_ENGINE_INFO,
        "user_metadata": target.user_metadata,
        "transaction_id": target.transaction_identifier,
        "time_zone": target.time_zone,
    }


def _changes(target: TargetTable, operation: RowOperation) -> RowChanges:
    with operation.candidates(target.engine) as candidate_files:
        candidates = list(candidate_files)
    task = operation.task
    sizes = [c.file.size for c in candidates if not c.all_rows_match or task.assigned]
    return _run(target, task, candidates, lambda c: c.file.size, sizes)


class _FileTask(Protocol[ItemT_contra]):
    """Interface of the kernel's tasks that change rows in data files, such as `MatchedRowsTask`."""

    def for_writer(self, index: int, count: int) -> Self: ...
    def run(self, engine: Engine, items: Iterable[ItemT_contra], /) -> RowChanges: ...


def _run(
    target: TargetTable,
    task: _FileTask[ItemT],
    items: Sequence[ItemT],
    size: Callable[[ItemT], int],
    sizes_to_read: Iterable[int],
) -> RowChanges:
    """Run a kernel task that changes rows in data files, in the driver or on executors.

    Args:
        items: the input of the task; each item describes one file.
        size: function that returns the size in bytes of an item's file.
        sizes_to_read: sizes of the files that the task reads, in bytes. If their sum is small, the
            task runs in the driver.
    """
    if runs_in_driver(target, sizes_to_read):
        return task.run(target.engine, items)
    chunks = split_by_size(items, size, number_of_tasks(target.spark))
    engine, count = target.engine.description(), len(chunks)

    def run(number: int, pickled: bytes) -> bytes:
        task, chunk = pickle.loads(pickled)  # noqa: S301  # pickled by the driver
        changes = task.for_writer(number, count).run(from_description(engine), chunk)
        return bytes(changes.to_bytes())

    def discard(results: list[bytes]) -> None:
        written = RowChanges.combined(map(RowChanges.from_bytes, results))
        written.discard(target.engine, target.path)

    results = run_tasks(
        target.spark,
        [pickle.dumps((task, chunk)) for chunk in chunks],
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
        **_begin_arguments(target, condition),
    )
    rows = _with_alias(target, located_rows(target, snapshot))
    check_row_expression(
        user_columns(rows),
        condition,
        table=snapshot.path,
        what="condition of the DELETE",
    )
    rows = _matching(target, rows, condition)
    _record_own_reads(target, snapshot, operation, rows)
    with operation.candidates(target.engine) as candidates:
        files = [candidate.file for candidate in candidates]
    matches = [
        MatchedRows(file=file, deleted=positions)
        for file, positions in pair_with_files(files, collect_positions(rows, table=snapshot.path))
    ]
    state = operation.task.state
    if matches and target.view is not None and not state.deletion_vectors:
        target.view.check_written(snapshot)
    task = MatchedRowsTask(
        state=state, record_changes=state.change_data_feed and not state.deletion_vectors
    )
    sizes = [] if state.deletion_vectors else [match.file.size for match in matches]
    changes = _run(target, task, matches, lambda match: match.file.size, sizes)
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
        **_begin_arguments(target, condition),
    )
    rows = located_rows(target, snapshot)
    alias = target.alias or unused_name("target", rows.columns)
    rows = rows.alias(alias)
    schema, kernel = snapshot.schema, KernelExpressions(target, snapshot.schema)
    columns_only = user_columns(rows)
    if condition is not None:
        check_row_expression(
            columns_only,
            condition,
            table=snapshot.path,
            what="condition of the UPDATE",
            random_condition=None,
        )
    for value in values.values():
        if not value.is_default:
            check_row_expression(
                columns_only,
                value,
                table=snapshot.path,
                what="value in the UPDATE",
                random_condition=None,
            )
    paths = assigned_fields(operation.task.state.transaction_state, map(kernel.column, values))
    if target.view is not None:
        target.view.check_assigned(path[0] for path in paths)
        target.view.check_generated(snapshot, "UPDATE")
        target.view.check_written(snapshot)
    columns = assigned_columns(
        schema,
        schema,
        zip(paths, values.values(), strict=True),
        alias,
        table=snapshot.path,
        rows=rows,
        hidden=None if target.view is None else target.view.hidden_columns(schema.names),
    )
    if condition is not None:
        rows = _matching(target, rows, condition)
    assigned = [column.alias(name) for name, column in columns.items()]
    rows = rows.select(FILE, POSITION, F.lit(0).alias(ACTION), *assigned)
    _record_own_reads(target, snapshot, operation, rows)
    with operation.candidates(target.engine) as candidates:
        files = [candidate.file for candidate in candidates]
    task = MatchedRowsTask(state=operation.task.state, assigned=tuple(columns))
    applied = apply_rows(target, rows, files, task, [RowAction(kind="update")])
    return commit_update(target.engine, operation, applied.changes)


def _matching(target: TargetTable, rows: Any, condition: RowExpression) -> Any:
    """Return the rows for which a condition is true."""
    if target.view is None:
        return rows.where(condition.column)
    return target.view.matching(rows, condition.column, target.alias or target.view.name)


def _record_own_reads(
    target: TargetTable, snapshot: Snapshot, operation: RowOperation, rows: Any
) -> None:
    """Record in the transaction which rows of the target table the command's subqueries read.

    If a concurrent commit changes such rows, it conflicts with the command.
    """
    check_version_read(target, snapshot, rows)
    for predicate in rows_read(rows, snapshot):
        operation.transaction.record_rows_read(target.engine, predicate, time_zone=target.time_zone)


def _with_alias(target: TargetTable, rows: Any) -> Any:
    return rows if target.alias is None else rows.alias(target.alias)
