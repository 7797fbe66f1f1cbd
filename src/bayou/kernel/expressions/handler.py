"""The `ExpressionHandler` of every engine that has none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.casts import can_cast
from bayou.kernel.expressions.evaluation import Evaluation
from bayou.kernel.expressions.model import Cast, Expression, Predicate
from bayou.kernel.expressions.resolution import resolve, resolve_expression, type_of
from bayou.protocol.schema import DataType, StructType

__all__ = ["DefaultExpressionHandler"]

pc: Any = pyarrow.compute


class DefaultExpressionHandler:
    """Implements `bayou.kernel.engine.ExpressionHandler`; any engine can use it."""

    def evaluator(
        self, schema: StructType, expression: Expression, output_type: DataType
    ) -> DefaultExpressionEvaluator:
        return DefaultExpressionEvaluator(schema, expression, output_type)

    def predicate_evaluator(
        self, schema: StructType, predicate: Predicate
    ) -> DefaultPredicateEvaluator:
        return DefaultPredicateEvaluator(schema, predicate)

    def create_selection_vector(
        self, values: Sequence[bool], start: int, end: int
    ) -> pa.BooleanArray:
        if not 0 <= start <= end <= len(values):
            raise ArgumentError(
                f"A selection vector of {start} to {end} was asked for, of {len(values)} values.",
                argument="start" if not 0 <= start <= len(values) else "end",
            )
        selection: Any = pa.array(values[start:end], pa.bool_())
        if selection.null_count:
            raise ArgumentError("A selection vector has no nulls.", argument="values")
        made: pa.BooleanArray = selection
        return made


class DefaultExpressionEvaluator:
    """Implements `bayou.kernel.engine.ExpressionEvaluator`."""

    __slots__ = ("_evaluation", "_type")

    def __init__(self, schema: StructType, expression: Expression, output_type: DataType) -> None:
        resolved = resolve_expression(expression, schema)
        given = type_of(resolved, schema)
        if given != output_type:
            if not can_cast(given, output_type):
                raise PredicateError(
                    f"The expression is a {given}; it can't be given as a {output_type}.",
                    expression=repr(expression),
                )
            resolved = Cast(resolved, output_type)
        self._evaluation = Evaluation(schema, resolved)
        self._type = to_arrow_type(output_type)

    def eval(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        values: pa.Array[Any] = self._evaluation.values(batch)
        if values.type != self._type:  # a cast refuses null structs of fields that may not be null
            values = pc.cast(values, self._type)
        return values


class DefaultPredicateEvaluator:
    """Implements `bayou.kernel.engine.PredicateEvaluator`."""

    __slots__ = ("_evaluation",)

    def __init__(self, schema: StructType, predicate: Predicate) -> None:
        self._evaluation = Evaluation(schema, resolve(predicate, schema))

    def eval(
        self, batch: pa.RecordBatch, selection: pa.BooleanArray | None = None
    ) -> pa.BooleanArray:
        if selection is not None and len(selection) != batch.num_rows:
            raise ArgumentError(
                f"A selection of {len(selection)} rows was given for {batch.num_rows}.",
                argument="selection",
            )
        if selection is not None and selection.null_count:
            selection = pc.fill_null(selection, False)
        values = self._evaluation.values(batch, selection)
        matches: pa.BooleanArray = pc.fill_null(pc.cast(values, pa.bool_()), False)
        return matches if selection is None else pc.and_(matches, selection)
