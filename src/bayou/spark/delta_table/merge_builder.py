"""`DeltaMergeBuilder`: the builder of `DeltaTable.merge`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayou.kernel.commands.merge import ClauseAction, ClauseKind
from bayou.spark.commands.merge import run_merge
from bayou.spark.commands.merge_request import MergeRequest, RequestedClause
from bayou.spark.delta_table.result_dataframes import merge_frame
from bayou.spark.exceptions import methods_raise_spark_exceptions
from bayou.spark.expressions.expressions import RowExpression, parse_condition, parse_values
from bayou.spark.hooks.hooks import subquery_resolver
from bayou.spark.session.settings import conf_flag
from bayou.spark.target_table import TargetTable

_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"


@methods_raise_spark_exceptions
class DeltaMergeBuilder:
    """Builder of a MERGE; each method except `execute` returns a new builder.

    Each row is matched, not matched, or not matched by source. For a row, the clauses of its kind
    are tested in order. The first clause whose condition is true is applied to the row. Conditions
    and values are SQL strings or Columns. Their column names can be qualified by the alias of the
    target or of the source.
    """

    def __init__(self, target: TargetTable, source: Any, request: MergeRequest) -> None:
        self._target = target
        self._source = source
        self._request = request

    def whenMatchedUpdate(  # noqa: N802  # delta-spark's names, here and below
        self, condition: Any = None, set: Any = None
    ) -> DeltaMergeBuilder:
        """Update the target rows that match a source row.

        Args:
            condition: additional condition for the update. If None, all matched rows are updated.
            set: maps names of target columns to their new values; other columns stay unchanged.
        """
        values = parse_values(self._target.spark, set, "set", "whenMatchedUpdate")
        return self._with("MATCHED", "update", condition, values)

    def whenMatchedUpdateAll(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Update all columns of matching target rows from the source columns of the same names."""
        return self._with("MATCHED", "update", condition, None)

    def whenMatchedDelete(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Delete target rows that match a source row."""
        return self._with("MATCHED", "delete", condition, None)

    def whenNotMatchedInsert(  # noqa: N802
        self, condition: Any = None, values: Any = None
    ) -> DeltaMergeBuilder:
        """Insert source rows that match no target row.

        Args:
            condition: additional condition for the insert. If None, all rows without a match are
                inserted.
            values: maps names of target columns to their values; other columns get their default,
                or NULL.
        """
        expressions = parse_values(self._target.spark, values, "values", "whenNotMatchedInsert")
        return self._with("NOT MATCHED", "insert", condition, expressions)

    def whenNotMatchedInsertAll(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Insert source rows that match no target row; columns are assigned by name."""
        return self._with("NOT MATCHED", "insert", condition, None)

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self, condition: Any = None, set: Any = None
    ) -> DeltaMergeBuilder:
        """Update target rows that match no source row; values can use only target columns."""
        values = parse_values(self._target.spark, set, "set", "whenNotMatchedBySourceUpdate")
        return self._with("NOT MATCHED BY SOURCE", "update", condition, values)

    def whenNotMatchedBySourceDelete(self, condition: Any = None) -> DeltaMergeBuilder:  # noqa: N802
        """Delete target rows that match no source row."""
        return self._with("NOT MATCHED BY SOURCE", "delete", condition, None)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:  # noqa: N802
        """Add source columns and fields to the table's schema if a clause writes them."""
        return self._with_request(replace(self._request, schema_evolution=True))

    def execute(self) -> Any:
        """Run the merge in one commit. Nothing is committed if no row changes.

        Returns:
            A DataFrame of one row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`,
            `num_inserted_rows`.

        Raises:
            MultipleMatchesError: several source rows match one target row that a clause changes.
            PredicateError, ArgumentError, SchemaError: a clause, condition or value isn't valid.
            ConstraintViolationError: a new row violates a constraint, or the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.
        """
        request, spark = self._request, self._target.spark
        if conf_flag(spark, _AUTO_MERGE):
            request = replace(request, schema_evolution=True)
        with subquery_resolver(spark) as resolve:
            request = request.with_expressions(resolve)
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
            condition=parse_condition(self._target.spark, condition),
            values=values,
        )
        return self._with_request(self._request.with_clause(clause))

    def _with_request(self, request: MergeRequest) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._target, self._source, request)
