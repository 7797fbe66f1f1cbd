"""`SubqueryTables`: makes Delta tables readable in the subqueries of a statement's expressions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.protocol.sql import tokenize
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.session.connection import is_classic
from bayou.spark.sql_statements.delta_references import delta_references, read_reference
from bayou.spark.sql_statements.schema_qualifiers import replace_tables

_SELECT = "SELECT "


@dataclass(frozen=True, slots=True)
class SubqueryTables:
    """Context manager that replaces Delta tables in subqueries by temporary views.

    In a subquery of an expression, Spark can't read a Delta table by its name or path. `__enter__`
    returns the method `resolve`, which creates the views. The views are dropped at the end of the
    `with` block.
    """

    spark: Any
    views: list[str] = field(default_factory=list)

    def resolve(self, expression: RowExpression) -> RowExpression:
        """Replace the Delta tables in the subqueries of an SQL expression by temporary views.

        The result keeps the original SQL, which the table history shows. An expression that is a
        Column is returned unchanged. In a Connect session, all expressions are returned unchanged.
        """
        sql = expression.sql
        if sql is None or expression.user_column is not None or not is_classic(self.spark):
            return expression
        if not any(token.is_keyword("SELECT", "TABLE") for token in tokenize(sql)):
            return expression
        query = _SELECT + sql  # `delta_references` parses a query, not an expression
        replacements = []
        for reference, location in delta_references(self.spark, query):
            view = f"bayou_subquery_{uuid.uuid4().hex}"
            read_reference(self.spark, reference, location).createOrReplaceTempView(view)
            self.views.append(view)
            replacements.append((reference, view))
        if not replacements:
            return expression
        replaced = replace_tables(self.spark, query, replacements).removeprefix(_SELECT)
        return replace(expression, user_column=F.expr(replaced))

    def __enter__(self) -> Callable[[RowExpression], RowExpression]:
        return self.resolve

    def __exit__(self, *_: object) -> None:
        while self.views:
            self.spark.catalog.dropTempView(self.views.pop())
