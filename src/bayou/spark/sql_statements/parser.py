"""`parse_statement` parses Delta's SQL statements; `bind_parameters` substitutes parameters."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bayou.errors import StatementError
from bayou.protocol.sql import Token, string_literal, tokenize
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
    parse_vacuum,
)
from bayou.spark.sql_statements.merge import parse_merge
from bayou.spark.sql_statements.show import parse_describe, parse_show
from bayou.spark.sql_statements.token_cursor import (
    ParserSettings,
    TableName,
    TokenCursor,
    statement_tokens,
)

_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "CACHE", "MAP"})
"""First keywords of statements that read tables."""

_PARSERS: dict[str, Callable[[TokenCursor], Statement | None]] = {
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
"""First keywords of statements that only Delta tables support.

A syntax error in one of these statements is always raised. A syntax error in any other statement is
raised only for a Delta table, because Spark may accept the statement for a table of another format.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidStatement:
    """A statement with an error, such as a syntax error.

    The error is raised only for a Delta table, because Spark may accept the statement for a table
    of another format.
    """

    table: TableName | None
    error: StatementError

    def run(self, context: StatementContext) -> Any:
        """Raise `error` if the table is a Delta table; otherwise return NotImplemented."""
        if self.table is None or context.find_table(self.table) is None:
            return NotImplemented
        raise self.error


def may_be_delta_statement(word: str) -> bool:
    """Whether Bayou executes at least some of the statements with this first keyword."""
    return word in _PARSERS or word in ("CREATE", "REPLACE")


def changes_rows(word: str) -> bool:
    """Whether a statement with this first keyword changes rows."""
    return word in _ROW_CHANGES


def first_keyword(text: str) -> str:
    """Return a statement's first keyword in upper case; "" if it doesn't start with a keyword.

    Comments and opening parentheses are skipped. For a MERGE after a WITH clause, the result is
    `MERGE`.
    """
    first = next((token for token in tokenize(text) if not token.is_keyword("(")), None)
    if first is None or first.kind != "word":
        return ""
    if first.is_keyword("WITH") and _merge_after_with(list(tokenize(text))) is not None:
        return "MERGE"
    return first.text.upper()


def _merge_after_with(tokens: Sequence[Token]) -> int | None:
    """Return the index of the token MERGE in `WITH name AS (query), ... MERGE ...`.

    Returns None for other statements.
    """
    if not (tokens and tokens[0].is_keyword("WITH")):
        return None
    depth = 0
    for position, token in enumerate(tokens):
        depth += token.is_keyword("(") - token.is_keyword(")")
        if depth == 0 and token.is_keyword("MERGE") and tokens[position - 1].is_keyword(")"):
            return position
    return None


def reads_tables(word: str) -> bool:
    """Whether a statement with this first keyword reads tables."""
    return word in _QUERIES


def parse_statement(text: str, settings: ParserSettings | None = None) -> Statement | None:
    """Parse a statement about Delta tables; return None for a statement that Spark must run.

    For most syntax errors, no error is raised, and the result is an `InvalidStatement`.

    Raises:
        StatementError: a quote or a comment isn't closed. The error is also raised for a syntax
            error in a `CREATE` or `REPLACE` of a Delta table, or in a statement that starts with a
            keyword of `_DELTA_ONLY`.
    """
    first = first_keyword(text)
    if first in ("CREATE", "REPLACE"):
        view = parse_temporary_view(TokenCursor(text))
        return view or parse_create_table(TokenCursor(text, settings=settings))
    parser = _PARSERS.get(first)
    if parser is None:
        return None
    cursor = TokenCursor(text, settings=settings)
    after_with = _merge_after_with(statement_tokens(text)) if first == "MERGE" else None
    if after_with is not None:
        cursor = TokenCursor(text, first=after_with)
    if not cursor.take(first):
        return None  # a query in parentheses
    try:
        return parser(cursor)
    except StatementError as error:
        if first in _DELTA_ONLY:
            raise
        return InvalidStatement(table=cursor.first_table, error=error)


def bind_parameters(
    text: str,
    args: Any,
    values: Mapping[str, Any],
    string_literal: Callable[[str], str] = string_literal,
) -> str:
    """Replace the parameters of a statement by SQL literals.

    Args:
        args: a list of the values of `?`, or a dictionary of the values of `:name`, as in
            `spark.sql`. None if the statement has no such parameters.
        values: values of the placeholders `{name}`, without DataFrames.
        string_literal: function that converts a string to an SQL literal.
    """
    if not args and not values:
        return text
    tokenized = statement_tokens(text)
    sql_parts, at, number = [], 0, 0
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
        elif following is not None and _is_parameter_marker(tokenized, index):
            value, end = _named_value(args, following.text, text), following.end
        elif token.is_keyword("{") and following is not None and following.text in values:
            value, end = values[following.text], tokenized[index + 2].end
        if value is not _UNKNOWN:
            sql_parts += [text[at : token.start], _literal(value, text, string_literal)]
            at = end
    return "".join((*sql_parts, text[at:]))


_UNKNOWN: Any = object()


def _in_utc(value: dt.datetime) -> dt.datetime:
    """Convert a datetime without a time zone from the process's time zone to UTC.

    PySpark does the same. A datetime with a time zone is returned unchanged.
    """
    if value.tzinfo is not None:
        return value
    try:
        return value.astimezone(dt.UTC)
    except (OverflowError, ValueError):  # the first or the last day of the calendar
        return value


def _is_parameter_marker(tokenized: Sequence[Token], index: int) -> bool:
    """Whether a token is the colon of a parameter `:name`, not of a type like `struct<a:int>`."""
    token, following = tokenized[index], tokenized[index + 1]
    is_adjacent = token.end == following.start and following.text.isidentifier()
    if not (token.is_keyword(":") and is_adjacent):
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


def _number(digits: str) -> str:
    """Enclose a negative number in parentheses.

    Otherwise the parameter -1 in `a -?` would result in `a --1`, and `--` starts a comment.
    """
    return f"({digits})" if digits.startswith("-") else digits


def _literal(value: Any, text: str, string_literal: Callable[[str], str]) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return _number(str(value))
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case Decimal():
            return _number(f"{value:f}BD")
        case str():
            return string_literal(value)
        case dt.datetime():
            return f"TIMESTAMP'{_in_utc(value).isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE'{value.isoformat()}'"
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case _:
            raise StatementError(
                f"SQL statement: SQL has no literal for the parameter value {value!r}. Write the "
                "value into the statement as an expression.",
                statement=text,
            )
