"""Statements that are Bayou's own, told by their first words and understood by their families."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayou.errors import StatementError
from bayou.spark.sql_statements.alter_table import parse_alter_table, parse_comment
from bayou.spark.sql_statements.context import Statement, StatementContext
from bayou.spark.sql_statements.create_table import parse_create_table
from bayou.spark.sql_statements.delete_update import parse_delete, parse_truncate, parse_update
from bayou.spark.sql_statements.describe import parse_describe
from bayou.spark.sql_statements.insert import parse_insert
from bayou.spark.sql_statements.maintenance import (
    parse_convert,
    parse_generate,
    parse_optimize,
    parse_reorg,
    parse_restore,
)
from bayou.spark.sql_statements.merge import parse_merge
from bayou.spark.sql_statements.show import parse_show
from bayou.spark.sql_statements.temporary_view import parse_temporary_view
from bayou.spark.sql_statements.token_cursor import TableName, Words
from bayou.spark.sql_statements.vacuum import parse_vacuum

__all__ = ["NotUnderstood", "changes_rows", "first_word", "is_ours", "is_query", "parse_statement"]

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
