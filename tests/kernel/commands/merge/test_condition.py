"""The parts of an ON condition."""

from __future__ import annotations

import pyarrow as pa

from bayou.kernel.commands.merge.clauses import JoinedColumns
from bayou.kernel.commands.merge.condition import MergeCondition
from bayou.protocol.schema import (
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    DecimalType,
    StructField,
    StructType,
)


def schema(**types: object) -> StructType:
    return StructType(
        tuple(StructField(name=n, data_type=t) for n, t in types.items())  # type: ignore[arg-type]
    )


NAMES = JoinedColumns(
    target=schema(id=LONG, day=STRING, n=INTEGER, price=DecimalType(10, 2)),
    source=schema(id=INTEGER, day=STRING, low=DOUBLE, price=DecimalType(12, 4)),
)


def condition(text: str) -> MergeCondition:
    return MergeCondition.of(NAMES.predicate(text, "ON condition"), NAMES.schema)


def test_equalities_of_both_sides_are_keys_and_the_rest_is_sorted_by_side() -> None:
    found = condition(
        "source.id = target.id AND (target.day = source.day AND target.n > 3) "
        "AND source.low < 1.5 AND target.n < source.low AND true"
    )
    assert [key.arrow_type for key in found.keys] == [pa.int64(), pa.string()]
    assert [key.target.path for key in found.keys] == [("target.id",), ("target.day",)]
    assert found.target_filter is not None
    assert found.source_filter is not None
    assert found.residual is not None
    assert "n" in repr(found.target_filter)


def test_keys_of_different_types_meet_in_the_wider_one() -> None:
    (key,) = condition("target.price = source.price").keys
    assert key.arrow_type == pa.decimal128(12, 4)
    (key,) = condition("target.n = source.low").keys
    assert key.arrow_type == pa.float64()


def test_a_null_safe_equality_is_a_key_that_says_so() -> None:
    (key,) = condition("target.day <=> source.day").keys
    assert key.null_safe


def test_an_equality_of_expressions_is_a_key() -> None:
    (key,) = condition("lower(target.day) = substr(source.day, 1, 2)").keys
    assert not key.null_safe


def test_equalities_inside_of_or_are_no_keys() -> None:
    found = condition("target.id = source.id OR target.n = source.id")
    assert found.keys == ()
    assert found.residual is not None
    assert found.target_expressions == (found.residual,)
