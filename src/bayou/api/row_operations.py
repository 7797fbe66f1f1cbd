"""Rows of a table deleted, updated and merged, in this process."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.api.argument_checks import BoundTable, checked_condition, checked_text, checked_values
from bayou.api.arrow_stream import ArrowStream
from bayou.api.merge import MergeBuilder
from bayou.errors import ArgumentError
from bayou.kernel import Predicate
from bayou.kernel.commands.merge import MergeDefinition
from bayou.kernel.commands.row_changes.delete import DeleteMetrics, delete
from bayou.kernel.commands.row_changes.update import UpdateMetrics, update
from bayou.kernel.expressions.model import Expression
from bayou.version import ENGINE_INFO

__all__ = ["RowOperations"]


class RowOperations(BoundTable):
    """What changes rows."""

    __slots__ = ()

    def delete(
        self, where: Predicate | str | None = None, *, user_metadata: str | None = None
    ) -> DeleteMetrics:
        """Delete the rows for which a condition is true, in one commit.

        Deletion vectors mark them where the table has those (`delta.enableDeletionVectors`); else
        their files are written anew without them. Nothing is committed where no row matches.

        Args:
            where: SQL text such as `"day = '2024-01-05' AND id > 3"`, or a `Predicate`; None
                deletes all rows.
            user_metadata: free text for the commit.

        Returns:
            What was done: `num_deleted_rows`, `version`, ...

        Raises:
            PredicateError: the condition can't be understood, or fails for a row.
            ConstraintViolationError: the table is append-only.
            CommitConflictError: another writer's commit won and doesn't go with this one.
        """
        return delete(
            self._engine,
            self._table.latest_snapshot(self._engine),
            checked_condition(where, "where"),
            engine_info=ENGINE_INFO,
            user_metadata=_free_text(user_metadata),
        )

    def update(
        self,
        set: Mapping[str, Expression | str],
        where: Predicate | str | None = None,
        *,
        user_metadata: str | None = None,
    ) -> UpdateMetrics:
        """Give the rows for which a condition is true new values, in one commit.

        Args:
            set: new values by column, `{"price": "price * 2", "note": "'sold'"}`: SQL text over the
                table's columns, or an expression; `lit(value)` is a constant. A dotted name is a
                field of a struct. All see the row as it was. Generated columns follow.
            where: as of `delete`; None updates all rows.
            user_metadata: free text for the commit.

        Returns:
            What was done: `num_updated_rows`, `version`, ...

        Raises:
            SchemaError: an unknown column, or one that can't be set.
            PredicateError: an expression can't be understood, or fails for a row.
            ConstraintViolationError: a new row breaks a rule, or the table is append-only.
            CommitConflictError: another writer's commit won and doesn't go with this one.
        """
        return update(
            self._engine,
            self._table.latest_snapshot(self._engine),
            checked_values(set, "set"),
            checked_condition(where, "where"),
            engine_info=ENGINE_INFO,
            user_metadata=_free_text(user_metadata),
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
        """Begin a merge: rows of a source update, delete and insert rows of the table.

        Args:
            source: rows of pyarrow, polars, duckdb, pandas, ...: anything with an Arrow stream. It
                is read by `execute`, once.
            on: when a source row and a target row belong together, such as
                `"target.id = source.id"`; SQL text or a `Predicate`. NULL equals nothing.
            source_alias, target_alias: the sides' names in texts.
            user_metadata: free text for the commit.

        Returns:
            A builder: give it clauses (`when_...`), then `execute` it.
        """
        if checked_condition(on, "on") is None:
            raise ArgumentError(
                "on is None; give the condition by which rows match.", argument="on"
            )
        return MergeBuilder(
            self._engine,
            self._table,
            source,
            MergeDefinition(
                on=on,
                clauses=(),
                source_alias=checked_text(source_alias, "source_alias"),
                target_alias=checked_text(target_alias, "target_alias"),
            ),
            _free_text(user_metadata),
        )


def _free_text(user_metadata: str | None) -> str | None:
    return None if user_metadata is None else checked_text(user_metadata, "user_metadata")
