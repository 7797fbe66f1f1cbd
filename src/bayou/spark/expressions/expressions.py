"""Conditions and values from users: SQL strings or Columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.errors import ArgumentError, ArgumentTypeError
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.expressions.sql.parser import parse_conjuncts
from bayou.protocol.sql import tokenize
from bayou.spark.expressions.column_string import column_sql, conjunct_sqls, connect_column_sql
from bayou.spark.expressions.session_grammar import has_raw_strings, session_sql
from bayou.spark.session.connection import is_classic


@dataclass(frozen=True, slots=True)
class RowExpression:
    """A condition or value from the user: a SQL string or a Column.

    Attributes:
        sql: the SQL; None if a part of the Column has no SQL, such as a Python UDF.
        user_column: the user's Column; None for a SQL string.
        conjunct_sqls: the SQL of the Column's conjuncts if `sql` is None, otherwise empty.
            Conjuncts without SQL are omitted.
    """

    sql: str | None
    user_column: Any = None
    conjunct_sqls: tuple[str, ...] = ()

    @property
    def column(self) -> Any:
        return F.expr(self.sql or "") if self.user_column is None else self.user_column

    @property
    def display_string(self) -> str:
        """The expression as a string for the table history and for errors."""
        return str(self.user_column) if self.sql is None else self.sql

    @property
    def conjuncts(self) -> list[Predicate]:
        """The conjuncts that the kernel can parse.

        Callers derive from the conjuncts which rows of the target table a command reads. If the
        expression contains a subquery, the list is empty, because the subquery may read other rows
        of that table.
        """
        strings = self.conjunct_sqls if self.sql is None else (self.sql,)
        if any(token.is_keyword("SELECT") for string in strings for token in tokenize(string)):
            return []
        return [part for string in strings for part in parse_conjuncts(string)]

    @property
    def is_default(self) -> bool:
        """Whether the expression is the keyword DEFAULT."""
        return self.sql is not None and self.sql.strip().upper() == "DEFAULT"


def parse_condition(
    spark: Any, condition: Any, argument: str = "condition"
) -> RowExpression | None:
    """Convert a condition from the user (a SQL string or a Column); None stays None."""
    return None if condition is None else _expression(spark, condition, argument)


def parse_values(
    spark: Any, values: Any, argument: str, method: str | None = None
) -> dict[str, RowExpression]:
    """Convert the user's mapping from column names to values (SQL strings or Columns).

    Args:
        argument: name of the argument that contains the mapping, for errors.
        method: name of the method that has this argument, for errors.
    """
    display_name = repr(argument) if method is None else f"{argument!r} in {method}"
    if values is None:
        raise ArgumentError(f"{display_name} cannot be None.", argument=argument)
    if not isinstance(values, Mapping):
        raise ArgumentTypeError(
            f"{display_name} must be a dict, found to be {type(values)}.", argument=argument
        )
    expressions: dict[str, RowExpression] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"Keys of dict in {display_name} must contain only strings with column names, "
                f"found {name!r} of type {type(name)}.",
                argument=argument,
            )
        if not isinstance(value, str | Column):
            raise ArgumentTypeError(
                f"Values of dict in {display_name} must contain only Spark SQL Columns or strings "
                f"(expressions in SQL syntax), found {value!r} of type {type(value)}.",
                argument=argument,
            )
        expressions[name] = _expression(spark, value, argument)
    return expressions


def _expression(spark: Any, value: Any, argument: str) -> RowExpression:
    if isinstance(value, str):
        value = session_sql(spark, value)
        if not has_raw_strings(spark, value):
            return RowExpression(value)
        if not is_classic(spark):
            raise ArgumentError(
                f"{argument}: {value!r} has a backslash or a doubled quote. With Spark Connect, "
                "Bayou can't evaluate such strings if spark.sql.parser.escapedStringLiterals is "
                "set. Unset this setting.",
                argument=argument,
            )
        value = F.expr(value)
    if not isinstance(value, Column):
        raise ArgumentTypeError(
            f"{argument!r} must be a Spark SQL Column or a string (expression in SQL syntax), "
            f"found to be of type {type(value)}.",
            argument=argument,
        )
    if not is_classic(spark):
        sql = connect_column_sql(value)
        if sql is None:
            raise ArgumentError(
                f"{argument}: with Spark Connect, a Column here can't contain a Python UDF or "
                "refer to a DataFrame (df['id']). Give an SQL string, or use F.col('t.id').",
                argument=argument,
            )
        return RowExpression(sql, value)
    sql = column_sql(spark, value)
    parts = conjunct_sqls(spark, value) if sql is None else ()
    return RowExpression(sql, value, tuple(parts))
