"""SQL text as tokens that know where they stand, so that one can be replaced and the rest kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot.dialects import Databricks
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from bayou.errors import StatementError

__all__ = ["DIALECT", "Token", "tokens"]


class _Dialect(Databricks):  # type: ignore[misc]
    """Databricks SQL, in which no statement is swallowed whole: `VACUUM t` has two tokens."""

    class Tokenizer(Databricks.Tokenizer):  # type: ignore[misc]
        COMMANDS: ClassVar[set[TokenType]] = set()


DIALECT = _Dialect()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of a statement.

    Attributes:
        text: without its quotes.
        kind: of sqlglot's kinds.
        start: offset of its first character.
        end: offset behind its last one.
    """

    text: str
    kind: TokenType
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether it can stand for a column or table: a word, or anything in backticks."""
        return self.kind == TokenType.IDENTIFIER or self.text.isidentifier()

    def says(self, *words: str) -> bool:
        """Whether it is one of these words or signs, not quoted, in any case."""
        quoted = self.kind in (TokenType.IDENTIFIER, TokenType.STRING)
        return not quoted and self.text.upper() in words


def tokens(text: str) -> list[Token]:
    """Tokens of a text, comments and blanks left out.

    Raises:
        StatementError: it has an open quote or comment.
    """
    try:
        found = DIALECT.tokenize(text)
    except SqlglotError as error:
        raise StatementError(
            f"The statement can't be split into words: {error}. Close its quotes and comments.",
            statement=text,
        ) from error
    return [Token(text=t.text, kind=t.token_type, start=t.start, end=t.end + 1) for t in found]
