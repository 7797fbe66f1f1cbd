"""MERGE as a Spark plan: Spark joins source and target, and selects a WHEN clause for each row.

Used for sources that are too large to broadcast, and for conditions and values that only Spark can
evaluate.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.kernel import Snapshot
from bayou.kernel.commands.merge import ClauseKind, MergeDefinition, MergeMetrics
from bayou.kernel.commands.merge.plan import MergePlan
from bayou.kernel.commands.merge.transaction import MergeTransaction, check_merge
from bayou.kernel.commands.row_changes.matched_rows import MatchedRowsTask
from bayou.protocol.schema import VARIANT, DataType, MapType, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark.commands.merge_bounds import SourceBounds, TargetRowPredicates, spark_filter
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.commands.rows_by_spark import (
    ACTION,
    FILE,
    NEW_ROWS,
    POSITION,
    SOURCE_ROWS,
    RowAction,
    apply_rows,
    check_version_read,
    located_rows,
    run_at_version_read,
    user_columns,
)
from bayou.spark.commands.source_rows import checkpoint_small_source, number_of_parts
from bayou.spark.executors.executor_tasks import number_of_tasks
from bayou.spark.expressions.assigned_columns import assigned_columns, cast_to
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.row_expressions import check_row_expression
from bayou.spark.expressions.store_assignment import (
    assignment_cast,
    check_assignment,
    row_operation_policy,
)
from bayou.spark.expressions.struct_by_name import assign_by_name
from bayou.spark.jvm.expressions import bound_to
from bayou.spark.jvm.plans import are_columns_deterministic, is_deterministic
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.target_view import INTERNAL
from bayou.spark.types import contains_type, from_spark
from bayou.spark.write.self_reads import rows_read

_CHECKPOINT_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_AMBIGUOUS = "AMBIGUOUS_REFERENCE"
_MAX_ATTEMPTS = 4
"""Maximum number of attempts of a MERGE.

