"""Parsing of an SQL expression to sqlglot's syntax tree."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from bayou.errors import PredicateError
from bayou.protocol.sql import Token, quote_identifier, string_literal, tokenize


class _Parser(SparkParser):
    """sqlglot's parser for Spark SQL, with an empty list of known functions.

    sqlglot changes the names of known functions. With an empty list, functions keep their names.
    """

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}


_SPARK = Spark()
_CLASS_NAMES = re.compile(r"<class '[\w.]*?(\w+)'>")
"""Regular expression that matches the class names in sqlglot's error messages."""


def parse_tree(sql: str) -> exp.Expr:
    """Parse an SQL expression; return sqlglot's syntax tree."""
    plain = _with_plain_tokens(sql)
    try:
        trees = _Parser(dialect=_SPARK).parse(_SPARK.tokenize(plain), plain)
    except SqlglotError as error:
        reason = _CLASS_NAMES.sub(r"\1", str(error).split("\n", 1)[0])
        raise _invalid_sql(sql, reason) from error
    if len(trees) != 1 or trees[0] is None:
        raise _invalid_sql(sql, "exactly one expression is required")
    return trees[0]


def _with_plain_tokens(sql: str) -> str:
    """Remove comments, and rewrite strings and names so that sqlglot reads them as Spark does."""
    pieces: list[str] = []
    at = 0
    all_tokens = list(tokenize(sql))
    columns = _columns_that_sqlglot_drops(all_tokens)
    for is_string, group in itertools.groupby(all_tokens, key=lambda token: token.is_string):
        tokens = list(group)
        if is_string:  # adjacent literals are one string
            literal = string_literal("".join(token.text for token in tokens))
            pieces += [_NOT_BLANK.sub(" ", sql[at : tokens[0].start]), literal]
        else:
            for token in tokens:
                if token.kind == "open":
                    raise _invalid_sql(sql, "a quote or comment isn't closed")
                blanks = _NOT_BLANK.sub(" ", sql[at : token.start])
                text = sql[token.start : token.end]
                pieces += [blanks, quote_identifier(text) if token.start in columns else text]
                at = token.end
        at = tokens[-1].end
    return "".join(pieces)


def _columns_that_sqlglot_drops(tokens: Sequence[Token]) -> set[int]:
    """Return the offsets of columns named ALL or AS that are function arguments: `f(all, 0)`.

    The caller quotes these names. If they aren't quoted, sqlglot reads them as keywords and drops
    the arguments.
    """
    return {
        token.start
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if token.is_keyword("ALL", "AS")
        and before.is_keyword("(", ",")
        and after.is_keyword(",", ")")
    }


_NOT_BLANK = re.compile(r"\S")


def _invalid_sql(sql: str, reason: str) -> PredicateError:
    return PredicateError(
        f"The expression {sql!r} isn't valid SQL (PARSE_SYNTAX_ERROR): {reason}", expression=sql
    )
