"""What is known of the rows that a merge may change."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest

from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.merge.clauses import MergeClause
from bayou.kernel.commands.merge.join import Matcher
from bayou.kernel.commands.merge.plan import MergeDefinition, MergePlan
from bayou.kernel.commands.merge.target_rows import may_change, may_match
from bayou.kernel.expressions.evaluation import evaluate
from bayou.kernel.expressions.model import Literal, Predicate

TARGET = pa.schema({"id": pa.int64(), "day": pa.date32(), "x": pa.float64(), "n": pa.int32()})
DAYS = [dt.date(2024, 1, 5), dt.date(2024, 1, 7)]

UPDATE = MergeClause(kind="MATCHED", action="update", assignments={"n": "1"})
INSERT = MergeClause(kind="NOT MATCHED", action="insert", assignments={"id": "source.id"})


def judged(
    source: pa.Table, on: str, *clauses: MergeClause
) -> tuple[Predicate | None, Predicate | None]:
    columns = from_arrow_schema(source.schema)
    definition = MergeDefinition(on=on, clauses=clauses or (UPDATE, INSERT))
    plan = MergePlan.build("t", from_arrow_schema(TARGET), columns, definition)
    rows = source.combine_chunks().to_batches()[0]
    joined = rows.rename_columns([f"source.{n}" for n in rows.schema.names])
    matching = may_match(
        plan.condition, Matcher(plan.condition, plan.names.schema, joined), ["day"]
    )
    return matching, may_change(plan, matching)


def kept(predicate: Predicate | None, **columns: list[Any]) -> list[bool]:
    assert predicate is not None
    schema = pa.schema([TARGET.field(name) for name in columns])
    rows = pa.RecordBatch.from_pydict(columns, schema=schema)
    return evaluate(predicate, rows).to_pylist()


def test_few_keys_are_a_list_and_many_are_bounds() -> None:
    few, _ = judged(pa.table({"id": [3, 9, None, 3]}), "target.id = source.id")
    assert kept(few, id=[3, 4, 9]) == [True, False, True]
    many, _ = judged(pa.table({"id": range(100, 300)}), "source.id = target.id")
    assert kept(many, id=[99, 100, 299, 300]) == [False, True, True, False]


def test_null_safe_keys_without_nulls_are_known_too() -> None:
    found, _ = judged(pa.table({"id": [3, 9]}), "target.id <=> source.id")
    assert kept(found, id=[3, 4, 9]) == [True, False, True]


def test_partition_columns_are_listed_however_many_they_are() -> None:
    days = [dt.date(2024, 1, 1) + dt.timedelta(2 * i) for i in range(200)]
    source = pa.table({"day": days, "id": range(200)})
    found, _ = judged(source, "target.day = source.day AND target.id = source.id")
    day = dt.date(2024, 1, 2)
    assert kept(found, day=[days[0], day, days[-1]], id=[5, 5, 5]) == [True, False, True]


def test_what_the_condition_says_of_the_target_alone_counts() -> None:
    found, _ = judged(pa.table({"id": [1]}), "target.id = source.id AND target.n > 3")
    assert kept(found, id=[1, 1], n=[3, 4]) == [False, True]


@pytest.mark.parametrize(
    ("source", "on"),
    [
        (pa.table({"x": [1.0, math.nan]}), "target.x = source.x"),
        (pa.table({"id": pa.array([1, None], pa.int64())}), "target.id <=> source.id"),
        (pa.table({"id": [1]}), "target.id < source.id"),
    ],
)
def test_where_bounds_say_nothing_all_rows_may_match(source: pa.Table, on: str) -> None:
    assert judged(source, on, UPDATE)[0] is None


def test_without_a_source_row_that_can_match_nothing_does() -> None:
    found, _ = judged(pa.table({"id": pa.array([None], pa.int64())}), "target.id = source.id")
    assert isinstance(found, Literal)
    assert found.value is False


def test_clauses_that_look_at_the_target_leave_out_more() -> None:
    source = pa.table({"id": [1, 2], "v": [1, 2]})
    on = "target.id = source.id"
    low = MergeClause(kind="MATCHED", action="delete", condition="target.n < 3 AND v > 1")
    high = MergeClause(kind="MATCHED", action="delete", condition="n > 8")
    _, changing = judged(source, on, low, high)
    assert kept(changing, id=[1, 1, 1, 7], n=[2, 5, 9, 2]) == [True, False, True, False]
    _, changing = judged(source, on, low, MergeClause(kind="MATCHED", action="delete"))
    assert kept(changing, id=[1, 7]) == [True, False]
    _, changing = judged(source, on, low, INSERT)
    assert kept(changing, id=[1, 7]) == [True, False]


def test_rows_that_are_not_matched_by_the_source_count_by_their_conditions() -> None:
    source = pa.table({"id": [1]})
    alone = MergeClause(kind="NOT MATCHED BY SOURCE", action="delete", condition="n > 8")
    _, changing = judged(source, "target.id = source.id", UPDATE, alone)
    assert kept(changing, id=[1, 2, 2], n=[1, 1, 9]) == [True, False, True]
    every = MergeClause(kind="NOT MATCHED BY SOURCE", action="delete")
    assert judged(source, "target.id = source.id", UPDATE, every)[1] is None