A MERGE is retried if an executor dies and rows stored with `DataFrame.localCheckpoint` are lost.
"""
_PRESENT = f"{INTERNAL}source"
_VALUE = f"{INTERNAL}value_"


def merge_by_spark(
    target: TargetTable, snapshot: Snapshot, source: Any, request: MergeRequest, started: float
) -> MergeMetrics:
    """Merge a DataFrame's rows into a table, and commit.

    Args:
        snapshot: the version to merge into. If the source or a subquery reads another version of
            the table, the rows are merged into that version instead (see `snapshot_read`).
        started: start of the MERGE, from `time.perf_counter`.
    """
    return run_at_version_read(
        snapshot, lambda base: _merge_retrying(target, base, source, request, started)
    )


def _merge_retrying(
    target: TargetTable, snapshot: Snapshot, source: Any, request: MergeRequest, started: float
) -> MergeMetrics:
    deterministic = is_deterministic(source)
    for attempt in range(_MAX_ATTEMPTS):
        # If an executor dies, its checkpointed rows are lost, and the source is computed again.
        last = attempt == _MAX_ATTEMPTS - 1
        try:
            return _merge(
                target,
                snapshot,
                source,
                request,
                started=started,
                checkpoint_small=not (last and deterministic),
                checkpoint_large=not deterministic,
            )
        except Exception as error:
            if last or _CHECKPOINT_LOST not in str(error):
                raise
    raise AssertionError  # the last attempt has returned or raised


def merge_deterministic_source(
    target: TargetTable,
    snapshot: Snapshot,
    source: Any,
    definition: MergeDefinition,
    *,
    engine_info: str,
    transaction_ids: Mapping[str, int],
    table_properties: Mapping[str, str],
    user_metadata: str | None = None,
    counter: str | None = None,
) -> MergeMetrics:
    """Merge a deterministic source of any size, and commit; the driver collects no rows.

    Args:
        target: a table in a classic session.
        source: a DataFrame that has the same rows each time Spark computes it.
        definition: the MERGE, with conditions and values as SQL strings.
        transaction_ids: versions of the transaction identifiers that the commit sets, by
            application id.
        counter: application id of another transaction identifier. The commit increases the version
            of this identifier by 1.
    """
    started = time.perf_counter()
    return run_at_version_read(
        snapshot,
        lambda base: _merge(
            target,
            base,
            source,
            MergeRequest.of(definition),
            started=started,
            checkpoint_small=False,
            checkpoint_large=False,
            engine_info=engine_info,
            transaction_ids=transaction_ids,
            table_properties=table_properties,
            user_metadata=user_metadata,
            counter=counter,
        ),
    )


def _merge(
    target: TargetTable,
    snapshot: Snapshot,
    source: Any,
    request: MergeRequest,
    *,
    started: float,
    checkpoint_small: bool,
    checkpoint_large: bool,
    engine_info: str = SPARK_ENGINE_INFO,
    transaction_ids: Mapping[str, int] | None = None,
    table_properties: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    counter: str | None = None,
) -> MergeMetrics:
    """Merge a DataFrame's rows, and commit.

    Args:
        checkpoint_small: whether to store a small source with `DataFrame.localCheckpoint`. The join
            keys of the stored rows are used to skip files.
        checkpoint_large: whether to store a large source with `DataFrame.localCheckpoint`. This is
            necessary if the source isn't deterministic, because Spark can compute the source
            several times.
    """
    columns = from_spark(source.schema, table="the source of the merge")
    merge_plan = check_merge(snapshot, columns, request.definition.without_expressions())
    merge = MergeTransaction(
        target.engine,
        snapshot,
        merge_plan,
        request.definition,
        engine_info=engine_info,
        user_metadata=user_metadata or target.user_metadata,
        started=started,
        transaction_ids={**(transaction_ids or {}), **target.transaction_ids},
        table_properties=table_properties,
        counter=counter,
        time_zone=target.time_zone,
    )
    task = MatchedRowsTask(
        state=merge.state,
        assigned=merge_plan.updated_columns,
        always_assigned=merge_plan.always_updated,
    )
    hidden = {} if target.view is None else target.view.hidden_columns(snapshot.schema.names)
    plan = _Plan(merge_plan, request, snapshot, columns, hidden)
    rows = located_rows(target, snapshot)
    plan.check_expressions(rows, source)
    if target.view is not None:
        target.view.check_merge(snapshot)
    plan.joined(rows, source)  # raises analysis errors before any job runs
    merged_rows = TargetRowPredicates(target, snapshot, merge_plan.names, request)
    requested_source = source
    small = checkpoint_small_source(target.spark, source) if checkpoint_small else None
    by_names = target.view is None or target.view.keeps_names
    bounds = None
    if small is None:
        source = source.localCheckpoint() if checkpoint_large else source
        if by_names and plan.reads_whole_source:
            bounds = SourceBounds(columns, merged_rows.bounded_columns)
    predicate = merged_rows.from_keys(small) if by_names else None
    read = spark_filter(predicate)
    joined = plan.joined(
        rows if read is None else rows.where(read),
        source if small is None else small,
        [] if bounds is None else bounds.aggregates(),
    )
    list_files = merge.files if bounds is None else merge.unrecorded_files
    with list_files(target.engine, predicate) as candidate_files:
        files = list(candidate_files)
    tasks = number_of_tasks(target.spark)
    changed = plan.rows(joined, number_of_parts(source if small is None else small, tasks))
    reading_frames = (requested_source, changed)  # a checkpointed source doesn't show what it reads
    check_version_read(target, snapshot, *reading_frames)
    for frame in reading_frames:
        for rows_predicate in rows_read(frame, snapshot):
            merge.record_read(target.engine, rows_predicate)
    applied = apply_rows(
        target,
        changed,
        files,
        task,
        plan.actions,
        allow_duplicates=merge_plan.may_match_several,
    )
    observed = applied.observed
    if bounds is not None:
        if observed is not None:
            predicate = merged_rows.from_bounds(bounds.rows(observed[1:]))
        merge.record_read(target.engine, predicate)
    source_rows = None if observed is None else int(observed[0])
    counts = [(c, applied.action_counts[n]) for n, c in enumerate(merge_plan.clauses)]
    return merge.commit(target.engine, applied.changes, counts, source_rows=source_rows)


class _Plan:
    """Builds the DataFrames of a merge: the join of target and source, and the changed rows."""

    def __init__(
        self,
        merge: MergePlan,
        request: MergeRequest,
        table: Snapshot,
        source: StructType,
        hidden: Mapping[str, str],
    ) -> None:
        """Create a plan.

        Args:
            hidden: maps names of the table's columns to their names in the DataFrame of target
                rows, where the two names differ (see `TargetView.hidden_columns`).
        """
        self._merge = merge
        self._request = request
        self._target_schema = table.schema
        self._partitions = table.partition_columns
        self._table = table.path
        self._source = source
        self._hidden = hidden
        self._alias = request.definition.target_alias
        self._joined: Any = None
        self._sides: Mapping[str, Any] = {}
        self.actions = [
            RowAction(kind=clause.action, columns=merge.columns_set_by(clause))
            for clause in merge.clauses
        ]

    def check_expressions(self, target: Any, source: Any) -> None:
        """Raise `PredicateError` if a condition or value isn't allowed in a MERGE.

        A condition or value must be computable from one target row and one source row. For example,
        aggregate functions aren't allowed. A condition must also be deterministic.
        """
        if self._request.source_alias is not None:
            source = source.alias(self._request.source_alias)
        target = user_columns(target.alias(self._alias))
        pairs = target.crossJoin(source)
        # The filter separates the aggregates of the source itself from those of an expression.
        sides = {"NOT MATCHED": source.where("true"), "NOT MATCHED BY SOURCE": target}
        conditions: list[tuple[str, RowExpression]] = [("search", self._request.on)]
        conditions += [
            (c.kind, c.condition) for c in self._request.clauses if c.condition is not None
        ]
        for name, condition in conditions:
            check_row_expression(
                sides.get(name, pairs),
                condition,
                table=self._table,
                what=f"{name} condition of the MERGE",
                aggregate_condition="DELTA_AGGREGATION_NOT_SUPPORTED",
                random_condition="DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
            )
        for clause in self._request.clauses:
            for value in (clause.values or {}).values():
                if not value.is_default:
                    check_row_expression(
                        sides.get(clause.kind, pairs),
                        value,
                        table=self._table,
                        what=f"value of the WHEN {clause.kind} clause",
                        random_condition=None,
                    )

    @property
    def reads_whole_source(self) -> bool:
        """Whether the join reads all source rows: true if the merge has a NOT MATCHED clause."""
        return any(clause.kind == "NOT MATCHED" for clause in self._request.clauses)

    def joined(self, target: Any, source: Any, observed: Sequence[Any] = ()) -> Any:
        """Join target and source.

        Source rows without a match are omitted if the merge has no NOT MATCHED clause. Target rows
        without a match are omitted if it has no NOT MATCHED BY SOURCE clause. Matched rows are
        omitted if the merge has only NOT MATCHED clauses.

        Args:
            observed: aggregates over the source, which Spark computes during the join.
        """
        # Copies of all columns get unique names, because the user's names may be ambiguous.
        renamed = [
            F.col(quote_identifier(name)).alias(f"{_VALUE}{number}")
            for number, name in enumerate(self._source.names)
        ]
        counted = source.observe(SOURCE_ROWS, F.count(F.lit(1)).alias("rows"), *observed)
        marked = counted.select("*", *renamed, F.lit(True).alias(_PRESENT))
        if self._request.source_alias is not None:
            marked = marked.alias(self._request.source_alias)
        target = target.alias(self._alias)
        self._sides = {"NOT MATCHED": marked, "NOT MATCHED BY SOURCE": target}
        if self._merge.only_inserts:
            return marked.join(target, self._request.on.column, "left_anti")
        kinds = {clause.kind for clause in self._request.clauses}
        by_source = "NOT MATCHED BY SOURCE" in kinds
        if by_source:
            how = "full" if "NOT MATCHED" in kinds else "left"
        elif "NOT MATCHED" in kinds:
            how = "right"
        else:
            how = "inner"
        return target.join(marked, self._request.on.column, how)

    def rows(self, joined: Any, parts: int) -> Any:
        """Return the rows to change or insert, each with the index of its clause and new values.

        The result has the columns that `apply_rows` requires. New rows are distributed over at most
        `parts` tasks. If the clauses assign all partition columns, all new rows of a table
        partition are in the same task.
        """
        self._joined = joined
        new = F.concat(F.lit(NEW_ROWS), F.pmod(self._row_hash(), F.lit(parts)).cast("string"))
        if self._merge.only_inserts:
            actions = joined.withColumn(ACTION, self._first_clause("NOT MATCHED"))
            return actions.where(F.col(ACTION) >= 0).select(
                new.alias(FILE), F.lit(-1).cast("bigint").alias(POSITION), ACTION, *self._columns()
            )
        file = F.col(f"{quote_identifier(self._alias)}.{FILE}")
        position = F.col(f"{quote_identifier(self._alias)}.{POSITION}")
        matched = file.isNotNull() & F.col(_PRESENT).isNotNull()
        action = (
            F.when(matched, self._first_clause("MATCHED"))
            .when(file.isNull(), self._first_clause("NOT MATCHED"))
            .otherwise(self._first_clause("NOT MATCHED BY SOURCE"))
        )
        actions = joined.withColumn(ACTION, action)
        if self._merge.may_match_several:
            actions = actions.where(F.col(ACTION) >= 0)
        else:
            actions = actions.where((F.col(ACTION) >= 0) | matched)
        return actions.select(
            F.coalesce(file, new).alias(FILE),
            F.coalesce(position, F.lit(-1)).alias(POSITION),
            F.col(ACTION),
            *self._columns(),
        )

    def _row_hash(self) -> Any:
        """Return a deterministic hash of a new row. The hash selects the task that writes the row.

        If an executor dies, Spark computes some rows again. If the hash weren't deterministic,
        these rows could go to other tasks than before, and be lost or written twice.
        """
        if self._partitions and self._assigned_names.issuperset(self._partitions):
            values = [self._value(name) for name in self._partitions]
            if are_columns_deterministic(self._joined.withColumn(ACTION, F.lit(0)).select(*values)):
                return F.hash(*values)
        columns = [
            F.col(f"{_VALUE}{number}")
            for number, field in enumerate(self._source)
            if _has_hash(field.data_type)
        ]
        return F.hash(*columns) if columns else F.lit(0)

    def _columns(self) -> list[Any]:
        """Return the new value of each column that at least one clause assigns."""
        return [
            self._value(field.name).alias(field.name)
            for field in self._merge.schema
            if field.name in self._assigned_names
        ]

    @functools.cached_property
    def _assigned_names(self) -> frozenset[str]:
        return frozenset(name for action in self.actions for name in action.columns)

    def _first_clause(self, kind: ClauseKind) -> Any:
        """Return, for each row, the index of the clause of type `kind` that applies; -1 if none."""
        numbers = [n for n, c in enumerate(self._request.clauses) if c.kind == kind]
        cases: Any = F
        for number in numbers:
            condition = self._request.clauses[number].condition
            applies = F.lit(True) if condition is None else self._resolved(kind, condition).column
            cases = cases.when(applies, F.lit(number))
        return F.lit(-1) if cases is F else cases.otherwise(F.lit(-1))

    def _value(self, name: str) -> Any:
        field = self._merge.schema.get(name)
        assert field is not None  # the name is from this schema
        cases: Any = F
        for number, values in enumerate(self._values):
            if name in values:
                cases = cases.when(F.col(ACTION) == number, values[name])
        before = self._old_value(name)
        if before is None:
            return cases.otherwise(cast_to(field, F.lit(None)))
        return cases.otherwise(assign_by_name(field.data_type, *before, before))

    def _old_value(self, name: str) -> tuple[Any, DataType] | None:
        """Return the value of a column in the target row, and the value's type.

        Returns None if the target doesn't have the column, or if the merge only inserts rows.
        """
        existing = self._target_schema.get(name)
        if existing is None or self._merge.only_inserts:
            return None
        shown = self._hidden.get(existing.name, existing.name)
        column = F.col(f"{quote_identifier(self._alias)}.{quote_identifier(shown)}")
        return column, existing.data_type

    @functools.cached_property
    def _values(self) -> Sequence[Mapping[str, Any]]:
        return list(self._clause_values())

    def _clause_values(self) -> Iterator[Mapping[str, Any]]:
        evolves = self._request.schema_evolution
        for clause, planned in zip(self._request.clauses, self._merge.clauses, strict=True):
            if clause.values is None:
                names, keeps = self._merge.columns_set_by(planned), clause.action == "update"
                yield {n: self._from_source(n, keeps_fields=evolves and keeps) for n in names}
                continue
            values = [
                self._resolved(clause.kind, value)
                for value in clause.values.values()
                if not (clause.action == "insert" and value.is_default)
            ]
            yield assigned_columns(
                self._merge.schema,
                self._target_schema,
                zip(planned.paths, values, strict=True),
                self._alias,
                table=self._table,
                rows=self._joined,
                schema_evolution=evolves,
                hidden=self._hidden,
            )

    def _resolved(self, kind: ClauseKind, expression: RowExpression) -> RowExpression:
        """Resolve ambiguous column names in an expression of a clause.

        A name is ambiguous if both the target and the source have a column of this name. In a NOT
        MATCHED clause, the name refers to the source. In a NOT MATCHED BY SOURCE clause, the name
        refers to the target.
        """
        side = self._sides.get(kind)
        if side is None or expression.is_default:
            return expression
        try:
            self._joined.select(expression.column)
        except AnalysisException as error:
            if error.getCondition() != _AMBIGUOUS:
                raise
            return replace(expression, user_column=bound_to(side, expression.column))
        return expression

    def _from_source(self, name: str, *, keeps_fields: bool) -> Any:
        field, source_field = self._merge.schema.get(name), self._source.get(name)
        assert field is not None  # `MergePlan` has checked that both exist
        assert source_field is not None
        value = F.col(f"{_VALUE}{self._source.names.index(source_field.name)}")
        before = self._old_value(name) if keeps_fields else None
        policy, source = row_operation_policy(self._joined.sparkSession), source_field.data_type
        check_assignment(policy, source, field.data_type, column=field.name, table=self._table)
        return assign_by_name(field.data_type, value, source, before, assignment_cast(policy))


def _has_hash(data_type: DataType) -> bool:
    """Whether Spark can hash a type's values; false if the type is or contains a map or variant."""
    return not contains_type(data_type, lambda t: isinstance(t, MapType) or t == VARIANT)
