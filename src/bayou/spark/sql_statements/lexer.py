"""SQL text as tokens that know where they stand, so that one can be replaced and the rest kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sqlglot.dialects import Databricks
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from bayou.errors import StatementError

__all__ = ["DIALECT", "Token", "glanced_tokens", "tokens"]


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
        named = self.kind == TokenType.IDENTIFIER or self.text.isidentifier()
        return named and not self.is_text

    @property
    def is_text(self) -> bool:
        """Whether it is a text in quotes."""
        return self.kind in _TEXTS

    @property
    def is_number(self) -> bool:
        """Whether it is a number without a sign."""
        return self.kind == TokenType.NUMBER

    def says(self, *words: str) -> bool:
        """Whether it is one of these words or signs, not quoted, in any case."""
        quoted = self.kind == TokenType.IDENTIFIER or self.is_text
        return not quoted and self.text.upper() in words


_SEVERAL = frozenset(
    kind for text, kind in _Dialect.Tokenizer.KEYWORDS.items() if text.count(" ") and text.isascii()
)
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)


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
    words: list[Token] = []
    for token in found:
        word = Token(text=token.text, kind=token.token_type, start=token.start, end=token.end + 1)
        words.extend(_each(word) if word.kind in _SEVERAL else (word,))
    return words


def glanced_tokens(text: str) -> list[Token]:
    """Names, texts and signs as `tokens` tells them apart, many times as quickly.

    Numbers come in pieces. For a text with comments or escapes they are those of `tokens`.

    Raises:
        StatementError: as `tokens`.
    """
    if any(sign in text for sign in _NOT_AT_A_GLANCE):
        return tokens(text)
    found: list[Token] = []
    for match in _GLANCE.finditer(text):
        start, end = match.span()
        word = match[0]
        sign = word[0]
        kind = TokenType.VAR
        if sign in "'\"`":
            if len(word) == 1:
                return tokens(text)  # which refuses the open quote
            kind = TokenType.IDENTIFIER if sign == "`" else TokenType.STRING
            word = word[1:-1].replace("``", "`") if sign == "`" else word[1:-1]
        found.append(Token(text=word, kind=kind, start=start, end=end))
    return found


_NOT_AT_A_GLANCE = ("--", "/*", "\\", "#", "$")
_GLANCE = re.compile(r"""\w+|'[^']*'|"[^"]*"|`(?:[^`]|``)*`|\S""")


def _each(several: Token) -> Iterator[Token]:
    """The words of what sqlglot takes as one, such as `PARTITIONED BY`."""
    for word in re.finditer(r"\w+", several.text):
        start = several.start + word.start()
        yield Token(
            text=word[0], kind=TokenType.VAR, start=start, end=start + word.end() - word.start()
        )
