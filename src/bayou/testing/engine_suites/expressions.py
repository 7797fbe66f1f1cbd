"""Tests of `ExpressionHandler`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pytest

from bayou.errors import ArgumentError, EvaluationError, PredicateError
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Expression, Predicate, call, col, lit
from bayou.protocol.schema import BOOLEAN, DATE, INTEGER, LONG, STRING, DataType
from bayou.testing.engine_suites.fixtures import HandlerSuite

_BATCH = pa.RecordBatch.from_pydict(
    {"id": [1, 2, None], "s": ["a", None, "b"], "n": [{"x": 1}, {"x": None}, None]}
)
_SCHEMA = from_arrow_schema(_BATCH.schema)


@dataclass(frozen=True, slots=True, eq=False)
class _UnknownExpression(Expression):
    """An expression that no handler supports."""


class ExpressionHandlerSuite(HandlerSuite):
    """Tests the contract of `ExpressionHandler`."""

    def test_an_expression_has_a_value_for_each_row(self, engine: Engine) -> None:
        assert _values(engine, col("id"), LONG) == [1, 2, None]
        assert _values(engine, col("n", "x"), LONG) == [1, None, None]
        assert _values(engine, lit(5), INTEGER) == [5, 5, 5]
        assert _values(engine, col("id") + 1, LONG) == [2, 3, None]
        assert _values(engine, col("id") > 1, BOOLEAN) == [False, True, None]

    def test_values_are_of_the_type_asked_for(self, engine: Engine) -> None:
        for data_type, arrow in ((LONG, pa.int64()), (STRING, pa.string())):
            evaluator = engine.expressions.evaluator(_SCHEMA, col("id"), data_type)
            assert evaluator.eval(_BATCH).type == arrow
        assert _values(engine, col("id"), STRING) == ["1", "2", None]
        with pytest.raises(PredicateError):
            engine.expressions.evaluator(_SCHEMA, col("id"), DATE)

    def test_an_evaluator_serves_many_batches(self, engine: Engine) -> None:
        evaluator = engine.expressions.evaluator(_SCHEMA, col("ID") * 2, LONG)
        assert evaluator.eval(_BATCH).to_pylist() == [2, 4, None]
        assert evaluator.eval(_BATCH.slice(1)).to_pylist() == [4, None]
        assert evaluator.eval(_BATCH.slice(0, 0)).to_pylist() == []

    def test_an_evaluator_serves_many_threads(self, engine: Engine) -> None:
        matching = engine.expressions.predicate_evaluator(_SCHEMA, col("id") >= 2)
        with ThreadPoolExecutor(8) as pool:
            actual = list(pool.map(lambda _: matching.eval(_BATCH).to_pylist(), range(64)))
        assert actual == [[False, True, False]] * 64

    def test_columns_that_the_schema_does_not_name_are_passed_over(self, engine: Engine) -> None:
        wider = _BATCH.add_column(0, "more", pa.array([0, 0, 0]))
        evaluator = engine.expressions.evaluator(_SCHEMA, col("id"), LONG)
        assert evaluator.eval(wider).to_pylist() == [1, 2, None]

    def test_a_predicate_that_is_null_selects_nothing(self, engine: Engine) -> None:
        selected = _selected(engine, col("id") >= 2)
        assert selected.to_pylist() == [False, True, False]
        assert selected.null_count == 0

    def test_logic_has_three_values(self, engine: Engine) -> None:
        predicate = ~((col("id") == 1) & (col("s") == "a"))
        assert _selected(engine, predicate).to_pylist() == [False, True, True]

    def test_a_selection_is_never_made_wider(self, engine: Engine) -> None:
        matching = engine.expressions.predicate_evaluator(_SCHEMA, col("id").is_not_null())
        selection = pa.array([False, True, True])
        assert matching.eval(_BATCH, selection).to_pylist() == [False, True, False]
        unknown = pa.array([None, True, None], pa.bool_())
        actual = matching.eval(_BATCH, unknown)
        assert actual.to_pylist() == [False, True, False]
        assert actual.null_count == 0

    def test_a_row_that_is_not_selected_does_not_fail(self, engine: Engine) -> None:
        matching = engine.expressions.predicate_evaluator(
            _SCHEMA, call("/", 4, col("id") - 1) == lit(4.0)
        )
        with pytest.raises(EvaluationError):
            matching.eval(_BATCH)
        selection = pa.array([False, True, True])
        assert matching.eval(_BATCH, selection).to_pylist() == [False, True, False]

    def test_a_selection_of_another_length_is_an_error(self, engine: Engine) -> None:
        matching = engine.expressions.predicate_evaluator(_SCHEMA, col("id") == 1)
        with pytest.raises(ArgumentError):
            matching.eval(_BATCH, pa.array([True]))

    def test_an_unknown_column_is_an_error_that_names_it(self, engine: Engine) -> None:
        with pytest.raises(PredicateError, match="nowhere"):
            engine.expressions.predicate_evaluator(_SCHEMA, col("nowhere") == 1)
        with pytest.raises(PredicateError, match="nowhere"):
            engine.expressions.evaluator(_SCHEMA, col("nowhere"), LONG)

    def test_an_unknown_function_is_an_error_that_names_it(self, engine: Engine) -> None:
        with pytest.raises(PredicateError, match="frobnicate"):
            engine.expressions.evaluator(_SCHEMA, call("frobnicate", col("id")), LONG)

    def test_an_unknown_expression_is_an_error_that_names_it(self, engine: Engine) -> None:
        with pytest.raises(PredicateError, match="_UnknownExpression"):
            engine.expressions.evaluator(_SCHEMA, _UnknownExpression(), LONG)
        with pytest.raises(PredicateError, match="_UnknownExpression"):
            engine.expressions.predicate_evaluator(_SCHEMA, _UnknownExpression().is_null())

    def test_what_is_no_condition_is_no_predicate(self, engine: Engine) -> None:
        with pytest.raises(PredicateError):
            engine.expressions.predicate_evaluator(_SCHEMA, col("id"))

    def test_a_selection_vector_is_a_part_of_the_values(self, engine: Engine) -> None:
        values = [True, False, True, True]
        vector = engine.expressions.create_selection_vector(values, 1, 3)
        assert vector.type == pa.bool_()
        assert vector.to_pylist() == [False, True]
        assert len(engine.expressions.create_selection_vector(values, 2, 2)) == 0
        for start, end in ((-1, 2), (3, 2), (0, 5)):
            with pytest.raises(ArgumentError):
                engine.expressions.create_selection_vector(values, start, end)


def _values(engine: Engine, expression: Expression, data_type: DataType) -> list[object]:
    return engine.expressions.evaluator(_SCHEMA, expression, data_type).eval(_BATCH).to_pylist()


def _selected(engine: Engine, predicate: Predicate) -> pa.BooleanArray:
    return engine.expressions.predicate_evaluator(_SCHEMA, predicate).eval(_BATCH)
