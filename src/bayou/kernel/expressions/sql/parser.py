"""Parsing of SQL expressions in Spark's dialect.

sqlglot is imported on first use, because importing it takes longer than importing the kernel.
"""

from __future__ import annotations

from bayou.kernel.expressions.model import Expression, Predicate


def parse_predicate(sql: str) -> Predicate:
    """Parse a condition such as `day = DATE'2024-01-05' AND (id > 10 OR name IS NULL)`.

    String escapes follow Spark SQL. Timestamp constants without a time zone are in UTC.

    Raises:
        PredicateError: the SQL is invalid or has an unsupported part, which the message names.
    """
    predicate = parse_expression(sql)
    assert isinstance(predicate, Predicate)  # the parser returns only subclasses of Predicate
    return predicate


def parse_expression(sql: str) -> Expression:
    """Parse an expression, such as `year(ts) + 1`. Raises the errors of `parse_predicate`."""
    from bayou.kernel.expressions.sql.translation import translate

    return translate(sql)


def parse_conjuncts(sql: str) -> list[Predicate]:
    """Parse the operands of AND in a condition, and skip the operands that aren't supported."""
    from bayou.kernel.expressions.sql.translation import translate_conjuncts

    return translate_conjuncts(sql)
