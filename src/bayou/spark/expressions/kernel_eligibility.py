"""Conditions and values that the kernel evaluates, told from those that are left to Spark.

Names in a Column that stand for columns of one DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column

from bayou.errors import PredicateError
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.expressions.resolution import resolve_expression, with_paths
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.protocol.schema import StructType
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_semantics import (
    has_timestamps,
    is_plain_session,
    means_the_same,
)
from bayou.spark.jvm.classes import java_class
from bayou.spark.target import TargetTable, is_classic

__all__ = ["OnlySparkError", "Understood", "by_spark", "resolved_in"]


ResultT = TypeVar("ResultT")


def by_spark(target: TargetTable, error: PredicateError, run: Callable[[], ResultT]) -> ResultT:
    """What the kernel can't evaluate Spark may; what neither understands is the kernel's error."""
    if not is_classic(target.spark):
        raise error
    try:
        return run()
    except AnalysisException as theirs:
        if isinstance(error, OnlySparkError):
            raise
        raise error from theirs


class OnlySparkError(PredicateError):
    """An expression that isn't for the kernel."""


@dataclass(frozen=True, slots=True)
class Understood:
    """Expressions over a table's columns as the kernel understands them.

    Its methods raise PredicateError where it doesn't, or would mean something else.
    """

    target: TargetTable
    schema: StructType

    def predicate(self, condition: RowExpression | None) -> Predicate | None:
        if condition is None:
            return None
        predicate = with_paths(parse_predicate(self._text(condition)), self._own)
        resolve(predicate, self.schema)
        self._check(predicate, condition)
        return predicate

    def value(self, name: str, value: RowExpression) -> Expression | str:
        if value.is_default:
            return "DEFAULT"
        expression = with_paths(parse_expression(self._text(value)), self._own)
        resolve_expression(expression, self.schema)
        column = self.schema.get(self.column(name).partition(".")[0])
        if column is not None and has_timestamps(column.data_type) and not self._is_plain:
            raise OnlySparkError("A cast in the session's time zone.", expression=value.shown)
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
        return not is_classic(self.target.spark) or is_plain_session(
            self.target.spark, [self.schema]
        )

    def _check(self, expression: Expression, given: RowExpression) -> None:
        spark = self.target.spark
        if not self._is_plain and not means_the_same(spark, expression, [self.schema]):
            raise OnlySparkError("It depends on the session's settings.", expression=given.shown)

    def _text(self, given: RowExpression) -> str:
        if given.text is None:
            raise OnlySparkError("It has a part that only Spark runs.", expression=given.shown)
        return given.text

    def _own(self, path: tuple[str, ...]) -> tuple[str, ...]:
        alias = self.target.alias
        named = alias is not None and len(path) > 1 and path[0].lower() == alias.lower()
        return path[1:] if named and self.schema.get(path[1]) is not None else path


def resolved_in(frame: Any, column: Any) -> Any:
    """A Column that means in whatever is made of a DataFrame what it means in that.

    Args:
        frame: of a classic session.
        column: may name columns by names that others have, too, elsewhere.

    Raises:
        AnalysisException: it names what the DataFrame hasn't got.
    """
    chosen = frame.select(column.alias("resolved"))
    analyzed = chosen._jdf.queryExecution().analyzed()  # noqa: SLF001  # published nowhere
    resolved = analyzed.expressions().apply(0).child()
    jvm = frame.sparkSession._jvm  # noqa: SLF001  # as above
    return Column(java_class(jvm, "org.apache.spark.sql.classic.ExpressionUtils").column(resolved))
