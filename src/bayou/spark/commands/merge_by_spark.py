"""MERGE as a plan of Spark: a join, and for each row of it the clause that takes it.

For sources that are too large to be sent around, and for conditions and values that only Spark can
evaluate.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.errors import PredicateError
from bayou.kernel import Snapshot
from bayou.kernel.commands.merge import ClauseKind, MergeDefinition, MergeMetrics
from bayou.kernel.commands.merge.external_join_merge import JoinedMerge
from bayou.kernel.commands.merge.struct_by_name import Place, check_assignable
from bayou.kernel.commands.row_changes.matched_rows import FoundRowsWork
from bayou.protocol.schema import VARIANT, ArrayType, DataType, MapType, StructType
from bayou.spark.commands.merge_bounds import MergedRows, SourceBounds, spark_filter
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.commands.rows_by_spark import (
    ACTION,
    FILE,
    NEW_ROWS,
    POSITION,
    SOURCE_ROWS,
    RowAction,
    apply_rows,
    located_rows,
)
from bayou.spark.commands.source_rows import is_steady, materialized, parts_of
from bayou.spark.executors.executor_tasks import number_of_tasks
from bayou.spark.expressions.assigned_columns import (
    assigned_columns,
    assigned_names,
    cast_to,
    quoted,
)
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.kernel_eligibility import resolved_in
from bayou.spark.expressions.struct_by_name import put_into
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.types import from_spark

__all__ = ["merge_by_spark", "merge_kept_rows"]

_KEPT_ROWS_ARE_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_AMBIGUOUS = "AMBIGUOUS_REFERENCE"
_ATTEMPTS = 4
"""How often a source's rows are kept at most; executors die now and then."""
_PRESENT = "__bayou_source"
_VALUE = "__bayou_value_"


def merge_by_spark(
    target: TargetTable, snapshot: Snapshot, source: Any, request: MergeRequest, started: float
) -> MergeMetrics:
    """Merge a DataFrame's rows into a version of a table, and commit.

    Raises:
        MultipleMatchesError: several source rows match one row that a clause may change.
        PredicateError: a condition that isn't deterministic.
        Exception: as Spark throws it, where it doesn't understand an expression or can't run it.
    """
    steady = is_steady(source)
    for attempt in range(_ATTEMPTS):
        # Where an executor dies, and with it rows that were kept, they are computed anew.
        last = attempt == _ATTEMPTS - 1
        try:
            return _merged(
                target,
                snapshot,
                source,
                request,
                started=started,
                known=not (last and steady),
                kept=not steady,
            )
        except Exception as error:
            if last or _KEPT_ROWS_ARE_LOST not in str(error):
                raise
    raise AssertionError  # the last attempt has returned or raised


def merge_kept_rows(
    target: TargetTable,
    snapshot: Snapshot,
    source: Any,
    definition: MergeDefinition,
    *,
    engine_info: str,
    transaction_ids: Mapping[str, int],
    table_properties: Mapping[str, str],
    user_metadata: str | None = None,
) -> MergeMetrics:
    """Merge rows of any number, which stay as they are, and commit; none passes this process.

    Args:
        target: in a classic session.
        source: a DataFrame, best of rows that are kept somewhere.
        definition: its conditions and values are texts.
        transaction_ids, table_properties, user_metadata: see `bayou.kernel.commands.merge.merge`.

    Raises:
        BayouError: as `merge_by_spark`.
        Exception: as Spark throws it.
    """
    return _merged(
        target,
        snapshot,
        source,
        MergeRequest.of(definition),
        started=time.perf_counter(),
        known=False,
        kept=False,
        engine_info=engine_info,
        transaction_ids=transaction_ids,
        table_properties=table_properties,
        user_metadata=user_metadata,
    )


def _merged(
    target: TargetTable,
    snapshot: Snapshot,
    source: Any,
    request: MergeRequest,
    *,
    started: float,
    known: bool,
    kept: bool,
    engine_info: str = SPARK_ENGINE_INFO,
    transaction_ids: Mapping[str, int] | None = None,
    table_properties: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
) -> MergeMetrics:
    """See `merge_by_spark`.

    Args:
        known: a small source's rows are kept, and looked at.
        kept: so are a large one's, which might be others when a task runs again.
    """
    columns = from_spark(source.schema, table="the source of the merge")
    alias = request.target_alias or "target"
    merge = JoinedMerge(
        target.engine,
        snapshot,
        columns,
        request.definition,
        [
            None if clause.values is None else assigned_names(snapshot.schema, clause.values, alias)
            for clause in request.clauses
        ],
        engine_info=engine_info,
        user_metadata=user_metadata or target.user_metadata,
        started=started,
        application=target.application,
        transaction_ids=transaction_ids,
        table_properties=table_properties,
    )
    work = FoundRowsWork(state=merge.state, assigned=merge.updated_columns)
    plan = _Plan(merge, request, snapshot, columns)
    rows = located_rows(target, snapshot)
    plan.check_conditions(rows, source)  # errors come before any work
    plan.joined(rows, source)
    matter = MergedRows(target, snapshot, columns, request)
    small = materialized(target.spark, source) if known else None
    bounds = None
    if small is None:
        source = source.localCheckpoint() if kept else source
        if plan.reads_whole_source:
            bounds = SourceBounds(columns, matter.bounded_columns)
    predicate = matter.by_rows(small)
    read = spark_filter(predicate)
    joined = plan.joined(
        rows if read is None else rows.where(read),
        source if small is None else small,
        [] if bounds is None else bounds.aggregates(),
    )
    listed = merge.files if bounds is None else merge.unrecorded_files
    with listed(target.engine, predicate) as found:
        files = list(found)
    tasks = number_of_tasks(target.spark)
    applied = apply_rows(
        target,
        plan.rows(joined, parts_of(source if small is None else small, tasks)),
        files,
        work,
        plan.actions,
        several=merge.may_match_several,
    )
    observed = applied.observed
    if bounds is not None:
        if observed is not None:
            predicate = matter.by_bounds(bounds.rows(observed[1:]))
        merge.record_read(target.engine, predicate)
    source_rows = None if observed is None else int(observed[0])
    return merge.commit(target.engine, applied.changes, applied.taken, source_rows)


