"""MERGE: `TableMerger` collects the clauses and runs the merge."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from bayou.api.argument_checks import CommitMetadata, checked_names, checked_values
from bayou.api.conditions import Condition, checked_condition
from bayou.api.rows.arrow_stream import ArrowStream, record_batches
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.arrow.types import from_arrow_schema
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
from bayou.protocol.sql import quote_identifier
from bayou.version import ENGINE_INFO

Values: TypeAlias = Mapping[str, Expression | str]
"""New values by column name: SQL strings or expressions, such as `lit(value)` for a constant."""


class TableMerger:
    """Builder of a MERGE; each method returns a new builder. `TableHandle.merge` creates a builder.

    A row is matched, not matched, or not matched by source. Each clause is for one of these three
    cases. For each row, the clauses of its case are evaluated in order. Only the first clause whose
    condition is true applies to the row. Only the last clause of each case may omit the condition.

    Conditions and values can use the columns of source and target. If both have a column with the
    same name, put an alias before the name: `"source.price > target.price"`.

    Examples:
        >>> changes = pa.table({"id": [1, 9], "price": [None, 6.0], "country": ["NZ", "AU"]})
        >>> merge = bayou.table("lake/orders").merge(changes, "target.id = source.id")
        >>> merge = merge.when_matched_delete("source.price IS NULL").when_matched_update_all()
        >>> merge.when_not_matched_insert_all("source.price > 0").execute()
    """

    __slots__ = ("_commit_metadata", "_definition", "_engine", "_except_cols", "_source", "_table")

    def __init__(
        self,
        engine: Engine,
        table: Table,
        source: ArrowStream,
        definition: MergeDefinition,
        commit_metadata: CommitMetadata | None,
        *,
        except_cols: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        self._engine = engine
        self._table = table
        self._source = source
        self._definition = definition
        self._commit_metadata = commit_metadata
        self._except_cols = except_cols

    def when_matched_update(
        self, updates: Values, predicate: Condition | None = None
    ) -> TableMerger:
        """Update columns of target rows that match a source row; other columns don't change.

        Args:
            updates: new values by column name. The name of a struct field is a path such as
                `"address.city"`. A value may use columns of source and target. Generated columns
                are recomputed.
            predicate: update only rows for which the condition is true.

        Examples:
            >>> changes = pa.table({"id": [1], "price": [4.0]})
            >>> merge = bayou.table("lake/orders").merge(changes, "target.id = source.id")
            >>> merge.when_matched_update({"price": "source.price"}).execute()
        """
        assignments = checked_values(updates, "updates")
        return self._with("MATCHED", "update", predicate, assignments)

    def when_matched_update_all(
        self, predicate: Condition | None = None, except_cols: Sequence[str] | None = None
    ) -> TableMerger:
        """Update all columns of matching target rows from the source columns of the same names.

        By default, the source must have all columns of the target. With `merge_schema=True` of
        `TableHandle.merge`, a column that the source lacks doesn't change, and a column that the
        target lacks is added to the target.

        Args:
            predicate: update only rows for which the condition is true.
            except_cols: source columns to ignore. The target's columns with these names don't
                change.
        """
        return self._with("MATCHED", "update", predicate, None, except_cols)

    def when_matched_delete(self, predicate: Condition | None = None) -> TableMerger:
        """Delete target rows that match a source row."""
        return self._with("MATCHED", "delete", predicate, None)

    def when_not_matched_insert(
        self, updates: Values, predicate: Condition | None = None
    ) -> TableMerger:
        """Insert source rows that match no target row.

        Args:
            updates: values by column name. A value may use columns of the source. Columns that
                aren't in `updates` get their default or generated value. Columns with neither get
                NULL.
            predicate: insert only rows for which the condition is true.

        Examples:
            >>> changes = pa.table({"id": [7], "price": [4.0]})
            >>> merge = bayou.table("lake/orders").merge(changes, "target.id = source.id")
            >>> values = {"id": "source.id", "price": "source.price"}
            >>> merge.when_not_matched_insert(values).execute()
        """
        assignments = checked_values(updates, "updates")
        return self._with("NOT MATCHED", "insert", predicate, assignments)

    def when_not_matched_insert_all(
        self, predicate: Condition | None = None, except_cols: Sequence[str] | None = None
    ) -> TableMerger:
        """Insert all columns of source rows that match no target row.

        Args:
            predicate: insert only rows for which the condition is true.
            except_cols: source columns to ignore. The new rows have the default or NULL in these
                columns.
        """
        return self._with("NOT MATCHED", "insert", predicate, None, except_cols)

    def when_not_matched_by_source_update(
        self, updates: Values, predicate: Condition | None = None
    ) -> TableMerger:
        """Update target rows that match no source row; values can only use columns of the target.

        The merge reads every data file that may have a row for which `predicate` is true. Without a
        predicate, it reads all data files.
        """
        assignments = checked_values(updates, "updates")
        return self._with("NOT MATCHED BY SOURCE", "update", predicate, assignments)

    def when_not_matched_by_source_delete(self, predicate: Condition | None = None) -> TableMerger:
        """Delete target rows that match no source row."""
        return self._with("NOT MATCHED BY SOURCE", "delete", predicate, None)

    def execute(self) -> MergeMetrics:
        """Run the merge in one commit. Nothing is committed if no row changes.

        The source is read into memory (at most 2 GiB). The target is read file by file. If the
        table has deletion vectors enabled (`delta.enableDeletionVectors`), changed rows are marked
        in deletion vectors. If not, the files of changed rows are rewritten. A merge that only
        inserts rows rewrites no files.

        Returns:
            Metrics: `num_target_rows_updated`, `num_affected_rows`, `version`, ...

        Raises:
            MultipleMatchesError: several source rows match one target row. This is allowed
                if the merge only inserts rows, or if its only clause for matched rows is a delete
                without a condition.
            ArgumentError: a clause is invalid or unreachable, or the source isn't a table or is too
                large.
            PredicateError: a condition or value isn't valid SQL, or fails for a row.
            SchemaError: a column can't be assigned, or is assigned twice.
            ConstraintViolationError: a new row violates a constraint, or the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.
        """
        started = time.perf_counter()
        stream = record_batches(self._source, "source")
        snapshot = self._table.latest_snapshot(self._engine)
        definition = self._with_columns_of(stream.schema)
        if definition.schema_evolution:
            _check_new_columns(snapshot, stream.schema, definition)
        return merge(
            self._engine,
            snapshot,
            MergeSource.read(stream.schema, stream),
            definition,
            engine_info=ENGINE_INFO,
            user_metadata=self._commit_metadata,
            started=started,
        )

    def _with_columns_of(self, source: pa.Schema) -> MergeDefinition:
        """Return the definition of the MERGE, in which assignments replace `except_cols`.

        A clause with `except_cols` gets an assignment for each other source column. Clauses without
        `except_cols` don't change.
        """
        clauses = [
            replace(clause, assignments=self._all_columns(source, names)) if names else clause
            for clause, names in zip(self._definition.clauses, self._except_cols, strict=True)
        ]
        return replace(self._definition, clauses=tuple(clauses))

    def _all_columns(self, source: pa.Schema, except_cols: Sequence[str]) -> dict[str, str]:
        excluded = {name.lower() for name in except_cols}
        unknown = excluded - {name.lower() for name in source.names}
        if unknown:
            raise ArgumentError(
                f"except_cols: the source has no column {min(unknown)!r}. Its columns are "
                f"{', '.join(source.names)}.",
                argument="except_cols",
            )
        alias = self._definition.source_alias
        return {
            quote_identifier(name): f"{quote_identifier(alias)}.{quote_identifier(name)}"
            for name in source.names
            if name.lower() not in excluded
        }

    def _with(
        self,
        kind: ClauseKind,
        action: ClauseAction,
        predicate: Condition | None,
        assignments: Values | None,
        except_cols: Sequence[str] | None = None,
    ) -> TableMerger:
        clause = MergeClause(
            kind=kind,
            action=action,
            condition=checked_condition(predicate, "predicate"),
            assignments=assignments,
        )
        return TableMerger(
            self._engine,
            self._table,
            self._source,
            replace(self._definition, clauses=(*self._definition.clauses, clause)),
            self._commit_metadata,
            except_cols=(*self._except_cols, checked_names(except_cols, "except_cols") or ()),
        )


def _check_new_columns(snapshot: Snapshot, source: pa.Schema, definition: MergeDefinition) -> None:
    """Raise an error if a merge would add a column that has Arrow's type null."""
    clauses = definition.clauses
    all_columns = any(clause.sets_all_columns for clause in clauses)
    assigned = {name.lower() for clause in clauses for name in clause.assignments or ()}
    new = [
        field
        for field in source
        if snapshot.schema.get(field.name) is None
        and (all_columns or field.name.lower() in assigned)
    ]
    from_arrow_schema(pa.schema(new), table=snapshot.path)
