"""DELETE: remove the rows for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.kernel.commands.metrics_by_name import MetricsByName
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.protocol.actions import UserMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMetrics(MetricsByName):
    """Metrics of a DELETE; times are in milliseconds.

    In the history, the metrics have names in camel case, for example `numDeletedRows`.

    Attributes:
        version: the table's version after the DELETE; unchanged if no row matched.
        num_deleted_rows: number of deleted rows. None if a file without a row count in the log was
            removed without being read.
        num_added_files: number of new files; None if `num_deleted_rows` is None.
        num_copied_rows: number of rows that were copied from rewritten files to new files; None if
            `num_deleted_rows` is None.
        num_deletion_vectors_added: number of new deletion vectors, including replacements.
        num_deletion_vectors_removed: number of removed deletion vectors, including replaced ones.
        num_deletion_vectors_updated: number of replaced deletion vectors.
    """

    version: int
    num_removed_files: int = 0
    num_added_files: int | None = 0
    num_deleted_rows: int | None = 0
    num_copied_rows: int | None = 0
    num_deletion_vectors_added: int = 0
    num_deletion_vectors_removed: int = 0
    num_deletion_vectors_updated: int = 0
    num_added_change_files: int = 0
    num_removed_bytes: int = 0
    num_added_bytes: int = 0
    execution_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0


def delete(
    engine: Engine,
    table: TableState,
    where: Predicate | str | None = None,
    *,
    engine_info: str,
    user_metadata: UserMetadata | None = None,
) -> DeleteMetrics:
    """Delete rows and commit; if no row matches, nothing is committed.

    If partition values or exact statistics prove that all rows of a file match, the file is removed
    without being read. From the other files, only the columns of the condition are read. If
    `delta.enableDeletionVectors` is set, the matching rows are marked in a deletion vector. If it
    isn't set, the rows that don't match are copied to a new file.
    """
    operation = begin_delete(
        engine, table, where, engine_info=engine_info, user_metadata=user_metadata
    )
    return commit_delete(engine, operation, operation.run(engine))


def begin_delete(
    engine: Engine,
    table: TableState,
    where: Predicate | str | None = None,
    *,
    history_predicate: str | None = None,
    engine_info: str,
    user_metadata: UserMetadata | None = None,
    transaction_id: tuple[str, int] | None = None,
    time_zone: str = "UTC",
) -> RowOperation:
    """Start a DELETE whose tasks run in other processes.

    The processes run `task` of the returned operation on its `candidates`. `commit_delete` then
    commits the combined results.

    Args:
        history_predicate: the condition to record in the history. If None, `where` is recorded.
        transaction_id: transaction identifier (application id, version) of the commit. If no row
            matches, nothing is committed, not even the transaction identifier.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """
    return RowOperation.begin(
        engine,
        table,
        Operation.DELETE,
        where,
        default_predicate=["true"],
        history_predicate=history_predicate,
        engine_info=engine_info,
        user_metadata=user_metadata,
        transaction_id=transaction_id,
        time_zone=time_zone,
    )


def commit_delete(engine: Engine, operation: RowOperation, changes: RowChanges) -> DeleteMetrics:
    """Commit a DELETE if any row matched.

    Args:
        changes: changes of all candidates, combined with `RowChanges.combined`.
    """
    counts = {**operation.counts(changes), "num_deleted_rows": changes.num_deleted_rows}
    if changes.num_deleted_rows is None:
        counts |= {"num_added_files": None, "num_copied_rows": None}
    version = operation.commit(engine, changes, counts)
    return DeleteMetrics(version=version, **counts)
