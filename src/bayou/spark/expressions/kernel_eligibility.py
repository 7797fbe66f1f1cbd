"""Decides whether the kernel or Spark evaluates a condition or value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column

from bayou.errors import PredicateError
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.expressions.resolution import map_columns, resolve_expression
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.protocol.schema import StructType
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_semantics import (
    has_timestamps,
    matches_session,
    session_matches_kernel,
)
from bayou.spark.jvm.classes import java_class
from bayou.spark.target import TargetTable, is_classic

__all__ = ["KernelExpressions", "OnlySparkError", "bound_to", "fall_back_to_spark"]


ResultT = TypeVar("ResultT")


def fall_back_to_spark(
    target: TargetTable, error: PredicateError, run: Callable[[], ResultT]
) -> ResultT:
    """Run an operation in Spark after a kernel error; raise the kernel's error if Spark fails too.

    Raises:
        PredicateError: the session is a Spark Connect session, or Spark can't analyze the
            expression either.
    """
    if not is_classic(target.spark):
        raise error
    try:
        return run()
    except AnalysisException as spark_error:
        if isinstance(error, OnlySparkError):
            raise
        raise error from spark_error


class OnlySparkError(PredicateError):
    """An expression that only Spark can evaluate."""


@dataclass(frozen=True, slots=True)
class KernelExpressions:
    """Converts expressions over a table's columns to expressions of the kernel.

    The methods raise PredicateError if the kernel can't evaluate an expression as Spark does.
    """

    target: TargetTable
    schema: StructType

    def predicate(self, condition: RowExpression | None) -> Predicate | None:
        if condition is None:
            return None
        predicate = map_columns(parse_predicate(self._sql(condition)), self._without_alias)
        resolve(predicate, self.schema)
        self._check(predicate, condition)
        return predicate

    def value(self, name: str, value: RowExpression) -> Expression | str:
        if value.is_default:
            return "DEFAULT"
        expression = map_columns(parse_expression(self._sql(value)), self._without_alias)
        resolve_expression(expression, self.schema)
        column = self.schema.get(self.column(name).partition(".")[0])
        if column is not None and has_timestamps(column.data_type) and not self._is_plain:
            raise OnlySparkError(
                f"{value.display_string}: it is cast in the session's time zone.",
                expression=value.display_string,
            )
        self._check(expression, value)
        return expression

    def column(self, name: str) -> str:
        alias = self.target.alias
        prefix, dot, rest = name.partition(".")
        if alias is None or not dot or prefix.strip("`").lower() != alias.lower():
            return name
        return rest

    @property
    def _is_plain(self) -> bool:
        return not is_classic(self.target.spark) or session_matches_kernel(
            self.target.spark, [self.schema]
        )

    def _check(self, expression: Expression, source: RowExpression) -> None:
        spark = self.target.spark
        if not self._is_plain and not matches_session(spark, expression, [self.schema]):
            raise OnlySparkError(
                f"{source.display_string}: its value depends on the session's settings.",
                expression=source.display_string,
            )

    def _sql(self, expression: RowExpression) -> str:
        if expression.sql is None:
            raise OnlySparkError(
                f"{expression.display_string}: only Spark can evaluate a part of it.",
                expression=expression.display_string,
            )
        return expression.sql

    def _without_alias(self, path: tuple[str, ...]) -> tuple[str, ...]:
        alias = self.target.alias
        qualified = alias is not None and len(path) > 1 and path[0].lower() == alias.lower()
        return path[1:] if qualified and self.schema.get(path[1]) is not None else path


def bound_to(frame: Any, column: Any) -> Any:
    """Bind a Column's names to the columns of a DataFrame, so that they stay unambiguous in joins.

    Args:
        frame: a DataFrame of a classic session.
        column: a Column over the DataFrame's columns.

    Raises:
        AnalysisException: the DataFrame lacks a column.
    """
    selected = frame.select(column.alias("resolved"))
    analyzed = selected._jdf.queryExecution().analyzed()  # noqa: SLF001  # no public API
    resolved = analyzed.expressions().apply(0).child()
    jvm = frame.sparkSession._jvm  # noqa: SLF001  # as above
    return Column(java_class(jvm, "org.apache.spark.sql.classic.ExpressionUtils").column(resolved))
