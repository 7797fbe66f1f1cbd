"""DELETE, UPDATE and MERGE of a table handle."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from bayou.api.argument_checks import (
    BoundTable,
    CommitMetadata,
    checked_commit_metadata,
    checked_string,
    checked_values,
)
from bayou.api.conditions import Condition, checked_condition
from bayou.api.rows.arrow_stream import ArrowStream
from bayou.errors import ArgumentError, ArgumentTypeError
from bayou.kernel.expressions.model import Expression, lit
from bayou.version import ENGINE_INFO

if TYPE_CHECKING:
    from bayou.api.commands.merge import TableMerger
    from bayou.kernel.commands.row_changes.delete import DeleteMetrics
    from bayou.kernel.commands.row_changes.update import UpdateMetrics

PythonValue: TypeAlias = None | bool | int | float | str | bytes | dt.date | dt.datetime


class RowOperations(BoundTable):
    """Methods of `TableHandle` that change rows."""

    __slots__ = ()

    def delete(
        self,
        predicate: Condition | None = None,
        *,
        commit_metadata: CommitMetadata | None = None,
    ) -> DeleteMetrics:
        """Delete the rows that match a condition, in one commit.

        If the table has deletion vectors enabled (`delta.enableDeletionVectors`), the rows are
        marked in deletion vectors. If not, their files are rewritten. If no row matches, nothing is
        committed.

        Args:
            predicate: condition on rows, such as `"day = '2024-01-05' AND id > 3"`; None deletes
                all rows. See `Condition`.
            commit_metadata: see `bayou.write`.

        Returns:
            Metrics: `num_deleted_rows`, `version`, ...

        Raises:
            PredicateError: the condition isn't valid, or fails for a row.
            ConstraintViolationError: the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.

        Examples:
            >>> orders = bayou.table("lake/orders")
            >>> orders.delete("id > 2").num_deleted_rows
        """
        from bayou.kernel.commands.row_changes.delete import delete

        return delete(
            self._engine,
            self._table.latest_snapshot(self._engine),
            checked_condition(predicate, "predicate"),
            engine_info=ENGINE_INFO,
            user_metadata=checked_commit_metadata(commit_metadata),
        )

    def update(
        self,
        updates: Mapping[str, Expression | str] | None = None,
        new_values: Mapping[str, PythonValue] | None = None,
        predicate: Condition | None = None,
        *,
        commit_metadata: CommitMetadata | None = None,
    ) -> UpdateMetrics:
        """Update the rows that match a condition, in one commit.

        Args:
            updates: SQL strings by column name, such as `{"price": "price * 2", "note": "'sold'"}`,
                or expressions such as `lit(value)`. A dotted name is a struct field. The
                expressions use the values of columns before the update. Generated columns are
                recomputed.
            new_values: Python values by column name, such as `{"note": "sold"}`.
            predicate: condition, as in `delete`; None updates all rows.
            commit_metadata: see `bayou.write`.

        Returns:
            Metrics: `num_updated_rows`, `version`, ...

        Raises:
            SchemaError: a column doesn't exist, or can't be assigned.
            PredicateError: an expression isn't valid, or fails for a row.
            ConstraintViolationError: a new row violates a constraint, or the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.

        Examples:
            >>> orders = bayou.table("lake/orders")
            >>> orders.update({"price": "price * 0.9"}, predicate="country = 'NZ'")
            >>> orders.update(new_values={"country": "AU"}, predicate="id = 1")
        """
        from bayou.kernel.commands.row_changes.update import update

        return update(
            self._engine,
            self._table.latest_snapshot(self._engine),
            _assignments(updates, new_values),
            checked_condition(predicate, "predicate"),
            engine_info=ENGINE_INFO,
            user_metadata=checked_commit_metadata(commit_metadata),
        )

    def merge(
        self,
        source: ArrowStream,
        predicate: Condition,
        source_alias: str = "source",
        target_alias: str = "target",
        merge_schema: bool = False,
        *,
        commit_metadata: CommitMetadata | None = None,
    ) -> TableMerger:
        """Start a MERGE of source rows into the table.

        Args:
            source: pyarrow, polars, duckdb or pandas rows, or any object with an Arrow stream.
                `execute` reads it once.
            predicate: the join condition, such as `"target.id = source.id"`. NULL keys don't match.
            source_alias, target_alias: names of source and target in SQL strings.
            merge_schema: whether to add the columns and struct fields that a clause assigns and the
                table lacks.
            commit_metadata: see `bayou.write`.

        Returns:
            A builder. Add clauses with its `when_...` methods, then call `execute`.

        Examples:
            >>> orders = bayou.table("lake/orders")
            >>> changes = pa.table({"id": [1, 9], "price": [5.0, 6.0], "country": ["NZ", "AU"]})
            >>> merge = orders.merge(changes, "target.id = source.id")
            >>> merge.when_matched_update_all().when_not_matched_insert_all().execute()
        """
        from bayou.api.commands.merge import TableMerger
        from bayou.kernel.commands.merge import MergeDefinition

        condition = checked_condition(predicate, "predicate")
        if condition is None:
            raise ArgumentError(
                "predicate: the value is None. Give a condition on rows.",
                argument="predicate",
            )
        return TableMerger(
            self._engine,
            self._table,
            source,
            MergeDefinition(
                on=condition,
                clauses=(),
                source_alias=checked_string(source_alias, "source_alias"),
                target_alias=checked_string(target_alias, "target_alias"),
                schema_evolution=merge_schema,
            ),
            checked_commit_metadata(commit_metadata),
        )


def _assignments(updates: object, new_values: object) -> Mapping[str, Expression | str]:
    if (updates is None) == (new_values is None):
        raise ArgumentError(
            f"updates: {'neither updates nor' if updates is None else 'both updates and'} "
            f"new_values {'is' if updates is None else 'are'} set. Give SQL in updates, or Python "
            "values in new_values.",
            argument="updates",
        )
    if updates is not None:
        return checked_values(updates, "updates")
    if not isinstance(new_values, Mapping):
        raise ArgumentError(
            f"new_values: {new_values!r} isn't a dictionary. Give column names and values.",
            argument="new_values",
        )
    try:
        literals = {name: lit(value) for name, value in new_values.items()}
    except TypeError as error:
        raise ArgumentTypeError(
            f"new_values: {error}. Give strings, numbers, dates or datetimes. For SQL, use the "
            "argument updates.",
            argument="new_values",
        ) from error
    return checked_values(literals, "new_values")