class _Plan:
    def __init__(
        self, merge: JoinedMerge, request: MergeRequest, table: Snapshot, source: StructType
    ) -> None:
        self._merge = merge
        self._request = request
        self._known = table.schema
        self._partitions = table.partition_columns
        self._table = table.path
        self._source = source
        self._alias = request.target_alias or "target"
        self._joined: Any = None
        self._sides: Mapping[str, Any] = {}
        self.actions = [
            RowAction(kind=clause.action, columns=tuple(columns))
            for clause, columns in zip(request.clauses, merge.columns, strict=True)
        ]

    def check_conditions(self, target: Any, source: Any) -> None:
        """Refuse conditions that may hold once and not again for the same rows.

        Raises:
            PredicateError: there is one.
        """
        if self._request.source_alias is not None:
            source = source.alias(self._request.source_alias)
        target = target.alias(self._alias)
        pairs = target.crossJoin(source)
        sides = {"NOT MATCHED": source, "NOT MATCHED BY SOURCE": target}
        given: list[tuple[str, RowExpression]] = [("search", self._request.on)]
        given += [(c.kind, c.condition) for c in self._request.clauses if c.condition is not None]
        for name, condition in given:
            rows = sides.get(name, pairs).select(condition.column)
            expressions = rows._jdf.queryExecution().analyzed().expressions()  # noqa: SLF001
            if not expressions.apply(0).deterministic():
                raise PredicateError(
                    f"The {name} condition of a MERGE into {self._table}, {condition.shown}, isn't "
                    "deterministic: it may hold once and not again for the same rows. Compute it "
                    "as a column of the source (DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED).",
                    expression=condition.shown,
                )

    @property
    def reads_whole_source(self) -> bool:
        """The join has each row of the source in it, or has at least looked for its matches."""
        return any(clause.kind == "NOT MATCHED" for clause in self._request.clauses)

    def joined(self, target: Any, source: Any, observed: Sequence[Any] = ()) -> Any:
        """Rows of both sides, those that no clause is about left out where the join can.

        Args:
            observed: aggregates of the source, computed on the way behind its number of rows.
        """
        # All columns under names of ours, too: what users call them may be ambiguous.
        ours = [
            F.col(quoted(name)).alias(f"{_VALUE}{number}")
            for number, name in enumerate(self._source.names)
        ]
        counted = source.observe(SOURCE_ROWS, F.count(F.lit(1)).alias("rows"), *observed)
        given = counted.select("*", *ours, F.lit(True).alias(_PRESENT))
        if self._request.source_alias is not None:
            given = given.alias(self._request.source_alias)
        target = target.alias(self._alias)
        self._sides = {"NOT MATCHED": given, "NOT MATCHED BY SOURCE": target}
        if self._merge.only_inserts:
            return given.join(target, self._request.on.column, "left_anti")
        kinds = {clause.kind for clause in self._request.clauses}
        by_source = "NOT MATCHED BY SOURCE" in kinds
        if by_source:
            how = "full" if "NOT MATCHED" in kinds else "left"
        elif "NOT MATCHED" in kinds:
            how = "right"
        else:
            how = "inner"
        return target.join(given, self._request.on.column, how)

    def rows(self, joined: Any, parts: int) -> Any:
        """Joined rows as `apply_rows` takes them.

        Args:
            parts: over how many tasks new rows are spread at most; those of a partition of the
                table go to one.
        """
        self._joined = joined
        new = F.concat(F.lit(NEW_ROWS), F.pmod(self._place(), F.lit(parts)).cast("string"))
        if self._merge.only_inserts:
            chosen = joined.withColumn(ACTION, self._first("NOT MATCHED"))
            return chosen.where(F.col(ACTION) >= 0).select(
                new.alias(FILE), F.lit(-1).cast("bigint").alias(POSITION), ACTION, *self._columns()
            )
        file = F.col(f"{quoted(self._alias)}.{FILE}")
        position = F.col(f"{quoted(self._alias)}.{POSITION}")
        matched = file.isNotNull() & F.col(_PRESENT).isNotNull()
        action = (
            F.when(matched, self._first("MATCHED"))
            .when(file.isNull(), self._first("NOT MATCHED"))
            .otherwise(self._first("NOT MATCHED BY SOURCE"))
        )
        chosen = joined.withColumn(ACTION, action)
        if self._merge.may_match_several:
            chosen = chosen.where(F.col(ACTION) >= 0)
        else:
            chosen = chosen.where((F.col(ACTION) >= 0) | matched)
        return chosen.select(
            F.coalesce(file, new).alias(FILE),
            F.coalesce(position, F.lit(-1)).alias(POSITION),
            F.col(ACTION),
            *self._columns(),
        )

    def _place(self) -> Any:
        """A number by which new rows are spread.

        The same whenever the row is computed: of a task that runs again some rows may be where they
        go already.
        """
        set_by_clauses = {name for columns in self._merge.columns for name in columns}
        if self._partitions and set_by_clauses.issuperset(self._partitions):
            return F.hash(*map(self._value, self._partitions))
        columns = [
            F.col(f"{_VALUE}{number}")
            for number, field in enumerate(self._source)
            if _has_hash(field.data_type)
        ]
        return F.hash(*columns) if columns else F.lit(0)

    def _columns(self) -> list[Any]:
        """New values of all columns that any clause sets."""
        return [
            self._value(field.name).alias(field.name)
            for field in self._merge.schema
            if any(field.name in columns for columns in self._merge.columns)
        ]

    def _first(self, kind: ClauseKind) -> Any:
        """The number of the first clause of a kind that takes the row, -1 for none."""
        numbers = [n for n, c in enumerate(self._request.clauses) if c.kind == kind]
        cases: Any = F
        for number in numbers:
            condition = self._request.clauses[number].condition
            holds = F.lit(True) if condition is None else self._own(kind, condition).column
            cases = cases.when(holds, F.lit(number))
        return F.lit(-1) if cases is F else cases.otherwise(F.lit(-1))

    def _value(self, name: str) -> Any:
        """What a column of the table becomes, by the clause that takes the row."""
        field = self._merge.schema.get(name)
        assert field is not None  # it is one of that schema
        cases: Any = F
        for number, values in enumerate(self._values):
            if name in values:
                cases = cases.when(F.col(ACTION) == number, values[name])
        before = self._before(name)
        if before is None:
            return cases.otherwise(cast_to(field, F.lit(None)))
        return cases.otherwise(put_into(field.data_type, *before, before))

    def _before(self, name: str) -> tuple[Any, DataType] | None:
        """What rows of the table have in a column, None where they have no such column."""
        known = self._known.get(name)
        if known is None or self._merge.only_inserts:
            return None
        return F.col(f"{quoted(self._alias)}.{quoted(known.name)}"), known.data_type

    @functools.cached_property
    def _values(self) -> Sequence[Mapping[str, Any]]:
        return list(self._of_clauses())

    def _of_clauses(self) -> Iterator[Mapping[str, Any]]:
        for clause, columns in zip(self._request.clauses, self._merge.columns, strict=True):
            if clause.values is not None:
                own = {name: self._own(clause.kind, value) for name, value in clause.values.items()}
                yield self._assigned(own)
                continue
            keeps = self._request.schema_evolution and clause.action == "update"
            yield {name: self._from_source(name, keeps_fields=keeps) for name in columns}

    def _own(self, kind: ClauseKind, expression: RowExpression) -> RowExpression:
        """An expression of a clause: where a row has no match, names are those of its own side."""
        side = self._sides.get(kind)
        if side is None or expression.is_default:
            return expression
        try:
            self._joined.select(expression.column)
        except AnalysisException as error:
            if error.getCondition() != _AMBIGUOUS:
                raise
            return replace(expression, given=resolved_in(side, expression.column))
        return expression

    def _assigned(self, values: Mapping[str, RowExpression]) -> Mapping[str, Any]:
        return assigned_columns(
            self._merge.schema,
            self._known,
            values,
            self._alias,
            table=self._table,
            rows=self._joined,
            growing=self._request.schema_evolution,
        )

    def _from_source(self, name: str, *, keeps_fields: bool) -> Any:
        field, brought = self._merge.schema.get(name), self._source.get(name)
        assert field is not None  # the merge has checked it
        assert brought is not None  # and this
        place = Place(self._table, field.name, field.data_type)
        check_assignable(place, brought.data_type, growing=self._request.schema_evolution)
        value = F.col(f"{_VALUE}{self._source.names.index(brought.name)}")
        before = self._before(name) if keeps_fields else None
        return put_into(field.data_type, value, brought.data_type, before)


def _has_hash(data_type: DataType) -> bool:
    """Whether Spark hashes values of a type: not where maps or variants are in it."""
    match data_type:
        case StructType(fields):
            return all(_has_hash(field.data_type) for field in fields)
        case ArrayType(element_type=element):
            return _has_hash(element)
        case MapType():
            return False
        case _:
            return data_type != VARIANT
