"""Checks that a condition or value of DELETE, UPDATE or MERGE is computed from a single row."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException

from bayou.errors import PredicateError
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.jvm.plans import are_columns_deterministic, reads_several_rows

_NOT_GROUPED = ("MISSING_AGGREGATION", "MISSING_GROUP_BY")


def check_row_expression(
    rows: Any,
    expression: RowExpression,
    *,
    table: str,
    what: str,
    aggregate_condition: str = "UNSUPPORTED_EXPR_FOR_OPERATOR",
    random_condition: str | None = "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
) -> None:
    """Raise `PredicateError` if an expression has a function that isn't allowed.

    Aggregate, window and generator functions aren't allowed. Nondeterministic functions are allowed
    only if `random_condition` is None.

    Args:
        rows: a DataFrame with the columns that the expression uses.
        what: name of the expression in the message, such as `condition of the DELETE`.
        aggregate_condition: Spark's error condition for aggregate, window and generator functions.
        random_condition: Spark's error condition for nondeterministic functions.
    """
    string = expression.display_string
    evaluated = None
    try:
        evaluated = rows.select(expression.column)
    except AnalysisException as error:
        if error.getCondition() not in _NOT_GROUPED:
            raise
    if evaluated is None or reads_several_rows(evaluated):
        raise PredicateError(
            f"{table}: the {what}, {string}, has an aggregate, window or generator function, which "
            f"is unsupported here ({aggregate_condition}). Invalid expressions: {string}. Compute "
            "the value in a query, and use MERGE.",
            expression=string,
        )
    if random_condition is not None and not are_columns_deterministic(evaluated):
        raise PredicateError(
            f"{table}: the {what}, {string}, isn't deterministic. The operator expects a "
            f"deterministic expression ({random_condition}). Store the value in a column first.",
            expression=string,
        )
