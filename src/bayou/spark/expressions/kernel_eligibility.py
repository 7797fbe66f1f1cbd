"""Decides whether the kernel or Spark evaluates a condition or value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.errors import AnalysisException

from bayou.errors import PredicateError, UnsupportedFeatureError
from bayou.kernel.expressions.functions import inexact_function
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.expressions.resolution import map_columns, resolve, resolve_expression
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.protocol.schema import DataType, StructType
from bayou.spark.exceptions import names_condition
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_semantics import (
    assigned_type,
    check_client_evaluates,
    has_timestamps,
    matches_session,
    session_matches_kernel,
)
from bayou.spark.expressions.store_assignment import (
    STRUCTS_BY_NAME,
    row_operation_policy,
    structs_by_name,
)
from bayou.spark.expressions.struct_by_name import has_structs, same_fields
from bayou.spark.session.connection import is_classic
from bayou.spark.target_table import TargetTable

ResultT = TypeVar("ResultT")


def fall_back_to_spark(
    target: TargetTable, error: PredicateError, run: Callable[[], ResultT]
) -> ResultT:
    """Run an operation as a Spark plan, because the kernel can't evaluate its expressions.

    Under Spark Connect, `error` is raised, because a Spark plan needs a classic session.

    If Spark's analysis fails, the first of these errors that applies is raised:

    - Spark's error, if `error` is an `OnlySparkError`.
    - `error`, if it has an error condition of delta-spark, or if Spark's error has no condition.
    - A `PredicateError` with the message and the error condition of Spark's error.

    Args:
        error: the error that the kernel raised for an expression.
        run: function that runs the operation as a Spark plan.

    Raises:
        AnalysisException, PredicateError: Spark's analysis fails, see above.
    """
    if not is_classic(target.spark):
        raise error
    try:
        return run()
    except AnalysisException as spark_error:
        condition = spark_error.getCondition()
        if isinstance(error, OnlySparkError):
            raise
        if condition is None or names_condition(error):
            raise error from spark_error
        raise _with_condition(target, error, spark_error, condition) from spark_error


def _with_condition(
    target: TargetTable, error: PredicateError, spark_error: AnalysisException, condition: str
) -> PredicateError:
    """Return a `PredicateError` with the message and the error condition of Spark's error."""
    text = str(spark_error).partition("SQLSTATE:")[0].partition("] ")[2].strip()
    result = PredicateError(
        f"{target.path}: {text} ({condition}). Correct {error.expression}.",
        expression=error.expression,
    )
    result.facts = {**result.facts, "condition": condition}
    return result


class OnlySparkError(PredicateError):
    """Raised for an expression that only Spark can evaluate."""


def check_no_view(target: TargetTable, expression: RowExpression) -> None:
    """Raise `PredicateError` for an expression if the target is a view.

    The kernel can't compute the columns of a view.

    Args:
        expression: the condition or value, for the error.
    """
    if target.view is not None:
        raise PredicateError(
            f"{target.view.name}: {expression.display_string} can't be evaluated with the columns "
            "of the view. Write the table's name instead of the view's.",
            expression=expression.display_string,
        )


def check_structs_by_name(
    spark: Any, table: str, schema: StructType, source: StructType | None = None
) -> None:
    """Raise `UnsupportedFeatureError` if the session requires that struct fields match by position.

    The session requires this if the setting `STRUCTS_BY_NAME` is false. The caller can match struct
    fields only by name. The error isn't raised for these columns:

    - columns without structs
    - columns that `source` lacks
    - columns whose struct fields have the same names in the same order in `schema` and `source`

    Args:
        schema: the table's columns.
        source: the columns that UPDATE SET * or INSERT * assigns; None for other values.
    """
    if structs_by_name(spark):
        return
    for field in schema:
        value = None if source is None else source.get(field.name)
        if source is not None and (value is None or same_fields(field.data_type, value.data_type)):
            continue
        if has_structs(field.data_type):
            what = "With Spark Connect" if source is None else "In UPDATE SET * and INSERT *"
            raise UnsupportedFeatureError(
                f"{table}: the setting {STRUCTS_BY_NAME} is false. {what}, Bayou can't match the "
                f"fields of the structs in column {field.name!r} by position. Unset this setting.",
                table=table,
                features=[STRUCTS_BY_NAME],
            )


