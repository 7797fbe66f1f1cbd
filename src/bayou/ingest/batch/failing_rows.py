"""Evaluates an expression for the rows of a batch, and finds the rows for which it fails.

First, the casts in the expression are evaluated, and the rows are divided into two groups: rows for
which a cast fails, and all others. Then the expression is evaluated for each group. If it fails for
a group, the group is split, until each failing row has its own group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError
from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.model import And, Cast, Expression, IsNull, Not, Or, operands_of
from bayou.protocol.schema import StructType

_FAN_OUT = 16


class FailingRows:
    """Evaluates one resolved expression for the rows of one batch, and collects failures by row.

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
        indexes: Any = arange(0, rows.num_rows)
        failed_casts = self._failed_casts(rows)
        parts: list[pa.Array[Any]] = []
        order: list[pa.Array[Any]] = []
        for mask in (pc.invert(failed_casts), failed_casts):
            part_indexes = indexes.filter(mask)
            parts.extend(self._parts(rows.filter(mask), part_indexes))
            order.append(part_indexes)
        values: pa.Array[Any] = pa.concat_arrays(parts)
        return values.take(pc.sort_indices(pa.concat_arrays(order)))

    def _parts(self, rows: pa.RecordBatch, indexes: pa.Array[Any]) -> Iterator[pa.Array[Any]]:
        count = rows.num_rows
        if count == 0:
            return
        try:
            yield self._evaluated(rows)
            return
        except (EvaluationError, pa.ArrowInvalid) as error:
            if count == 1:
                index: Any = indexes[0].as_py()
                message = error.message if isinstance(error, EvaluationError) else str(error)
                self.failures[index] = message
                yield self._nulls(1)
                return
        step = -(-count // _FAN_OUT)
        for at in range(0, count, step):
            yield from self._parts(rows.slice(at, step), indexes.slice(at, step))

    def _evaluated(self, rows: pa.RecordBatch) -> pa.Array[Any]:
        values: Any = self._evaluator.values(rows)
        array: pa.Array[Any] = values if values.type == self._kind else pc.cast(values, self._kind)
        return array

    def _failed_casts(self, rows: pa.RecordBatch) -> Any:
        """Return a mask of the rows for which a cast in the expression fails.

        The whole expression can still succeed for such a row, for example if a CASE doesn't
        evaluate the cast.
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
        except (EvaluationError, pa.ArrowInvalid):  # an operation other than a cast fails
            return none

    def _nulls(self, count: int) -> pa.Array[Any]:
        nulls: pa.Array[Any] = pa.nulls(count, self._kind)
        return nulls


def _innermost_casts(expression: Expression) -> list[Cast]:
    """Return the casts that can fail, without casts whose operand contains another such cast."""
    inner = [cast for part in operands_of(expression) for cast in _innermost_casts(part)]
    if inner or not isinstance(expression, Cast) or expression.safe:
        return inner
    return [expression]
