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
            batch: a batch with the columns that the expression references. Their names are spelled
                as in the schema. Other columns are ignored.

        Raises:
            PredicateError: a column is missing. The message names the column.
            EvaluationError: the expression fails for a row (an overflow, a division by zero, a
                string that isn't a number). No error is raised for an operand that Spark doesn't
                evaluate for the row, such as the right side of FALSE AND ... or a CASE branch that
                isn't taken.
        """
        ...


class PredicateEvaluator(Protocol):
    """A predicate compiled for a schema. Stateless and thread-safe."""

    def eval(
        self, batch: pa.RecordBatch, selection: pa.BooleanArray | None = None
    ) -> pa.BooleanArray:
        """Evaluate the predicate; the result is true for TRUE, and false for FALSE and NULL.

        Args:
            batch: a batch with the columns that the predicate references. Their names are spelled
                as in the schema. Other columns are ignored.
            selection: mask with one value for each row: true to evaluate the row. If a value is
                false or null, the result is false, and the row raises no error. If the mask is
                None, all rows are evaluated.

        Raises:
            ArgumentError: the selection and the batch have different lengths.
            PredicateError, EvaluationError: see `ExpressionEvaluator.eval`.
        """
        ...


class ExpressionHandler(Protocol):
    """Evaluates expressions over batches. Thread-safe.

    The default is the kernel's evaluator. `docs/reference/expressions.md` defines the functions
    and the semantics (Spark's ANSI mode, the time zone UTC, three-valued logic).

    Examples:
        >>> evaluator = engine.expressions.predicate_evaluator(snapshot.schema, col("price") > 10)
        >>> batch = pa.record_batch({"id": [1], "price": [12.0], "country": ["NZ"]})
        >>> print(evaluator.eval(batch))
    """

    def evaluator(
        self, schema: StructType, expression: Expression, output_type: DataType
    ) -> ExpressionEvaluator:
        """Return an evaluator of an expression for any number of batches of a schema.

        Args:
            schema: the columns that the expression can reference; names are case-insensitive.
            expression: the expression to evaluate. Literals without an explicit type are allowed.
            output_type: the type to which the values are cast.

        Raises:
            PredicateError: a column or function is unknown, types are incompatible, or the kind of
                expression isn't supported. The message names the unsupported part.
        """
        ...

    def predicate_evaluator(self, schema: StructType, predicate: Predicate) -> PredicateEvaluator:
        """Return an evaluator of a predicate for any number of batches of a schema.

        Raises:
            PredicateError: the predicate isn't boolean. See `evaluator` for other causes.
        """
        ...

    def create_selection_vector(
        self, values: Sequence[bool], start: int, end: int
    ) -> pa.BooleanArray:
        """Return `values[start:end]` as a selection vector, which contains no nulls.

        Raises:
            ArgumentError: `start` or `end` is out of range, or a value in the range is None.
        """
        ...
