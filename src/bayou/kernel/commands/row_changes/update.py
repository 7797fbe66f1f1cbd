"""UPDATE: rows for which a condition is true get new values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayou.errors import ArgumentError
from bayou.kernel.commands.row_changes.assignments import Assignments
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation

__all__ = ["UpdateMetrics", "begin_update", "commit_update", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetrics:
    """What an UPDATE did; times are in milliseconds. The history has the same, in camel case.

    Attributes:
        version: the table's afterwards; where nothing matched, the one that was read.
        num_copied_rows: rows of rewritten files that didn't match.
        num_deletion_vectors_added: vectors that are new, those that replace one included.
        num_deletion_vectors_removed: vectors that are gone, those that were replaced included.
        num_deletion_vectors_updated: vectors that replace one.
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
    user_metadata: str | None = None,
) -> UpdateMetrics:
    """Give rows new values, and commit; nothing is committed where no row matches.

    Rows are found as by `delete`. A deletion vector marks the old ones where the table has them,
    and only new versions are written; else their files are rewritten.

    Args:
        table: the version that is read.
        values: see `Assignments`.
        where: rows for which it is true; SQL text or a predicate. None: all rows.

    Raises:
        SchemaError: a column that can't be set.
        PredicateError: an expression can't be understood, or fails for a row.
        ConstraintViolationError: a new version breaks a rule, or the table is append-only.
        CommitConflictError: another writer's commit won and doesn't go with this one.
        UnsupportedFeatureError, DataFileError, CommitFailedError: as the names say.
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
    shown: str | None = None,
    engine_info: str,
    user_metadata: str | None = None,
    application: tuple[str, int] | None = None,
) -> RowOperation:
    """An UPDATE whose work is done elsewhere; see `begin_delete`.

    An application's progress is committed where no row matches, too, as by delta-spark.

    Raises:
        ArgumentError, SchemaError, PredicateError, ConstraintViolationError,
        UnsupportedFeatureError: as `update`.
    """
    if not values:
        raise ArgumentError("An update sets at least one column.", argument="set")
    operation = RowOperation.begin(
        engine,
        table,
        Operation.UPDATE,
        where,
        without_condition=[],
        assigned=values,
        shown=shown,
        engine_info=engine_info,
        user_metadata=user_metadata,
        application=application,
    )
    Assignments(engine, operation.work.state.write, values)  # refuses what can't be set
    return operation


def commit_update(engine: Engine, operation: RowOperation, changes: RowChanges) -> UpdateMetrics:
    """Commit, unless no row matched; see `commit_delete`."""
    counts = {**operation.counts(changes), "num_updated_rows": changes.num_updated_rows}
    version = operation.commit(engine, changes, counts)
    return UpdateMetrics(version=version, **counts)
