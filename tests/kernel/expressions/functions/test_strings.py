"""String functions whose arguments are columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.kernel.expressions.evaluation import evaluate
from bayou.kernel.expressions.model import Literal, call, col


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
