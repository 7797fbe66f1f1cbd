from __future__ import annotations

import datetime as dt
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.errors import SerializationError
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    col,
)
from bayou.kernel.expressions.serialization import from_bytes, to_bytes
from bayou.protocol.schema import BOOLEAN, DATE, DOUBLE, LONG, STRING, TIMESTAMP, DecimalType

VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(dt.UTC)).map(lambda t: t.replace(fold=0))
)
TYPES = st.sampled_from([BOOLEAN, DATE, DOUBLE, LONG, STRING, TIMESTAMP, DecimalType(38, 18)])
LITERALS = st.builds(Literal, VALUES, st.none() | TYPES)
LEAVES = LITERALS | st.builds(Column, st.lists(st.text(), min_size=1, max_size=3).map(tuple))
SEVERAL = {"min_size": 2, "max_size": 3}
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(And, st.lists(inner, **SEVERAL).map(tuple))
        | st.builds(Or, st.lists(inner, **SEVERAL).map(tuple))
        | st.builds(Not, inner)
        | st.builds(IsNull, inner)
        | st.builds(Comparison, st.sampled_from(["=", "<=>"]), inner, inner)
        | st.builds(In, inner, st.lists(LITERALS, max_size=3).map(tuple))
        | st.builds(StartsWith, inner, st.text())
        | st.builds(Like, inner, st.text(), st.characters())
        | st.builds(Cast, inner, TYPES, st.booleans())
        | st.builds(Function, st.text(), st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
def test_an_expression_comes_back_from_its_bytes(expression):
    assert repr(from_bytes(to_bytes(expression))) == repr(expression)


def test_a_decimal_keeps_its_digits():
    (literal,) = from_bytes(to_bytes(Function("abs", (Literal(Decimal("1.500")),)))).arguments
    assert str(literal.value) == "1.500"


class Own(Expression):
    __slots__ = ()


def test_an_expression_of_an_unknown_kind_is_refused():
    with pytest.raises(SerializationError, match="Own"):
        to_bytes(Not(Own()))


def test_bytes_of_a_newer_format_are_refused_for_that():
    name, number, checksum, body = msgspec.msgpack.decode(to_bytes(col("a")))
    newer = msgspec.msgpack.encode((name, number + 1, checksum, body))
    with pytest.raises(SerializationError, match=f"format {number + 1}"):
        from_bytes(newer)


@given(st.binary(max_size=40) | EXPRESSIONS.map(to_bytes).map(lambda data: data[:-1]))
def test_other_bytes_are_refused(data):
    with pytest.raises(SerializationError):
        from_bytes(data)
