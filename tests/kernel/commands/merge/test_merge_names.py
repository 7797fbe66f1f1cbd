"""Names of a merge's texts."""

from __future__ import annotations

import pytest

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.commands.merge.clauses import (
    SOURCE,
    TARGET,
    JoinedColumns,
    columns_of,
    sides_of,
)
from bayou.kernel.expressions.model import Comparison, col
from bayou.protocol.schema import LONG, STRING, StructField, StructType

PART = StructType((StructField(name="x", data_type=LONG),))
NAMES = JoinedColumns(
    target=StructType(
        (
            StructField(name="id", data_type=LONG),
            StructField(name="Name", data_type=STRING),
            StructField(name="s", data_type=PART),
        )
    ),
    source=StructType(
        (StructField(name="id", data_type=LONG), StructField(name="value", data_type=STRING))
    ),
    target_alias="t",
    source_alias="New",
)


def paths(text: str) -> list[tuple[str, ...]]:
    found = NAMES.predicate(text, "ON condition")
    assert isinstance(found, Comparison)
    return [found.left.path, found.right.path]  # type: ignore[attr-defined]


def test_names_are_found_by_alias_and_without_regard_to_case() -> None:
    assert paths("T.ID = new.id") == [("target.id",), ("source.id",)]


def test_a_name_that_one_side_has_needs_no_alias() -> None:
    assert paths("name = VALUE") == [("target.Name",), ("source.value",)]


def test_a_path_that_begins_with_no_alias_goes_into_a_struct() -> None:
    assert paths("s.x = t.s.X") == [("target.s", "x"), ("target.s", "x")]


def test_a_name_that_both_sides_have_needs_an_alias() -> None:
    with pytest.raises(PredicateError, match=r"AMBIGUOUS_REFERENCE.*t\.id or New\.id"):
        NAMES.predicate("id = 3", "ON condition")


def test_an_unknown_name_is_refused_with_what_there_is() -> None:
    with pytest.raises(PredicateError, match="DELTA_MERGE_UNRESOLVED_EXPRESSION") as caught:
        NAMES.predicate("t.nme = 'a'", "ON condition")
    assert "Cannot resolve t.nme in the ON condition" in str(caught.value)
    assert "id, Name, s" in str(caught.value)


def test_a_side_that_a_clause_does_not_see_is_refused() -> None:
    with pytest.raises(PredicateError, match="isn't a column of the source"):
        NAMES.predicate("t.id = 3", "condition of the WHEN NOT MATCHED clause", (SOURCE,))


def test_a_name_is_not_ambiguous_where_one_side_is_seen() -> None:
    assert sides_of(NAMES.predicate("id = 3", "condition", (SOURCE,))) == {"source"}


def test_expressions_take_part_like_texts() -> None:
    found = NAMES.predicate(col("t", "id") == col("new", "id"), "ON condition")
    assert columns_of([found], TARGET) == {"id"}
    assert columns_of([found], SOURCE) == {"id"}


def test_both_sides_cannot_have_one_alias() -> None:
    with pytest.raises(ArgumentError, match="same alias"):
        JoinedColumns(target=PART, source=PART, target_alias="a", source_alias="A")
