"""MERGE as a plan of Spark: a join, and for each row of it the clause that takes it.

For sources that are too large to be sent around, and for conditions and values that only Spark can
evaluate.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.kernel import Snapshot
from bayou.kernel.operations.found_rows import FoundRowsWork
from bayou.kernel.operations.merge import ClauseKind, MergeMetrics
from bayou.kernel.operations.merge.joined_merge import JoinedMerge
from bayou.protocol.schema import StructType
from bayou.spark.shares import number_of_tasks
from bayou.spark.tables.expressions import RowExpression
from bayou.spark.tables.row_operations.assigned_columns import (
    assigned_columns,
    assigned_names,
    cast_to,
    quoted,
)
from bayou.spark.tables.row_operations.found_by_spark import (
    ACTION,
    FILE,
    NEW_ROWS,
    POSITION,
    RowAction,
    apply_rows,
    located_rows,
)
from bayou.spark.tables.row_operations.merge_request import MergeRequest
from bayou.spark.tables.target import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.types import from_spark

__all__ = ["merge_by_spark"]

_PRESENT = "__bayou_source"
_VALUE = "__bayou_value_"


def merge_by_spark(
    target: TargetTable, snapshot: Snapshot, source: Any, request: MergeRequest, started: float
) -> MergeMetrics:
    """Merge a DataFrame's rows into a version of a table, and commit.

    Raises:
        MultipleMatchesError: several source rows match one row that a clause may change.
        Exception: as Spark throws it, where it doesn't understand an expression or can't run it.
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
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        started=started,
    )
    work = FoundRowsWork(state=merge.state, assigned=merge.updated_columns)
    plan = _Plan(merge, request, snapshot, columns)
    joined = plan.joined(located_rows(target, snapshot), source)
    with merge.files(target.engine) as found:
        files = list(found)
    rows = plan.rows(joined, number_of_tasks(target.spark))
    changes, taken = apply_rows(
        target, rows, files, work, plan.actions, several=merge.may_match_several
    )
    return merge.commit(target.engine, changes, taken)


class _Plan:
    def __init__(
        self, merge: JoinedMerge, request: MergeRequest, table: Snapshot, source: StructType
    ) -> None:
        self._merge = merge
        self._request = request
        self._known = table.schema
        self._table = table.path
        self._source = source
        self._alias = request.target_alias or "target"
        self.actions = [
            RowAction(kind=clause.action, columns=tuple(columns))
            for clause, columns in zip(request.clauses, merge.columns, strict=True)
        ]

    def joined(self, target: Any, source: Any) -> Any:
        """Rows of both sides, those that no clause is about left out where the join can."""
        # All columns under names of ours, too: what users call them may be ambiguous.
        ours = [
            F.col(quoted(name)).alias(f"{_VALUE}{number}")
            for number, name in enumerate(self._source.names)
        ]
        given = source.select("*", *ours, F.lit(True).alias(_PRESENT))
        if self._request.source_alias is not None:
            given = given.alias(self._request.source_alias)
        kinds = {clause.kind for clause in self._request.clauses}
        by_source = "NOT MATCHED BY SOURCE" in kinds
        if by_source:
            how = "full" if "NOT MATCHED" in kinds else "left"
        elif "NOT MATCHED" in kinds:
            how = "right"
        else:
            how = "inner"
        return target.alias(self._alias).join(given, self._request.on.column, how)

    def rows(self, joined: Any, tasks: int) -> Any:
        """Joined rows as `apply_rows` takes them."""
        file = F.col(f"{quoted(self._alias)}.{FILE}")
        position = F.col(f"{quoted(self._alias)}.{POSITION}")
        matched = file.isNotNull() & F.col(_PRESENT).isNotNull()
        action = (
            F.when(matched, self._first("MATCHED"))
            .when(file.isNull(), self._first("NOT MATCHED"))
            .otherwise(self._first("NOT MATCHED BY SOURCE"))
        )
        new = F.concat(
            F.lit(NEW_ROWS), F.pmod(F.monotonically_increasing_id(), F.lit(tasks)).cast("string")
        )
        chosen = joined.withColumn(ACTION, action)
        if self._merge.may_match_several:
            chosen = chosen.where(F.col(ACTION) >= 0)
        else:
            chosen = chosen.where((F.col(ACTION) >= 0) | matched)
        values = [
            self._value(field.name).alias(field.name)
            for field in self._merge.schema
            if any(field.name in columns for columns in self._merge.columns)
        ]
        return chosen.select(
            F.coalesce(file, new).alias(FILE),
            F.coalesce(position, F.lit(-1)).alias(POSITION),
            F.col(ACTION),
            *values,
        )

    def _first(self, kind: ClauseKind) -> Any:
        """The number of the first clause of a kind that takes the row, -1 for none."""
        numbers = [n for n, c in enumerate(self._request.clauses) if c.kind == kind]
        cases: Any = F
        for number in numbers:
            condition = self._request.clauses[number].condition
            holds = F.lit(True) if condition is None else condition.column
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
        if self._known.get(name) is None:
            return cases.otherwise(cast_to(field, F.lit(None)))
        before = F.col(f"{quoted(self._alias)}.{quoted(name)}")
        return cases.otherwise(cast_to(field, before))

    @functools.cached_property
    def _values(self) -> Sequence[Mapping[str, Any]]:
        return list(self._of_clauses())

    def _of_clauses(self) -> Iterator[Mapping[str, Any]]:
        for clause, columns in zip(self._request.clauses, self._merge.columns, strict=True):
            if clause.values is not None:
                yield self._assigned(clause.values)
                continue
            yield {name: self._from_source(name) for name in columns}

    def _assigned(self, values: Mapping[str, RowExpression]) -> Mapping[str, Any]:
        return assigned_columns(self._merge.schema, self._known, values, self._alias, self._table)

    def _from_source(self, name: str) -> Any:
        field = self._merge.schema.get(name)
        assert field is not None  # the merge has checked it
        folded = [known.lower() for known in self._source.names]
        return cast_to(field, F.col(f"{_VALUE}{folded.index(name.lower())}"))
