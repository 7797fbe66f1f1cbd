"""`DeltaTable.merge`: clauses put together one by one, then run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayou.kernel.commands.merge import ClauseAction, ClauseKind
from bayou.spark.commands.merge import run_merge
from bayou.spark.commands.merge_request import MergeRequest, RequestedClause
from bayou.spark.delta_table.result_dataframes import merge_frame
from bayou.spark.expressions.expressions import RowExpression, condition_of, values_of
from bayou.spark.target import TargetTable

__all__ = ["DeltaMergeBuilder"]

_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"


class DeltaMergeBuilder:
    """A merge that is being put together; each method gives a new builder.

    Of the clauses of one kind the first counts whose condition is true for a row. Conditions and
    values are SQL texts or Columns, and name the columns of either side by the sides' aliases.
    """

    def __init__(self, target: TargetTable, source: Any, request: MergeRequest) -> None:
        self._target = target
        self._source = source
        self._request = request

    def whenMatchedUpdate(  # noqa: N802  # delta-spark's names, here and below
        self, condition: Any = None, set: Any = None
    ) -> DeltaMergeBuilder:
        """Give target rows with a matching source row new values.

        Args:
            condition: only rows for which it is true.
            set: values by column of the target; the others stay.
        """
        values = values_of(self._target.spark, set, "set")
        return self._with("MATCHED", "update", condition, values)

    def whenMatchedUpdateAll(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Give target rows the values of the source's columns of the same names."""
        return self._with("MATCHED", "update", condition, None)

    def whenMatchedDelete(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Delete target rows with a matching source row."""
        return self._with("MATCHED", "delete", condition, None)

    def whenNotMatchedInsert(  # noqa: N802
        self, condition: Any = None, values: Any = None
    ) -> DeltaMergeBuilder:
        """Insert source rows without a matching target row.

        Args:
            condition: only rows for which it is true.
            values: by column of the target; the others get their default, or NULL.
        """
        given = values_of(self._target.spark, values, "values")
        return self._with("NOT MATCHED", "insert", condition, given)

    def whenNotMatchedInsertAll(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Insert source rows without a matching target row, all columns by their names."""
        return self._with("NOT MATCHED", "insert", condition, None)

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self, condition: Any = None, set: Any = None
    ) -> DeltaMergeBuilder:
        """Give target rows without a matching source row new values, out of their own columns."""
        values = values_of(self._target.spark, set, "set")
        return self._with("NOT MATCHED BY SOURCE", "update", condition, values)

    def whenNotMatchedBySourceDelete(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Delete target rows without a matching source row."""
        return self._with("NOT MATCHED BY SOURCE", "delete", condition, None)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:  # noqa: N802
        """Add columns and fields to the table that the source has and a clause takes."""
        return self._changed(replace(self._request, schema_evolution=True))

    def execute(self) -> Any:
        """Run it, in one commit; nothing is committed where nothing changes.

        Returns:
            A DataFrame of one row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`,
            `num_inserted_rows`.

        Raises:
            MultipleMatchesError: several source rows match one target row, and a clause changes it.
            PredicateError, ArgumentError, SchemaError: clauses, conditions or values that can't be.
            ConstraintViolationError: a new row breaks a rule, or the table is append-only.
            CommitConflictError: another writer's commit won and doesn't go with this one.
        """
        request, spark = self._request, self._target.spark
        if str(spark.conf.get(_AUTO_MERGE, "false")).lower() == "true":
            request = replace(request, schema_evolution=True)
        return merge_frame(spark, run_merge(self._target, self._source, request))

    def _with(
        self,
        kind: ClauseKind,
        action: ClauseAction,
        condition: Any,
        values: dict[str, RowExpression] | None,
    ) -> DeltaMergeBuilder:
        clause = RequestedClause(
            kind=kind,
            action=action,
            condition=condition_of(self._target.spark, condition),
            values=values,
        )
        return self._changed(self._request.with_clause(clause))

    def _changed(self, request: MergeRequest) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._target, self._source, request)