@dataclass(frozen=True, slots=True)
class KernelExpressions:
    """Converts conditions and values over a table's columns to expressions of the kernel.

    `predicate` and `value` raise `PredicateError` if the kernel can't evaluate an expression, or
    could give another result than Spark.
    """

    target: TargetTable
    schema: StructType

    def predicate(self, condition: RowExpression | None) -> Predicate | None:
        if condition is None:
            return None
        check_no_view(self.target, condition)
        predicate = map_columns(parse_predicate(self._sql(condition)), self.without_alias)
        resolve(predicate, self.schema)
        self._check(predicate, condition)
        return predicate

    def value(self, name: str, value: RowExpression) -> Expression | str:
        check_no_view(self.target, value)
        if value.is_default:
            return "DEFAULT"
        expression = map_columns(parse_expression(self._sql(value)), self.without_alias)
        resolve_expression(expression, self.schema)
        assigned = assigned_type(name, self.target.alias, [self.schema])
        spark = self.target.spark
        if not is_classic(spark):
            check_structs_by_name(spark, self.target.path, self.schema)
            check_client_evaluates(
                spark,
                self._sql(value),
                expression,
                [self.schema],
                assigned=assigned,
            )
            return expression
        if row_operation_policy(self.target.spark) != "ANSI":
            raise OnlySparkError(
                f"{value.display_string}: the session's store assignment policy isn't ANSI. Only "
                "Spark can cast the value.",
                expression=value.display_string,
            )
        if assigned is not None and has_structs(assigned) and not structs_by_name(spark):
            raise OnlySparkError(
                f"{value.display_string}: the setting {STRUCTS_BY_NAME} is false, and only Spark "
                "can match the fields of structs by position.",
                expression=value.display_string,
            )
        casts = assigned is None or has_timestamps(assigned)
        if casts and not self._is_plain:
            raise OnlySparkError(
                f"{value.display_string}: the cast depends on the session's time zone, so only "
                "Spark can evaluate this expression.",
                expression=value.display_string,
            )
        self._check(expression, value, assigned)
        return expression

    def column(self, name: str) -> str:
        """Remove the target's alias from the name of an assigned column, and return the name."""
        alias = self.target.alias
        qualifier, dot, column = name.partition(".")
        if qualifier.count("`") % 2:  # the dot is a part of a name in backticks
            return name
        if alias is None or not dot or qualifier.strip("`").lower() != alias.lower():
            return name
        return column

    def without_alias(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Remove the target's alias from the path of a column, and return the path."""
        alias = self.target.alias
        qualified = alias is not None and len(path) > 1 and path[0].lower() == alias.lower()
        return path[1:] if qualified and self.schema.get(path[1]) is not None else path

    @property
    def _is_plain(self) -> bool:
        return session_matches_kernel(self.target.spark, [self.schema])

    def _check(
        self, expression: Expression, source: RowExpression, assigned: DataType | None = None
    ) -> None:
        spark = self.target.spark
        if not is_classic(spark):
            check_client_evaluates(spark, self._sql(source), expression, [self.schema])
            return
        is_exact = inexact_function(expression) is None
        if is_exact and self._is_plain:
            return
        if not matches_session(spark, expression, [self.schema], assigned=assigned):
            raise OnlySparkError(
                f"{source.display_string}: the result depends on the session's settings, so only "
                "Spark can evaluate this expression.",
                expression=source.display_string,
            )

    def _sql(self, expression: RowExpression) -> str:
        if expression.sql is None:
            raise OnlySparkError(
                f"{expression.display_string}: the expression can't be converted to SQL, for "
                "example because of a Python UDF. Only Spark can evaluate this expression.",
                expression=expression.display_string,
            )
        return expression.sql
