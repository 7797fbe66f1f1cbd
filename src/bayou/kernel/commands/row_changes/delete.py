"""DELETE: rows for which a condition is true go away."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation

__all__ = ["DeleteMetrics", "begin_delete", "commit_delete", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMetrics:
    """What a DELETE did; times are in milliseconds. The history has the same, in camel case.

    Attributes:
        version: the table's afterwards; where nothing matched, the one that was read.
        num_deleted_rows: None where files went away whose statistics don't tell their rows.
        num_copied_rows: rows that were left in files that were rewritten.
        num_deletion_vectors_added: vectors that are new, those that replace one included.
        num_deletion_vectors_removed: vectors that are gone, those that were replaced included.
        num_deletion_vectors_updated: vectors that replace one.
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
    user_metadata: str | None = None,
) -> DeleteMetrics:
    """Delete rows, and commit; nothing is committed where no row matches.

    Files whose rows all match, by partition values or by statistics that can't be wrong, are
    removed without being read. Of the others those columns are read that the condition names; then
    a deletion vector marks the matching rows (`delta.enableDeletionVectors`), or the rest is copied
    to a new file.

    Args:
        table: the version that is read.
        where: rows for which it is true; SQL text or a predicate. None: all rows.

    Raises:
        PredicateError: the condition can't be understood, or fails for a row.
        ConstraintViolationError: the table is append-only.
        CommitConflictError: another writer's commit won and doesn't go with this one.
        UnsupportedFeatureError, DataFileError, CommitFailedError: as the names say.
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
    shown: str | None = None,
    engine_info: str,
    user_metadata: str | None = None,
    application: tuple[str, int] | None = None,
) -> RowOperation:
    """A DELETE whose work is done elsewhere: `operation.candidates` are its files, and
    `operation.work.run` what is done to them; `commit_delete` takes what comes of it.

    Args:
        shown: what the history shows of the condition; None: the condition itself.
        application: whose progress the commit records, unless no row matches.

    Raises:
        PredicateError, ConstraintViolationError, UnsupportedFeatureError: as `delete`.
    """
    return RowOperation.begin(
        engine,
        table,
        Operation.DELETE,
        where,
        without_condition=["true"],
        shown=shown,
        engine_info=engine_info,
        user_metadata=user_metadata,
        application=application,
    )


def commit_delete(engine: Engine, operation: RowOperation, changes: RowChanges) -> DeleteMetrics:
    """Commit, unless no row matched.

    Args:
        changes: of all candidates; see `RowChanges.combined`.

    Raises:
        CommitConflictError: another writer's commit won; what was written has been deleted.
        CommitFailedError: as the name says.
    """
    counts = {**operation.counts(changes), "num_deleted_rows": changes.num_deleted_rows}
    if changes.num_deleted_rows is None:
        counts |= {"num_added_files": None, "num_copied_rows": None}
    version = operation.commit(engine, changes, counts)
    return DeleteMetrics(version=version, **counts)
