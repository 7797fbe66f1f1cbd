"""Parsing of SQL expressions in Spark's dialect.

sqlglot is imported on first use, so that the kernel works without it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from bayou.errors import PredicateError, PrerequisiteError
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.expressions.sql.constants import replace_strings
from bayou.kernel.expressions.sql.translation import Translator

__all__ = ["parse_conjuncts", "parse_expression", "parse_predicate"]


def parse_predicate(sql: str) -> Predicate:
    """Parse a condition such as `day = DATE'2024-01-05' AND (id > 10 OR name IS NULL)`.

    String escapes are those of Spark. A timestamp without a time zone is in UTC.

    Raises:
        PredicateError: the SQL is invalid or has an unsupported part, which the message names.
        PrerequisiteError: sqlglot isn't installed.
    """
    predicate = parse_expression(sql)
    assert isinstance(predicate, Predicate)  # the parser returns only subclasses of Predicate
    return predicate


def parse_expression(sql: str) -> Expression:
    """Parse an expression, such as that of a generated column or a CHECK constraint.

    Raises:
        PredicateError: the SQL is invalid or has an unsupported part, which the message names.
        PrerequisiteError: sqlglot isn't installed.
    """
    tree, strings = _parse(sql)
    return _translate(Translator(sql, strings), tree, sql)


def parse_conjuncts(sql: str) -> list[Predicate]:
    """Parse the supported conjuncts (operands of AND) of a condition, and skip all others.

    The conjuncts are true for all rows for which the condition is true.

    Raises:
        PrerequisiteError: sqlglot isn't installed.
    """
    try:
        tree, strings = _parse(sql)
    except PredicateError:
        return []
    translator = Translator(sql, strings)
    conjuncts: list[Predicate] = []
    for part in _operands_of_and(tree):
        try:
            predicate = _translate(translator, part, sql)
        except PredicateError:
            continue
        assert isinstance(predicate, Predicate)  # as in `parse_predicate`
        conjuncts.append(predicate)
    return conjuncts


def _operands_of_and(tree: Any) -> Iterator[Any]:
    kind = None if tree.args.get("negate") else type(tree).__name__
    match kind:
        case "And":
            yield from _operands_of_and(tree.left)
            yield from _operands_of_and(tree.right)
        case "Paren":
            yield from _operands_of_and(tree.this)
        case _:
            yield tree


def _parse(sql: str) -> tuple[Any, list[str]]:
    """Sqlglot's tree of an expression, and the string constants in the expression."""
    try:
        import sqlglot.errors
    except ImportError as error:
        raise PrerequisiteError(
            "sqlglot: SQL expressions need this package. Run pip install sqlglot.",
            what="sqlglot",
        ) from error
    strings: list[str] = []
    plain = replace_strings(sql, strings)
    try:
        dialect, parser = _spark()
        trees = parser(dialect=dialect).parse(dialect.tokenize(plain), plain)
    except sqlglot.errors.SqlglotError as error:
        reason = _CLASS_NAMES.sub(r"\1", str(error).split("\n", 1)[0])
        raise _invalid_sql(sql, reason) from error
    except RecursionError:
        raise _too_deep(sql) from None
    if len(trees) != 1 or trees[0] is None:
        raise _invalid_sql(sql, "exactly one expression is required")
    return trees[0], strings


def _translate(translator: Translator, tree: Any, sql: str) -> Expression:
    try:
        return translator.expression(tree)
    except RecursionError:
        raise _too_deep(sql) from None


def _too_deep(sql: str) -> PredicateError:
    return PredicateError(
        f"The expression that starts with {sql[:60]!r} is nested too deeply. Reduce its nesting.",
        expression=sql[:60],
    )


@functools.cache
def _spark() -> tuple[Any, type[Any]]:
    """Sqlglot's dialect, and its parser without function names: these stay as in the SQL."""
    from sqlglot.dialects.dialect import Dialect

    dialect: Any = Dialect.get_or_raise("spark")
    parser = type(dialect.parser())
    return dialect, type("BayouParser", (parser,), {"FUNCTIONS": {}})


_CLASS_NAMES = re.compile(r"<class '[\w.]*?(\w+)'>")
"""Class names in sqlglot's error messages."""


def _invalid_sql(sql: str, reason: str) -> PredicateError:
    return PredicateError(f"The expression {sql!r} isn't valid SQL: {reason}", expression=sql)
