"""Statements that are Bayou's own, told by their first words and understood by their families.

Values of `?` and `:name` in statements that Spark doesn't get to see.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bayou.errors import StatementError
from bayou.spark.sql_statements.alter_table import parse_alter_table, parse_comment
from bayou.spark.sql_statements.context import Statement, StatementContext
from bayou.spark.sql_statements.create_table import parse_create_table, parse_temporary_view
from bayou.spark.sql_statements.delete_update import parse_delete, parse_truncate, parse_update
from bayou.spark.sql_statements.insert import parse_insert
from bayou.spark.sql_statements.maintenance import (
    parse_convert,
    parse_generate,
    parse_optimize,
    parse_reorg,
    parse_restore,
)
from bayou.spark.sql_statements.merge import parse_merge
from bayou.spark.sql_statements.show import parse_describe, parse_show
from bayou.spark.sql_statements.token_cursor import TableName, Token, Words, quoted_text, tokens
from bayou.spark.sql_statements.vacuum import parse_vacuum

__all__ = [
    "NotUnderstood",
    "changes_rows",
    "first_word",
    "is_ours",
    "is_query",
    "parse_statement",
    "with_parameters",
]


_FIRST = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w+)", re.DOTALL)
_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "CACHE", "MAP"})
"""First words of what may name Delta tables to read."""

_FAMILIES: dict[str, Callable[[Words], Statement | None]] = {
    "ALTER": parse_alter_table,
    "COMMENT": parse_comment,
    "CONVERT": parse_convert,
    "DELETE": parse_delete,
    "DESC": parse_describe,
    "DESCRIBE": parse_describe,
    "GENERATE": parse_generate,
    "INSERT": parse_insert,
    "MERGE": parse_merge,
    "OPTIMIZE": parse_optimize,
    "REORG": parse_reorg,
    "RESTORE": parse_restore,
    "SHOW": parse_show,
    "TRUNCATE": parse_truncate,
    "UPDATE": parse_update,
    "VACUUM": parse_vacuum,
}


_ROW_CHANGES = frozenset({"DELETE", "INSERT", "MERGE", "UPDATE"})
_DELTA_S_OWN = frozenset({"CONVERT", "GENERATE", "OPTIMIZE", "REORG", "RESTORE", "VACUUM"})
"""Statements that Spark doesn't have: what is wrong with them is ours to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUnderstood:
    """A statement that Spark has, too, and that isn't one for a Delta table."""

    table: TableName | None
    error: StatementError

    def run(self, context: StatementContext) -> Any:
        """Spark's, unless it is about a Delta table."""
        if self.table is None or context.found(self.table) is None:
            return NotImplemented
        raise self.error


def is_ours(word: str) -> bool:
    """Whether a statement that begins so may be ours."""
    return word in _FAMILIES or word in ("CREATE", "REPLACE")


def changes_rows(word: str) -> bool:
    """Whether a statement that begins so changes the rows of a table, and may be long."""
    return word in _ROW_CHANGES


def first_word(text: str) -> str:
    """The first word of a statement in capitals, behind comments and parentheses; or nothing."""
    found = _FIRST.match(text)
    return "" if found is None else found[1].upper()


def is_query(word: str) -> bool:
    """Whether a statement that begins so reads tables."""
    return word in _QUERIES


def parse_statement(text: str) -> Statement | None:
    """A statement of ours; None for any other, which is Spark's.

    Raises:
        StatementError: it begins as one of ours and goes on otherwise.
    """
    first = first_word(text)
    if first in ("CREATE", "REPLACE"):
        return parse_temporary_view(Words(text)) or parse_create_table(Words(text))
    family = _FAMILIES.get(first)
    if family is None:
        return None
    words = Words(text)
    if not words.take(first):
        return None  # in parentheses: a query of some kind
    try:
        return family(words)
    except StatementError as error:
        if first in _DELTA_S_OWN:
            raise
        return NotUnderstood(table=words.subject, error=error)


def with_parameters(text: str, args: Any, values: Mapping[str, Any]) -> str:
    """A statement with literals in the places of its parameters.

    Args:
        text: the statement.
        args: a list for `?`, a dictionary for `:name`, as of `spark.sql`; None for none.
        values: what stands for `{name}`, DataFrames left out.

    Raises:
        StatementError: a parameter without a value, or a value that has no literal.
    """
    if not args and not values:
        return text
    words = tokens(text)
    pieces, at, number = [], 0, 0
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else None
        value, end = _UNKNOWN, word.end
        if word.says("?") and isinstance(args, Sequence):
            if number >= len(args):
                raise StatementError(
                    f"The statement has more than the {len(args)} parameters that are given.",
                    statement=text,
                )
            value, number = args[number], number + 1
        elif following is not None and _is_marker(words, index):
            value, end = _named(args, following.text, text), following.end
        elif word.says("{") and following is not None and following.text in values:
            value, end = values[following.text], words[index + 2].end
        if value is not _UNKNOWN:
            pieces += [text[at : word.start], _literal(value, text)]
            at = end
    return "".join((*pieces, text[at:]))


_UNKNOWN: Any = object()


def _is_marker(words: Sequence[Token], index: int) -> bool:
    """`:name`, and not the `a: int` of a struct's type."""
    word, following = words[index], words[index + 1]
    touches = word.end == following.start and following.text.isidentifier()
    if not (word.says(":") and touches):
        return False
    before = words[index - 1] if index else None
    return (
        before is None or before.end < word.start or not (before.is_name or before.says(")", "]"))
    )


def _named(args: Any, name: str, text: str) -> Any:
    if not isinstance(args, Mapping) or name not in args:
        raise StatementError(
            f"The statement has a parameter :{name} that no value is given for: "
            f"sql(text, {{{name!r}: value}}).",
            statement=text,
        )
    return args[name]


def _literal(value: Any, text: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return f"CAST('{value!r}' AS DOUBLE)"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return f"{value:f}"
        case str():
            return quoted_text(value)
        case dt.datetime():
            return f"TIMESTAMP{quoted_text(value.isoformat(sep=' '))}"
        case dt.date():
            return f"DATE'{value.isoformat()}'"
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case _:
            raise StatementError(
                f"A parameter is {value!r}, which has no literal in SQL: write it into the "
                "statement.",
                statement=text,
            )
