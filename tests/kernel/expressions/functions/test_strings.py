"""String functions whose arguments are columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.expressions.evaluation import evaluate
from bayou.kernel.expressions.model import Literal, call, col
from bayou.kernel.expressions.sql.parser import parse_expression


@pytest.mark.parametrize(
    ("separator", "expected"),
    [
        (col("s"), ["a,b", None, "b", None]),
        (Literal("-"), ["a-b", "a-b", "b", ""]),
        (Literal(None), [None] * 4),
    ],
)
def test_concat_ws_is_null_for_a_null_separator(separator, expected):
    rows = pa.record_batch(
        {
            "s": pa.array([",", None, "", None]),
            "a": pa.array(["a", "a", None, None]),
            "b": pa.array(["b", "b", "b", None]),
        }
    )
    assert evaluate(call("concat_ws", separator, col("a"), col("b")), rows).to_pylist() == expected


@pytest.mark.parametrize(
    "sql",
    [
        "repeat(s, n)",
        "lpad(s, n)",
        "rpad(s, n, 'xy')",
        "space(n)",
        "replace(repeat('s', 5000), s, repeat('t', 5000))",
    ],
)
def test_a_result_of_too_many_characters_is_an_error_of_the_row(sql):
    rows = pa.record_batch({"s": pa.array(["s"]), "n": pa.array([2**31 - 1], pa.int32())})
    with pytest.raises(EvaluationError, match="the limit is 16,777,216"):
        evaluate(parse_expression(sql), rows)
    excluded = parse_expression(f"CASE WHEN n < 9 THEN {sql} END")
    assert evaluate(excluded, rows).to_pylist() == [None]


@pytest.mark.parametrize("sql", ["repeat(s, 1)", "lpad(s, 9)", "replace(s, 'a', 'b')"])
def test_a_long_string_can_be_an_argument(sql):
    rows = pa.record_batch({"s": pa.array(["s" * ((1 << 24) + 1)])})
    (result,) = evaluate(parse_expression(sql), rows).to_pylist()
    assert len(result) == (9 if "lpad" in sql else (1 << 24) + 1)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("btrim(s)", ["xax", "b"]),
        ("btrim(s, 'x ')", ["a", "b"]),
        ("btrim('xax', 'x')", ["a", "a"]),
        ("trim('x ', s)", ["a", "b"]),
        ("ltrim('x ', s)", ["ax ", "b"]),
        ("rtrim('x ', s)", [" xa", "b"]),
    ],
)
def test_only_btrim_has_the_characters_as_second_argument(sql, expected):
    rows = pa.record_batch({"s": pa.array([" xax ", "b"])})
    assert evaluate(parse_expression(sql), rows).to_pylist() == expected


def test_the_characters_to_trim_must_be_constant():
    rows = pa.record_batch({"s": pa.array(["x"])})
    with pytest.raises(PredicateError, match="argument 1 must be a constant"):
        evaluate(parse_expression("btrim('xax', s)"), rows)
