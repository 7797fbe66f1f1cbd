"""Evaluates an expression for a batch in which the expression fails for some rows.

First, one evaluation separates the rows for which a cast in the expression fails from the remaining
rows. Then each part for which the expression still fails is split, until each failing row is alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.model import And, Cast, Expression, IsNull, Not, Or, operands_of
from bayou.protocol.schema import StructType

_FAN_OUT = 16


class FailingRows:
    """Evaluates one resolved expression for one batch.

    Attributes:
        failures: the error message of each row for which the expression fails, by row index.
    """

    def __init__(self, schema: StructType, expression: Expression, kind: pa.DataType) -> None:
        self._schema = schema
        self._expression = expression
        self._evaluator = Evaluator(schema, expression)
        self._kind: Any = kind
        self.failures: dict[int, str] = {}

    def values(self, rows: pa.RecordBatch) -> pa.Array[Any]:
        """Return the value for each row; null if the expression fails for the row."""
        if rows.num_rows == 0:
            return self._nulls(0)
        try:
            return self._evaluated(rows)
        except (EvaluationError, pa.ArrowInvalid):
            pass
        numbers: Any = pa.array(range(rows.num_rows), pa.int64())
        failed_casts = self._failed_casts(rows)
        found: list[pa.Array[Any]] = []
        order: list[pa.Array[Any]] = []
        for mask in (pc.invert(failed_casts), failed_casts):
            part_numbers = numbers.filter(mask)
            found.extend(self._parts(rows.filter(mask), part_numbers))
            order.append(part_numbers)
        values: pa.Array[Any] = pa.concat_arrays(found)
        return values.take(pc.sort_indices(pa.concat_arrays(order)))

    def _parts(self, rows: pa.RecordBatch, numbers: pa.Array[Any]) -> Iterator[pa.Array[Any]]:
        count = rows.num_rows
        if count == 0:
            return
        try:
            yield self._evaluated(rows)
            return
        except (EvaluationError, pa.ArrowInvalid) as error:
            if count == 1:
                number: Any = numbers[0].as_py()
                message = error.message if isinstance(error, EvaluationError) else str(error)
                self.failures[number] = message
                yield self._nulls(1)
                return
        step = -(-count // _FAN_OUT)
        for at in range(0, count, step):
            yield from self._parts(rows.slice(at, step), numbers.slice(at, step))

    def _evaluated(self, rows: pa.RecordBatch) -> pa.Array[Any]:
        values: Any = self._evaluator.values(rows)
        array: pa.Array[Any] = values if values.type == self._kind else pc.cast(values, self._kind)
        return array

    def _failed_casts(self, rows: pa.RecordBatch) -> Any:
        """Return a mask of the rows for which a cast in the expression fails.

        The expression doesn't always fail for these rows: a CASE may not use the cast's value.
        """
        failed = [
            And((Not(IsNull(cast.operand)), IsNull(replace(cast, safe=True))))
            for cast in _innermost_casts(self._expression)
        ]
        none: Any = pa.repeat(pa.scalar(False), rows.num_rows)
        if not failed:
            return none
        predicate = failed[0] if len(failed) == 1 else Or(tuple(failed))
        try:
            return Evaluator(self._schema, predicate).values(rows)
        except (EvaluationError, pa.ArrowInvalid):  # not a cast, but an operation fails
            return none

    def _nulls(self, count: int) -> pa.Array[Any]:
        nulls: pa.Array[Any] = pa.nulls(count, self._kind)
        return nulls


def _innermost_casts(expression: Expression) -> list[Cast]:
    """Return the casts in an expression that can fail, and whose operand contains no such cast."""
    inner = [cast for part in operands_of(expression) for cast in _innermost_casts(part)]
    if inner or not isinstance(expression, Cast) or expression.safe:
        return inner
    return [expression]
