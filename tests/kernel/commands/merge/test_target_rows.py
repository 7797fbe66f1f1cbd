"""What is known of the rows of a target that another engine joins."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.kernel.commands.merge import MergeSource
from bayou.kernel.commands.merge.clauses import JoinedColumns
from bayou.kernel.commands.merge.target_rows import TargetRows
from bayou.kernel.expressions.sql.parser import parse_conjuncts, parse_predicate
from bayou.protocol.schema import LONG, STRING, StructField, StructType

TARGET = StructType(
    tuple(
        StructField(name=name, data_type=data_type)
        for name, data_type in (("id", LONG), ("day", STRING), ("v", LONG))
    )
)
SOURCE = pa.table({"id": [3, 9], "day": ["a", "b"], "w": [1, 2]})


def found(on: str, source: pa.Table | None = SOURCE, by_source: tuple[str, ...] = ()) -> str | None:
    rows = SOURCE if source is None else source
    names = JoinedColumns(
        target=TARGET,
        source=MergeSource.read(rows.schema, []).schema,
        target_alias="t",
        source_alias="s",
    )
    target_rows = TargetRows(names, parse_conjuncts(on))
    known = None
    if source is not None:
        keys = source.select(list(target_rows.key_columns))
        known = MergeSource.read(keys.schema, keys.to_batches())
    predicate = target_rows.predicate(known, ["day"], [parse_predicate(c) for c in by_source])
    return None if predicate is None else repr(predicate)


def test_keys_that_are_understood_bound_the_rows_beside_what_is_not() -> None:
    understood = found("t.id = s.id AND t.day = s.day")
    assert understood is not None
    assert found("t.id = s.id AND nobody_knows(t.v, s.w) AND t.day = s.day") == understood
    assert found("t.id = s.id AND t.v IN (SELECT 1) AND t.day = s.day") == understood


def bounded(on: str, least: dict[str, object], greatest: dict[str, object]) -> str | None:
    names = JoinedColumns(
        target=TARGET,
        source=MergeSource.read(SOURCE.schema, []).schema,
        target_alias="t",
        source_alias="s",
    )
    rows = TargetRows(names, parse_conjuncts(on))
    given = pa.Table.from_pylist(
        [least, greatest], SOURCE.select(list(rows.bounded_columns)).schema
    )
    bounds = MergeSource.read(given.schema, given.to_batches())
    predicate = rows.predicate(bounds, ["day"], bounds_only=True)
    return None if predicate is None else repr(predicate)


def test_bounds_of_keys_bound_the_rows() -> None:
    text = bounded("t.id = s.id AND s.w > 7", {"id": 3}, {"id": 9})
    assert text is not None
    assert "In(" not in text
    assert "'>='" in text
    assert "'<='" in text
    assert "value=3" in text
    assert "value=9" in text
    both = bounded("t.id = s.id AND t.day = s.day", {"id": 3, "day": "a"}, {"id": 9, "day": "a"})
    assert both is not None
    assert "'a'" in both


def test_bounds_say_nothing_of_keys_that_are_computed_or_compared_as_something_else() -> None:
    assert bounded("t.id = s.id % 5", {}, {}) is None
    assert bounded("t.id = cast(s.day AS bigint)", {}, {}) is None


def test_bounds_say_nothing_where_null_matches_null() -> None:
    assert bounded("t.id <=> s.id", {"id": 3}, {"id": None}) is None
    nothing = bounded("t.id = s.id", {"id": None}, {"id": None})
    assert nothing is not None
    assert "value=False" in nothing


def test_conditions_on_the_target_alone_count_without_the_source() -> None:
    text = found("t.id = s.id AND t.day = 'x'", None)
    assert text is not None
    assert "'x'" in text
    assert found("t.id = s.id", None) is None
    assert found("nobody_knows(t.id, s.id)") is None


def test_a_source_without_rows_matches_nothing() -> None:
    nothing = found("t.id = s.id AND nobody_knows(t.v)", SOURCE.slice(0, 0))
    assert nothing is not None
    assert "value=False" in nothing


def test_rows_without_a_match_count_by_the_conditions_of_their_clauses() -> None:
    both = found("t.id = s.id", by_source=("t.v > 5",))
    assert both is not None
    assert both.startswith("Or(")
    assert found("t.id = s.id", by_source=("nobody.there > 5",)) is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a = 1 AND (b = 2 AND c = 3)", 3),
        ("a = 1 OR b = 2", 1),
        ("NOT (a = 1 AND b = 2)", 1),
        ("a = 1 AND b IN (SELECT 1)", 1),
        ("a BETWEEN 1 AND 2 AND c = 'x AND y'", 2),
        ("not ( valid", 0),
    ],
)
def test_the_operands_of_ands_are_taken_one_by_one(text: str, count: int) -> None:
    assert len(parse_conjuncts(text)) == count
