"""DELETE, UPDATE and MERGE in the short API."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.api.argument_checks import BoundTable, checked_condition, checked_string, checked_values
from bayou.api.arrow_stream import ArrowStream
from bayou.api.merge import MergeBuilder
from bayou.errors import ArgumentError
from bayou.kernel import Predicate
from bayou.kernel.commands.merge import MergeDefinition
from bayou.kernel.commands.row_changes.delete import DeleteMetrics, delete
from bayou.kernel.commands.row_changes.update import UpdateMetrics, update
from bayou.kernel.expressions.model import Expression
from bayou.version import ENGINE_INFO


class RowOperations(BoundTable):
    """Methods of `TableHandle` that change rows."""

    __slots__ = ()

    def delete(
        self, where: Predicate | str | None = None, *, user_metadata: str | None = None
    ) -> DeleteMetrics:
        """Delete the rows that match a condition, in one commit.

        The rows are marked in deletion vectors if the table enables them
        (`delta.enableDeletionVectors`); otherwise their files are rewritten. Nothing is committed
        if no row matches.

        Args:
            where: an SQL string such as `"day = '2024-01-05' AND id > 3"`, or a `Predicate`; None
                deletes all rows.
            user_metadata: user-defined string to record in the commit.

        Returns:
            Metrics: `num_deleted_rows`, `version`, ...

        Raises:
            PredicateError: the condition isn't valid, or fails for a row.
            ConstraintViolationError: the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.
        """
        return delete(
            self._engine,
            self._table.latest_snapshot(self._engine),
            checked_condition(where, "where"),
            engine_info=ENGINE_INFO,
            user_metadata=_checked_user_metadata(user_metadata),
        )

    def update(
        self,
        set: Mapping[str, Expression | str],
        where: Predicate | str | None = None,
        *,
        user_metadata: str | None = None,
    ) -> UpdateMetrics:
        """Update the rows that match a condition, in one commit.

        Args:
            set: new values by column name, such as `{"price": "price * 2", "note": "'sold'"}`. A
                dotted name is a struct field. A value is an SQL string, or an expression such as
                `lit(value)` for a constant; columns in it have their values from before the update.
                Generated columns are recomputed.
            where: condition, as in `delete`; None updates all rows.
            user_metadata: user-defined string to record in the commit.

        Returns:
            Metrics: `num_updated_rows`, `version`, ...

        Raises:
            SchemaError: a column doesn't exist, or can't be assigned.
            PredicateError: an expression isn't valid, or fails for a row.
            ConstraintViolationError: a new row violates a constraint, or the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.
        """
        return update(
            self._engine,
            self._table.latest_snapshot(self._engine),
            checked_values(set, "set"),
            checked_condition(where, "where"),
            engine_info=ENGINE_INFO,
            user_metadata=_checked_user_metadata(user_metadata),
        )

    def merge(
        self,
        source: ArrowStream,
        on: Predicate | str,
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        user_metadata: str | None = None,
    ) -> MergeBuilder:
        """Start a MERGE of source rows into the table.

        Args:
            source: pyarrow, polars, duckdb or pandas rows, or any object with an Arrow stream.
                `execute` reads it once.
            on: the join condition, such as `"target.id = source.id"`; an SQL string or a
                `Predicate`. NULL matches nothing.
            source_alias, target_alias: the names of the two sides in SQL strings.
            user_metadata: user-defined string to record in the commit.

        Returns:
            A builder. Add clauses with its `when_...` methods, then call `execute`.
        """
        if checked_condition(on, "on") is None:
            raise ArgumentError(
                "on: it is None. Give the condition by which rows match.", argument="on"
            )
        return MergeBuilder(
            self._engine,
            self._table,
            source,
            MergeDefinition(
                on=on,
                clauses=(),
                source_alias=checked_string(source_alias, "source_alias"),
                target_alias=checked_string(target_alias, "target_alias"),
            ),
            _checked_user_metadata(user_metadata),
        )


def _checked_user_metadata(user_metadata: str | None) -> str | None:
    return None if user_metadata is None else checked_string(user_metadata, "user_metadata")
