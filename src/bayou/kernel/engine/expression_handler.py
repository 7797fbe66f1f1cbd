"""Expressions over batches, as an engine evaluates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from bayou.kernel.expressions.model import Expression, Predicate
from bayou.protocol.schema import DataType, StructType

__all__ = ["ExpressionEvaluator", "ExpressionHandler", "PredicateEvaluator"]


class ExpressionEvaluator(Protocol):
    """An expression made ready for a schema. Holds no state; safe to be used from threads."""

    def eval(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """One value a row, in the order of the rows, of the type asked for.

        Args:
            batch: has the schema's columns by their exact names; more of them, and any order, are
                fine. Only those that the expression names are looked at.

        Raises:
            PredicateError: a column isn't there; names it.
            EvaluationError: a row has a value that the expression can't take (an overflow, a
                division by zero, a text that isn't a number). Rows that Spark wouldn't evaluate,
                behind a FALSE of AND or in a branch of CASE that isn't taken, don't fail.
        """
        ...


class PredicateEvaluator(Protocol):
    """A predicate made ready for a schema. Holds no state; safe to be used from threads."""

    def eval(
        self, batch: pa.RecordBatch, selection: pa.BooleanArray | None = None
    ) -> pa.BooleanArray:
        """The rows for which the predicate is TRUE; FALSE and NULL give false. Never null.

        Args:
            batch: as for `ExpressionEvaluator.eval`.
            selection: rows to look at, one value a row, null counting as false; None: all. The
                result is never wider, and the other rows never fail.

        Raises:
            ArgumentError: the selection has another length than the batch.
            PredicateError, EvaluationError: as `ExpressionEvaluator.eval`.
        """
        ...


class ExpressionHandler(Protocol):
    """Expressions over batches. The kernel's own evaluator is the default of every engine.

    What expressions mean is fixed: `docs/reference/expressions.md` lists the functions, and has
    the rules (Spark's ANSI mode, the time zone UTC, three-valued logic). Safe to be used from
    several threads.
    """

    def evaluator(
        self, schema: StructType, expression: Expression, output_type: DataType
    ) -> ExpressionEvaluator:
        """An evaluator for batches of a schema; it can be used for any number of them.

        Args:
            schema: the columns that the expression may name; names match without regard to case.
            expression: any `Expression`, its literals typed or not.
            output_type: what the values are cast to, if they aren't of it.

        Raises:
            PredicateError: an unknown column or function, types that don't go together, or an
                expression of a kind that the handler doesn't know; names it.
        """
        ...

    def predicate_evaluator(self, schema: StructType, predicate: Predicate) -> PredicateEvaluator:
        """An evaluator of a predicate for batches of a schema.

        Raises:
            PredicateError: as `evaluator`, or the expression isn't a condition.
        """
        ...

    def create_selection_vector(
        self, values: Sequence[bool], start: int, end: int
    ) -> pa.BooleanArray:
        """A selection of the values from `start` to before `end`, without nulls.

        Raises:
            ArgumentError: `start` and `end` aren't within the values, or one of these is None.
        """
        ...
