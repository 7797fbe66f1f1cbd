"""`parse_statement`: recognizes Delta's SQL statements and substitutes their parameters."""

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
from bayou.spark.sql_statements.token_cursor import (
    TableName,
    Token,
    TokenCursor,
    string_literal,
    tokenize,
)
from bayou.spark.sql_statements.vacuum import parse_vacuum

__all__ = [
    "InvalidStatement",
    "bind_parameters",
    "changes_rows",
    "first_keyword",
    "may_be_delta_statement",
    "parse_statement",
    "reads_tables",
]


_FIRST = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w+)", re.DOTALL)
_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "CACHE", "MAP"})
"""First keywords of statements that read tables."""

_FAMILIES: dict[str, Callable[[TokenCursor], Statement | None]] = {
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
_DELTA_ONLY = frozenset({"CONVERT", "GENERATE", "OPTIMIZE", "REORG", "RESTORE", "VACUUM"})
"""First keywords of statements that Spark doesn't have; their syntax errors are raised at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidStatement:
    """A statement that Spark may support and that isn't a valid statement about a Delta table."""

    table: TableName | None
    error: StatementError

    def run(self, context: StatementContext) -> Any:
        """Raise the syntax error for a Delta table; leave other tables to Spark."""
        if self.table is None or context.find_table(self.table) is None:
            return NotImplemented
        raise self.error


def may_be_delta_statement(word: str) -> bool:
    """Whether a statement with this first keyword may be one about Delta tables."""
    return word in _FAMILIES or word in ("CREATE", "REPLACE")


def changes_rows(word: str) -> bool:
    """Whether a statement with this first keyword changes rows; these statements can be long."""
    return word in _ROW_CHANGES


def first_keyword(text: str) -> str:
    """The first keyword of a statement in capitals; comments and parentheses are skipped."""
    match = _FIRST.match(text)
    return "" if match is None else match[1].upper()


def reads_tables(word: str) -> bool:
    """Whether a statement with this first keyword reads tables."""
    return word in _QUERIES


def parse_statement(text: str) -> Statement | None:
    """Parse a statement about Delta tables; None for statements that are left to Spark.

    Raises:
        StatementError: a statement that only Delta has is malformed.
    """
    first = first_keyword(text)
    if first in ("CREATE", "REPLACE"):
        return parse_temporary_view(TokenCursor(text)) or parse_create_table(TokenCursor(text))
    family = _FAMILIES.get(first)
    if family is None:
        return None
    cursor = TokenCursor(text)
    if not cursor.take(first):
        return None  # a query in parentheses
    try:
        return family(cursor)
    except StatementError as error:
        if first in _DELTA_ONLY:
            raise
        return InvalidStatement(table=cursor.subject, error=error)


def bind_parameters(text: str, args: Any, values: Mapping[str, Any]) -> str:
    """Replace the parameters of a statement by SQL literals.

    Args:
        text: the statement.
        args: a list for `?`, a dictionary for `:name`, as in `spark.sql`; None for none.
        values: values of `{name}`, without DataFrames.

    Raises:
        StatementError: a parameter has no value, or a value has no SQL literal.
    """
    if not args and not values:
        return text
    tokenized = tokenize(text)
    pieces, at, number = [], 0, 0
    for index, token in enumerate(tokenized):
        following = tokenized[index + 1] if index + 1 < len(tokenized) else None
        value, end = _UNKNOWN, token.end
        if token.is_keyword("?") and isinstance(args, Sequence):
            if number >= len(args):
                raise StatementError(
                    f"SQL statement: it has more parameters than the {len(args)} values in args. "
                    "Pass a value for each `?`.",
                    statement=text,
                )
            value, number = args[number], number + 1
        elif following is not None and _is_marker(tokenized, index):
            value, end = _named_value(args, following.text, text), following.end
        elif token.is_keyword("{") and following is not None and following.text in values:
            value, end = values[following.text], tokenized[index + 2].end
        if value is not _UNKNOWN:
            pieces += [text[at : token.start], _literal(value, text)]
            at = end
    return "".join((*pieces, text[at:]))


_UNKNOWN: Any = object()


def _is_marker(tokenized: Sequence[Token], index: int) -> bool:
    """Whether the token is the colon of `:name`, and not that of `a: int` in a struct type."""
    token, following = tokenized[index], tokenized[index + 1]
    touches = token.end == following.start and following.text.isidentifier()
    if not (token.is_keyword(":") and touches):
        return False
    before = tokenized[index - 1] if index else None
    return (
        before is None
        or before.end < token.start
        or not (before.is_name or before.is_keyword(")", "]"))
    )


def _named_value(args: Any, name: str, text: str) -> Any:
    if not isinstance(args, Mapping) or name not in args:
        raise StatementError(
            f"SQL statement: parameter :{name} has no value. Pass one: "
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
            return string_literal(value)
        case dt.datetime():
            return f"TIMESTAMP{string_literal(value.isoformat(sep=' '))}"
        case dt.date():
            return f"DATE'{value.isoformat()}'"
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case _:
            raise StatementError(
                f"SQL statement: parameter value {value!r} has no literal in SQL. Write the value "
                "into the statement.",
                statement=text,
            )
