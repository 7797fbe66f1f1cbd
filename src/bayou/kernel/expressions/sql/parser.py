"""SQL text to expressions, in Spark's dialect.

sqlglot is imported on use, so that the kernel works without it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from bayou.errors import PredicateError, PrerequisiteError
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.expressions.sql.constants import lift_strings
from bayou.kernel.expressions.sql.translation import Translator

__all__ = ["parse_conjuncts", "parse_expression", "parse_predicate"]


def parse_predicate(text: str) -> Predicate:
    """Parse a condition such as `day = DATE'2024-01-05' AND (id > 10 OR name IS NULL)`.

    Strings are unescaped as Spark does; a timestamp without zone is in UTC.

    Raises:
        PredicateError: not SQL, or a part that isn't supported; names the part.
        PrerequisiteError: sqlglot isn't installed.
    """
    found = parse_expression(text)
    assert isinstance(found, Predicate)  # every kind that SQL text can name may be a condition
    return found


def parse_expression(text: str) -> Expression:
    """Parse an expression, such as that of a generated column or a CHECK constraint.

    Raises:
        PredicateError: not SQL, or a part that isn't supported; names the part.
        PrerequisiteError: sqlglot isn't installed.
    """
    tree, strings = _tree(text)
    return _translated(Translator(text, strings), tree, text)


def parse_conjuncts(text: str) -> list[Predicate]:
    """The operands of a condition's ANDs that can be understood; the others are left out.

    For whoever only wants to know what is true of rows for which the condition is true.

    Raises:
        PrerequisiteError: sqlglot isn't installed.
    """
    try:
        tree, strings = _tree(text)
    except PredicateError:
        return []
    translator = Translator(text, strings)
    found: list[Predicate] = []
    for part in _operands_of_and(tree):
        try:
            predicate = _translated(translator, part, text)
        except PredicateError:
            continue
        assert isinstance(predicate, Predicate)  # as in `parse_predicate`
        found.append(predicate)
    return found


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


def _tree(text: str) -> tuple[Any, list[str]]:
    """What sqlglot makes of a text, and the strings in it."""
    try:
        import sqlglot.errors
    except ImportError as error:
        raise PrerequisiteError(
            "Expressions as SQL text need the package sqlglot: pip install sqlglot.",
            what="sqlglot",
        ) from error
    strings: list[str] = []
    plain = lift_strings(text, strings)
    try:
        dialect, parser = _spark()
        trees = parser(dialect=dialect).parse(dialect.tokenize(plain), plain)
    except sqlglot.errors.SqlglotError as error:
        reason = _NAMES_OF_CLASSES.sub(r"\1", str(error).split("\n", 1)[0])
        raise _not_sql(text, reason) from error
    except RecursionError:
        raise _too_deep(text) from None
    if len(trees) != 1 or trees[0] is None:
        raise _not_sql(text, "one expression is needed")
    return trees[0], strings


def _translated(translator: Translator, tree: Any, text: str) -> Expression:
    try:
        return translator.expression(tree)
    except RecursionError:
        raise _too_deep(text) from None


def _too_deep(text: str) -> PredicateError:
    return PredicateError(
        f"The expression that begins with {text[:60]!r} is nested too deeply.",
        expression=text[:60],
    )


@functools.cache
def _spark() -> tuple[Any, type[Any]]:
    """Sqlglot's dialect, and its parser but for functions, which keep the names they are given."""
    from sqlglot.dialects.dialect import Dialect

    dialect: Any = Dialect.get_or_raise("spark")
    parser = type(dialect.parser())
    return dialect, type("BayouParser", (parser,), {"FUNCTIONS": {}})


_NAMES_OF_CLASSES = re.compile(r"<class '[\w.]*?(\w+)'>")
"""The parser speaks of parts of an expression by its own classes."""


def _not_sql(text: str, reason: str) -> PredicateError:
    return PredicateError(f"The expression {text!r} isn't valid SQL: {reason}", expression=text)
