"""UPDATE: assign new values to the rows for which a condition is true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayou.errors import ArgumentError
from bayou.kernel.commands.metrics_by_name import MetricsByName
from bayou.kernel.commands.row_changes.assignments import Assignments
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.protocol.actions import UserMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetrics(MetricsByName):
    """Metrics of an UPDATE; times are in milliseconds.

    In the history, the metrics have names in camel case, for example `numUpdatedRows`.

    Attributes:
        version: the table's version after the UPDATE; unchanged if no row matched.
        num_copied_rows: number of unchanged rows that were copied from rewritten files to new
            files.
        num_deletion_vectors_added: number of new deletion vectors, including replacements.
        num_deletion_vectors_removed: number of removed deletion vectors, including replaced ones.
        num_deletion_vectors_updated: number of replaced deletion vectors.
    """

    version: int
    num_removed_files: int = 0
    num_added_files: int = 0
    num_updated_rows: int = 0
    num_copied_rows: int = 0
    num_deletion_vectors_added: int = 0
    num_deletion_vectors_removed: int = 0
    num_deletion_vectors_updated: int = 0
    num_added_change_files: int = 0
    num_removed_bytes: int = 0
    num_added_bytes: int = 0
    execution_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0


def update(
    engine: Engine,
    table: TableState,
    values: Mapping[str, Expression | str],
    where: Predicate | str | None = None,
    *,
    engine_info: str,
    user_metadata: UserMetadata | None = None,
) -> UpdateMetrics:
    """Update rows and commit; if no row matches, nothing is committed.

    Partition values and statistics exclude files without matching rows. In the other files, only
    the columns of the condition are read to find the matching rows. If
    `delta.enableDeletionVectors` is set, deletion vectors mark the old rows, and only updated rows
    are written. If it isn't set, the files with matching rows are rewritten.

    Args:
        values: new values by column name, or by dotted path of a nested field. A value is an SQL
            string or an `Expression` over the table's columns.
    """
    operation = begin_update(
        engine, table, values, where, engine_info=engine_info, user_metadata=user_metadata
    )
    return commit_update(engine, operation, operation.run(engine))


def begin_update(
    engine: Engine,
    table: TableState,
    values: Mapping[str, Expression | str],
    where: Predicate | str | None = None,
    *,
    history_predicate: str | None = None,
    engine_info: str,
    user_metadata: UserMetadata | None = None,
    transaction_id: tuple[str, int] | None = None,
    time_zone: str = "UTC",
) -> RowOperation:
    """Start an UPDATE whose tasks run in other processes.

    The processes run `task` of the returned operation on its `candidates`. `commit_update` then
    commits the combined results. As in delta-spark, `transaction_id` is committed even if no row
    matches.

    Args:
        history_predicate: the condition to record in the history. If None, `where` is recorded.
        transaction_id: transaction identifier (application id, version) of the commit.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """
    if not values:
        raise ArgumentError(
            f"{table.path}: no column is set. Set at least one column.", argument="set"
        )
    operation = RowOperation.begin(
        engine,
        table,
        Operation.UPDATE,
        where,
        default_predicate=[],
        assigned=values,
        history_predicate=history_predicate,
        engine_info=engine_info,
        user_metadata=user_metadata,
        transaction_id=transaction_id,
        time_zone=time_zone,
    )
    Assignments(
        engine, operation.task.state.transaction_state, values
    )  # validates the columns and values
    return operation


def commit_update(engine: Engine, operation: RowOperation, changes: RowChanges) -> UpdateMetrics:
    """Commit an UPDATE.

    If no row matched, only the transaction identifier of the operation is committed. Without an
    identifier, nothing is committed.
    """
    counts = {**operation.counts(changes), "num_updated_rows": changes.num_updated_rows}
    version = operation.commit(engine, changes, counts)
    return UpdateMetrics(version=version, **counts)
