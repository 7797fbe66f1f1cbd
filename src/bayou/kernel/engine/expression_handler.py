"""The expression handler of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from bayou.kernel.expressions.model import Expression, Predicate
from bayou.protocol.schema import DataType, StructType


class ExpressionEvaluator(Protocol):
    """An expression compiled for a schema. Stateless and thread-safe."""

    def eval(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """Evaluate the expression: one value of the output type for each row, in row order.

        Args:
            batch: a batch with the columns that the expression references, by their exact names in
                the schema. Other columns are ignored.

        Raises:
            PredicateError: a column is missing. The message names it.
            EvaluationError: the expression fails for a row (an overflow, a division by zero, a
                string that isn't a number). Operands that Spark doesn't evaluate, such as the
                right side of FALSE AND ... or other branches of CASE, don't fail.
        """
        ...


class PredicateEvaluator(Protocol):
    """A predicate compiled for a schema. Stateless and thread-safe."""

    def eval(
        self, batch: pa.RecordBatch, selection: pa.BooleanArray | None = None
    ) -> pa.BooleanArray:
        """Evaluate the predicate: true for rows where it is TRUE, false for FALSE or NULL.

        Args:
            batch: as for `ExpressionEvaluator.eval`.
            selection: the rows to evaluate, one value for each row, with null for false; None for
                all rows. The result is false for the other rows, which never raise errors.

        Raises:
            ArgumentError: the selection and the batch have different lengths.
            PredicateError, EvaluationError: see `ExpressionEvaluator.eval`.
        """
        ...


class ExpressionHandler(Protocol):
    """Evaluates expressions over batches. Thread-safe.

    The default is the kernel's evaluator. `docs/reference/expressions.md` defines the functions
    and the semantics (Spark's ANSI mode, the time zone UTC, three-valued logic).
    """

    def evaluator(
        self, schema: StructType, expression: Expression, output_type: DataType
    ) -> ExpressionEvaluator:
        """Return an evaluator of an expression for any number of batches of a schema.

        Args:
            schema: the columns that the expression can reference; names are case-insensitive.
            expression: the expression to evaluate. Its literals may have no explicit type.
            output_type: the type to which the values are cast.

        Raises:
            PredicateError: a column or function is unknown, types are incompatible, or the kind of
                expression isn't supported. The message names the unsupported part.
        """
        ...

    def predicate_evaluator(self, schema: StructType, predicate: Predicate) -> PredicateEvaluator:
        """Return an evaluator of a predicate for any number of batches of a schema.

        Raises:
            PredicateError: see `evaluator`; or the expression isn't boolean.
        """
        ...

    def create_selection_vector(
        self, values: Sequence[bool], start: int, end: int
    ) -> pa.BooleanArray:
        """Return a selection vector of `values[start:end]`, without nulls.

        Raises:
            ArgumentError: `start` or `end` is out of range, or a value in the range is None.
        """
        ...
