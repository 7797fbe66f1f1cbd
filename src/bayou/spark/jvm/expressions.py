"""Expressions of Catalyst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column

from bayou.spark.jvm.objects import (
    JavaObject,
    class_name,
    java_class,
    scala_items,
    scala_seq,
    tested_with,
)

__all__ = ["CatalystExpression", "CatalystFilter", "ansi_cast", "bound_to", "legacy_cast"]


@tested_with("4.2", "4.3")
class CatalystExpression:
    """An unresolved expression tree of Catalyst.

    Attributes:
        class_name: name of the expression's class in Catalyst, such as `UnresolvedFunction`.
    """

    def __init__(self, expression: JavaObject) -> None:
        self._expression = expression
        self.class_name = class_name(expression)

    @classmethod
    def of(cls, spark: Any, column: Any) -> CatalystExpression:
        return cls(spark._jsparkSession.expression(column._jc))

    @property
    def children(self) -> list[CatalystExpression]:
        return [CatalystExpression(e) for e in scala_items(self._expression.children())]

    @property
    def name_parts(self) -> list[str]:
        """The parts of the name of a function; only for an `UnresolvedFunction`."""
        return [str(part) for part in scala_items(self._expression.nameParts())]

    @property
    def cast_type(self) -> str:
        """The target type of a `Cast`, in SQL."""
        return str(self._expression.dataType().sql())

    @property
    def sql(self) -> str:
        """The SQL that Catalyst generates."""
        return str(self._expression.sql())


@dataclass(frozen=True, slots=True, kw_only=True)
@tested_with("4.2", "4.3")
class CatalystFilter:
    """A filter of a scan in Catalyst, over resolved columns.

    Attributes:
        sql: the result of `Expression.sql()`.
        columns: (SQL, name) of each column that the filters of the scan use. The SQL may be
            qualified: `t.id`.
    """

    sql: str
    columns: Sequence[tuple[str, str]]

    @classmethod
    def all_of(cls, expressions: Sequence[JavaObject]) -> list[CatalystFilter]:
        """Create the `CatalystFilter`s of a scan from the scan's Catalyst expressions."""
        if not expressions:
            return []
        attribute_set = java_class(
            expressions[0], "org.apache.spark.sql.catalyst.expressions.AttributeSet$"
        )
        # The class has the static methods of `Iterable`, too.
        companion = getattr(attribute_set, "MODULE$")
        references = companion.apply(scala_seq(expressions[0], expressions))
        columns = tuple((str(c.sql()), str(c.name())) for c in scala_items(references.toSeq()))
        return [cls(sql=str(expression.sql()), columns=columns) for expression in expressions]


@tested_with("4.3")
def ansi_cast(column: Any, data_type: Any) -> Column:
    """Cast a Column in ANSI mode (invalid values are errors), whatever mode the session has."""
    return _cast(column, data_type, "Ansi")


@tested_with("4.3")
def legacy_cast(column: Any, data_type: Any) -> Column:
    """Cast a Column in non-ANSI mode: invalid values become NULL, and numbers wrap around."""
    return _cast(column, data_type, "Legacy")


def _cast(column: Any, data_type: Any, mode_name: str) -> Column:
    cast = column.try_cast(data_type)._jc.node()
    name = f"org.apache.spark.sql.internal.Cast${mode_name}$"
    mode = getattr(java_class(cast, name), "MODULE$")
    some = java_class(cast, "scala.Option").apply(mode)
    node = cast.copy(cast.child(), cast.dataType(), some, cast.origin())
    return Column(java_class(cast, "org.apache.spark.sql.Column")(node))


@tested_with("4.3")
def bound_to(frame: Any, column: Any) -> Column:
    """Bind the names in a Column to a DataFrame's columns; joins then can't make them ambiguous.

    Raises:
        AnalysisException: the DataFrame lacks a column.
    """
    selected = frame.select(column.alias("resolved"))
    resolved = selected._jdf.queryExecution().analyzed().expressions().apply(0).child()
    utils = java_class(resolved, "org.apache.spark.sql.classic.ExpressionUtils")
    return Column(utils.column(resolved))
