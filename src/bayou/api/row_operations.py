"""Rows of a table deleted, updated and merged, in this process."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.api.bound_table import BoundTable
from bayou.errors import ArgumentError
from bayou.kernel import Predicate
from bayou.kernel.operations.delete import DeleteMetrics, delete
from bayou.kernel.operations.update import UpdateMetrics, update
from bayou.kernel.predicates.model import Expression
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
            _checked_condition(where),
            engine_info=ENGINE_INFO,
            user_metadata=user_metadata,
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
            _checked_values(set),
            _checked_condition(where),
            engine_info=ENGINE_INFO,
            user_metadata=user_metadata,
        )


def _checked_condition(where: object) -> Predicate | str | None:
    if where is None or isinstance(where, str | Predicate):
        return where
    raise ArgumentError(
        f"where is {where!r}; give SQL text or a predicate such as col('id') > 3.",
        argument="where",
    )


def _checked_values(values: object) -> Mapping[str, Expression | str]:
    if not isinstance(values, Mapping):
        raise ArgumentError(
            f"set is {values!r}; give a dictionary of columns and SQL texts.", argument="set"
        )
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str | Expression):
            raise ArgumentError(
                f"set has {name!r}: {value!r}; the value is SQL text or an expression, "
                f"lit({value!r}) for a constant.",
                argument="set",
            )
    return values
