"""The short API's MERGE: `MergeBuilder` collects the clauses and runs them."""

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

Values: TypeAlias = Mapping[str, Expression | str]
"""New values by column name: SQL strings or expressions, such as `lit(value)` for a constant."""


class MergeBuilder:
    """Builder of a MERGE; each method returns a new builder. `TableHandle.merge` creates one.

    There are clauses of three kinds: matched, not matched, and not matched by source. Each row is
    of one kind. Of the clauses of that kind, the first one whose condition is true applies to the
    row. Only the last clause of a kind may have no condition.

    Conditions and values can use the columns of source and target. If both have a column of the
    same name, put an alias before the name: `"source.price > target.price"`.

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
        """Update columns of target rows that match a source row; the other columns stay unchanged.

        Args:
            set: new values by column name, such as `"address.city"` for a struct field. A value may
                use columns of source and target. Generated columns are recomputed.
            condition: update only rows for which the condition is true.
        """
        return self._with("MATCHED", "update", condition, checked_values(set, "set"))

    def when_matched_update_all(self, condition: Predicate | str | None = None) -> MergeBuilder:
        """Update all columns of matching target rows from the source columns of the same names.

        The source must have all columns of the target. With schema evolution, columns that the
        source lacks stay unchanged, and columns that the target lacks are added.
        """
        return self._with("MATCHED", "update", condition, None)

    def when_matched_delete(self, condition: Predicate | str | None = None) -> MergeBuilder:
        """Delete target rows that match a source row."""
        return self._with("MATCHED", "delete", condition, None)

    def when_not_matched_insert(
        self, values: Values, condition: Predicate | str | None = None
    ) -> MergeBuilder:
        """Insert source rows that match no target row.

        Args:
            values: values by column name. A value may use columns of the source. A column without a
                value gets its default or generated value, else NULL.
            condition: insert only rows for which the condition is true.
        """
        return self._with("NOT MATCHED", "insert", condition, checked_values(values, "values"))

    def when_not_matched_insert_all(self, condition: Predicate | str | None = None) -> MergeBuilder:
        """Insert source rows that match no target row, with all columns by name."""
        return self._with("NOT MATCHED", "insert", condition, None)

    def when_not_matched_by_source_update(
        self, set: Values, condition: Predicate | str | None = None
    ) -> MergeBuilder:
        """Update target rows that match no source row; values can use the target's columns only.

        All data files in which the condition can be true are read.
        """
        return self._with("NOT MATCHED BY SOURCE", "update", condition, checked_values(set, "set"))

    def when_not_matched_by_source_delete(
        self, condition: Predicate | str | None = None
    ) -> MergeBuilder:
        """Delete target rows that match no source row."""
        return self._with("NOT MATCHED BY SOURCE", "delete", condition, None)

    def with_schema_evolution(self) -> MergeBuilder:
        """Let the merge add columns and fields that a clause writes but the table lacks."""
        return self._with_definition(replace(self._definition, schema_evolution=True))

    def execute(self) -> MergeMetrics:
        """Run the merge in one commit. Nothing is committed if no row changes.

        The source is held in memory (at most 2 GiB); the target is read file by file. Changed rows
        are marked in deletion vectors if the table enables them (`delta.enableDeletionVectors`);
        otherwise their files are rewritten. A merge that only inserts rewrites no files.

        Returns:
            Metrics: `num_target_rows_updated`, `num_affected_rows`, `version`, ...

        Raises:
            MultipleMatchesError: several source rows match one target row. This is allowed
                if the merge only inserts, or if the only clause deletes without a condition.
            ArgumentError: the clauses contradict each other, or the source isn't a table or is too
                large.
            PredicateError: a condition or value isn't valid SQL, or fails for a row.
            SchemaError: a column can't be assigned, or is assigned twice.
            ConstraintViolationError: a new row violates a constraint, or the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.
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
        return self._with_definition(replace(self._definition, clauses=clauses))

    def _with_definition(self, definition: MergeDefinition) -> MergeBuilder:
        return MergeBuilder(
            self._engine, self._table, self._source, definition, self._user_metadata
        )
