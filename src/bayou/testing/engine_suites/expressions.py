"""Tests of an `ExpressionHandler`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.errors import PredicateError
from bayou.kernel.engine import Engine
from bayou.kernel.predicates.model import col, lit
from bayou.testing.engine_suites.fixtures import HandlerSuite

__all__ = ["ExpressionHandlerSuite"]

_BATCH = pa.RecordBatch.from_pydict(
    {"id": [1, 2, None], "s": ["a", None, "b"], "n": [{"x": 1}, {"x": None}, None]}
)


class ExpressionHandlerSuite(HandlerSuite):
    """What `ExpressionHandler` promises."""

    def test_an_expression_has_a_value_for_each_row(self, engine: Engine) -> None:
        assert engine.expressions.evaluate(_BATCH, col("id")).to_pylist() == [1, 2, None]
        assert engine.expressions.evaluate(_BATCH, col("n", "x")).to_pylist() == [1, None, None]
        assert engine.expressions.evaluate(_BATCH, lit(5)).to_pylist() == [5, 5, 5]

    def test_a_predicate_that_is_null_selects_nothing(self, engine: Engine) -> None:
        selected = engine.expressions.evaluate_predicate(_BATCH, col("id") >= 2)
        assert selected.to_pylist() == [False, True, False]
        assert selected.null_count == 0

    def test_logic_has_three_values(self, engine: Engine) -> None:
        predicate = ~((col("id") == 1) & (col("s") == "a"))
        selected = engine.expressions.evaluate_predicate(_BATCH, predicate)
        assert selected.to_pylist() == [False, True, True]

    def test_an_unknown_column_is_an_error_that_names_it(self, engine: Engine) -> None:
        with pytest.raises(PredicateError, match="nowhere"):
            engine.expressions.evaluate_predicate(_BATCH, col("nowhere") == 1)
