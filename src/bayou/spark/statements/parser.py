"""The statements that are Bayou's own and that no SQL parser of Spark's or sqlglot's takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from bayou.errors import StatementError
from bayou.spark.statements.lexer import Token, tokens

__all__ = [
    "CreateTemporaryView",
    "DescribeDetail",
    "DescribeHistory",
    "Statement",
    "parse_statement",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeHistory:
    """`DESCRIBE HISTORY table [LIMIT n]`; `table` is `("delta", path)` or a name's parts."""

    table: tuple[str, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDetail:
    """`DESCRIBE DETAIL table`; `table` is `("delta", path)` or a name's parts."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemporaryView:
    """`CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name [(columns)] AS query`.

    Spark keeps the text of such a view, which must not name tables that only we can resolve.
    """

    name: str
    columns: tuple[str, ...]
    query: str
    replace: bool
    is_global: bool


Statement: TypeAlias = DescribeHistory | DescribeDetail | CreateTemporaryView


def parse_statement(text: str) -> Statement | None:
    """A statement of ours; None for any other, which is Spark's.

    Raises:
        StatementError: it begins as one of ours and goes on otherwise.
    """
    words = tokens(text)
    while words and words[-1].kind == TokenType.SEMICOLON:
        words.pop()
    if len(words) > 2 and words[0].says("DESC", "DESCRIBE"):
        if words[1].says("HISTORY") and not _is_column_of(words):
            return _describe_history(text, words)
        if words[1].says("DETAIL") and not _is_column_of(words):
            table, after = _table(text, words, 2)
            _refuse_rest(text, words, after)
            return DescribeDetail(table=table)
    if words and words[0].says("CREATE"):
        return _temporary_view(text, words)
    return None


def _is_column_of(words: Sequence[Token]) -> bool:
    """`DESCRIBE history.t`: a table of the database `history`."""
    return words[2].text == "."


def _describe_history(text: str, words: Sequence[Token]) -> DescribeHistory:
    table, after = _table(text, words, 2)
    if after == len(words):
        return DescribeHistory(table=table)
    if words[after].says("LIMIT") and after + 1 < len(words) and words[after + 1].text.isdecimal():
        _refuse_rest(text, words, after + 2)
        return DescribeHistory(table=table, limit=int(words[after + 1].text))
    _refuse_rest(text, words, after)
    raise AssertionError  # what is left was refused


def _table(text: str, words: Sequence[Token], first: int) -> tuple[tuple[str, ...], int]:
    """Parts of a name, or a path in quotes; and which word follows."""
    if first >= len(words):
        raise StatementError(f"A table is missing at the end of: {text}", statement=text)
    word = words[first]
    if word.kind == TokenType.STRING:
        return ("delta", word.text), first + 1
    parts, at = [], first
    while at < len(words) and words[at].is_name:
        parts.append(words[at].text)
        at += 1
        if at >= len(words) or words[at].text != ".":
            return tuple(parts), at
        at += 1
    raise StatementError(
        f"A table is expected at {text[word.start :][:60]!r}: a name, delta.`/path` or '/path'.",
        statement=text,
    )


def _refuse_rest(text: str, words: Sequence[Token], first: int) -> None:
    if first < len(words):
        raise StatementError(
            f"The statement should end before {text[words[first].start :][:60]!r}.", statement=text
        )


def _temporary_view(text: str, words: Sequence[Token]) -> CreateTemporaryView | None:
    at = 1
    replace = is_global = False
    if words[at : at + 2] and words[at].says("OR"):
        replace, at = True, at + 2
    if at < len(words) and words[at].says("GLOBAL"):
        is_global, at = True, at + 1
    if not (at + 2 < len(words) and words[at].says("TEMP", "TEMPORARY")):
        return None
    if not words[at + 1].says("VIEW") or words[at + 2].says("IF"):
        return None
    name, at = words[at + 2].text, at + 3
    columns: list[str] = []
    if at < len(words) and words[at].text == "(":
        while at < len(words) and words[at].text != ")":
            at += 1
            if at < len(words) and words[at].is_name:
                columns.append(words[at].text)
                at += 1
            if at < len(words) and words[at].text not in (",", ")"):
                return None  # comments of columns: Spark's affair
        at += 1
    if not (at + 1 < len(words) and words[at].says("AS")):
        return None
    return CreateTemporaryView(
        name=name,
        columns=tuple(columns),
        query=text[words[at + 1].start : words[-1].end],
        replace=replace,
        is_global=is_global,
    )
