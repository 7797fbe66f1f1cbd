"""The short API's MERGE: clauses put together one by one, then run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from bayou.api.argument_checks import checked_condition, checked_values
from bayou.api.arrow_stream import ArrowStream, record_batches
from bayou.kernel import Engine, Predicate, Table
from bayou.kernel.commands.merge import (
    ClauseAction,
    ClauseKind,
    MergeClause,
    MergeDefinition,
    MergeMetrics,
    MergeSource,
    merge,
)
from bayou.kernel.expressions.model import Expression
from bayou.version import ENGINE_INFO

__all__ = ["MergeBuilder", "Values"]

Values: TypeAlias = Mapping[str, Expression | str]
"""New values by column: SQL text, or an expression (`lit(value)` for a constant)."""


class MergeBuilder:
    """A merge that is being put together; each method gives a new one. Made by `TableHandle.merge`.

    Of the clauses of one kind the first counts whose condition is true for a row; only the last of
    a kind may have none. Conditions and values name columns of either side, with the side's alias
    where both have them: `"source.price > target.price"`.

        merge = bayou.table("lake/items").merge(changes, "target.id = source.id")
        merge = merge.when_matched_delete("source.deleted").when_matched_update_all()
        merge.when_not_matched_insert_all("NOT source.deleted").execute()
    """

    __slots__ = ("_definition", "_engine", "_source", "_table", "_user_metadata")

    def __init__(
        self,
        engine: Engine,
        table: Table,
        source: ArrowStream,
        definition: MergeDefinition,
        user_metadata: str | None,
    ) -> None:
        self._engine = engine
        self._table = table
        self._source = source
        self._definition = definition
        self._user_metadata = user_metadata

    def when_matched_update(
        self, set: Values, condition: Predicate | str | None = None
    ) -> MergeBuilder:
        """Give target rows with a matching source row new values; the other columns stay.

        Args:
            set: by column, `"address.city"` for a field of a struct; values may name both sides.
                Generated columns follow.
            condition: only rows for which it is true.
        """
        return self._with("MATCHED", "update", condition, checked_values(set, "set"))

    def when_matched_update_all(self, condition: Predicate | str | None = None) -> MergeBuilder:
        """Give target rows the values of the matching source row's columns of the same names.

        The source must have all columns of the target, or the schema evolve: then what it lacks
        stays, and what the target lacks is added.
        """
        return self._with("MATCHED", "update", condition, None)

    def when_matched_delete(self, condition: Predicate | str | None = None) -> MergeBuilder:
        """Delete target rows with a matching source row."""
        return self._with("MATCHED", "delete", condition, None)

    def when_not_matched_insert(
        self, values: Values, condition: Predicate | str | None = None
    ) -> MergeBuilder:
        """Insert source rows that match no target row.

        Args:
            values: by column; they may name the source's columns. What isn't here gets its default,
                is generated, or NULL.
            condition: only rows for which it is true.
        """
        return self._with("NOT MATCHED", "insert", condition, checked_values(values, "values"))

    def when_not_matched_insert_all(self, condition: Predicate | str | None = None) -> MergeBuilder:
        """Insert source rows that match no target row, all columns by their names."""
        return self._with("NOT MATCHED", "insert", condition, None)

    def when_not_matched_by_source_update(
        self, set: Values, condition: Predicate | str | None = None
    ) -> MergeBuilder:
        """Give target rows without a matching source row new values, out of their own columns.

        Every file is read, unless the condition leaves some out.
        """
        return self._with("NOT MATCHED BY SOURCE", "update", condition, checked_values(set, "set"))

    def when_not_matched_by_source_delete(
        self, condition: Predicate | str | None = None
    ) -> MergeBuilder:
        """Delete target rows without a matching source row."""
        return self._with("NOT MATCHED BY SOURCE", "delete", condition, None)

    def with_schema_evolution(self) -> MergeBuilder:
        """Add columns and fields to the table that the source has and a clause takes."""
        return self._changed(replace(self._definition, schema_evolution=True))

    def execute(self) -> MergeMetrics:
        """Run it, in one commit; nothing is committed where nothing changes.

        The source is held in memory, up to 2 GiB; the target is read file by file. Rows are marked
        by deletion vectors where the table has those (`delta.enableDeletionVectors`), else their
        files are written anew. A merge that only inserts touches no file that is there.

        Returns:
            What was done: `num_target_rows_updated`, `num_affected_rows`, `version`, ...

        Raises:
            MultipleMatchesError: several source rows match one target row. A lone clause that
                deletes without a condition may have that, and a merge that only inserts.
            ArgumentError: clauses that can't stand together, or a source that is no table or too
                large.
            PredicateError: a text that can't be understood, or fails for a row.
            SchemaError: a column that can't be set, or that is set twice.
            ConstraintViolationError: a new row breaks a rule, or the table is append-only.
            CommitConflictError: another writer's commit won and doesn't go with this one.
        """
        started = time.perf_counter()
        stream = record_batches(self._source, "source")
        return merge(
            self._engine,
            self._table.latest_snapshot(self._engine),
            MergeSource.read(stream.schema, stream),
            self._definition,
            engine_info=ENGINE_INFO,
            user_metadata=self._user_metadata,
            started=started,
        )

    def _with(
        self,
        kind: ClauseKind,
        action: ClauseAction,
        condition: Predicate | str | None,
        assignments: Values | None,
    ) -> MergeBuilder:
        clause = MergeClause(
            kind=kind,
            action=action,
            condition=checked_condition(condition, "condition"),
            assignments=assignments,
        )
        clauses = (*self._definition.clauses, clause)
        return self._changed(replace(self._definition, clauses=clauses))

    def _changed(self, definition: MergeDefinition) -> MergeBuilder:
        return MergeBuilder(
            self._engine, self._table, self._source, definition, self._user_metadata
        )
