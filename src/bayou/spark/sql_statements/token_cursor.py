"""The tokens of a SQL statement with their offsets, and the cursor with which parsers read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from sqlglot.dialects import Databricks
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from bayou.errors import StatementError

__all__ = [
    "DIALECT",
    "TableName",
    "Token",
    "TokenCursor",
    "fast_tokens",
    "string_literal",
    "tokenize",
]


class _Dialect(Databricks):  # type: ignore[misc]
    """Databricks SQL that tokenizes commands too: `VACUUM t` is two tokens."""

    class Tokenizer(Databricks.Tokenizer):  # type: ignore[misc]
        COMMANDS: ClassVar[set[TokenType]] = set()


DIALECT = _Dialect()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of a statement.

    Attributes:
        text: the token without its quotes.
        kind: sqlglot's token type.
        start: offset of the first character.
        end: offset after the last character.
    """

    text: str
    kind: TokenType
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether the token can name a column or table: a word, or anything in backticks."""
        named = self.kind == TokenType.IDENTIFIER or self.text.isidentifier()
        return named and not self.is_string

    @property
    def is_string(self) -> bool:
        """Whether the token is a string literal."""
        return self.kind in _STRINGS

    @property
    def is_number(self) -> bool:
        """Whether the token is a number without a sign."""
        return self.kind == TokenType.NUMBER

    def is_keyword(self, *words: str) -> bool:
        """Whether the token is one of these keywords or signs, unquoted, in any case."""
        quoted = self.kind == TokenType.IDENTIFIER or self.is_string
        return not quoted and self.text.upper() in words


_MULTI_WORD = frozenset(
    kind for text, kind in _Dialect.Tokenizer.KEYWORDS.items() if text.count(" ") and text.isascii()
)
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)


def tokenize(text: str) -> list[Token]:
    """Split SQL into tokens, without comments and blanks.

    Raises:
        StatementError: a quote or comment is open.
    """
    try:
        parsed = DIALECT.tokenize(text)
    except SqlglotError as error:
        raise StatementError(
            f"SQL statement: it can't be split into tokens: {error}. Close its quotes and "
            "comments.",
            statement=text,
        ) from error
    result: list[Token] = []
    for item in parsed:
        token = Token(text=item.text, kind=item.token_type, start=item.start, end=item.end + 1)
        result.extend(_split(token) if token.kind in _MULTI_WORD else (token,))
    return result


def fast_tokens(text: str) -> list[Token]:
    """Split SQL into names, strings and signs with a regular expression, much faster than `tokens`.

    Numbers are split into several tokens. SQL with comments or escapes is passed to `tokens`.

    Raises:
        StatementError: a quote or comment is open.
    """
    if any(sign in text for sign in _SLOW_SIGNS):
        return tokenize(text)
    result: list[Token] = []
    for match in _FAST_TOKEN.finditer(text):
        start, end = match.span()
        word = match[0]
        sign = word[0]
        kind = TokenType.VAR
        if sign in "'\"`":
            if len(word) == 1:
                return tokenize(text)  # raises the error for the open quote
            kind = TokenType.IDENTIFIER if sign == "`" else TokenType.STRING
            word = word[1:-1].replace("``", "`") if sign == "`" else word[1:-1]
        result.append(Token(text=word, kind=kind, start=start, end=end))
    return result


_SLOW_SIGNS = ("--", "/*", "\\", "#", "$")
_FAST_TOKEN = re.compile(r"""\w+|'[^']*'|"[^"]*"|`(?:[^`]|``)*`|\S""")


def _split(token: Token) -> Iterator[Token]:
    """The words of a keyword that is one token for sqlglot, such as `PARTITIONED BY`."""
    for word in re.finditer(r"\w+", token.text):
        start = token.start + word.start()
        yield Token(
            text=word[0], kind=TokenType.VAR, start=start, end=start + word.end() - word.start()
        )


TableName = tuple[str, ...]
"""Parts of a name; `("delta", path)` for a path."""

_Item = TypeVar("_Item")
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def string_literal(text: str) -> str:
    """The string as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class TokenCursor:
    """A cursor over the tokens of a statement.

    `take` advances if the next tokens match. `expect` and the parsers of names, strings and numbers
    raise `StatementError` if they don't.

    Attributes:
        text: the statement.
        subject: the first table that was parsed; None before.
    """

    def __init__(self, text: str, tokens: list[Token] | None = None) -> None:
        self.text = text
        self._tokens = tokenize(text) if tokens is None else list(tokens)
        while self._tokens and self._tokens[-1].text == ";" and not self._tokens[-1].is_string:
            self._tokens.pop()
        self._at = 0
        self.subject: TableName | None = None

    @property
    def at_string(self) -> bool:
        """Whether a string literal is next."""
        return not self.at_end and self._tokens[self._at].is_string

    @property
    def at_end(self) -> bool:
        """Whether no token is left."""
        return self._at >= len(self._tokens)

    @property
    def offset(self) -> int:
        """The offset of the next token in the statement."""
        return self._tokens[self._at].start if not self.at_end else len(self.text)

    def next_are(self, *words: str, after: int = 0) -> bool:
        """Whether these keywords are next, after skipping `after` tokens; `A|B` is either."""
        first = self._at + after
        following = self._tokens[first : first + len(words)]
        return len(following) == len(words) and all(
            token.is_keyword(*word.split("|")) for token, word in zip(following, words, strict=True)
        )

    def contains(self, *words: str) -> bool:
        """Whether these keywords occur anywhere in the remaining tokens."""
        last = len(self._tokens) - self._at - len(words)
        return any(self.next_are(*words, after=n) for n in range(last + 1))

    def take(self, *words: str) -> bool:
        """Advance past these keywords if they are next; `A|B` is either."""
        if not self.next_are(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Advance past these keywords.

        Raises:
            StatementError: other tokens are next.
        """
        if not self.take(*words):
            raise self.error(" ".join(words))

    def table(self) -> TableName:
        """Parse a table: a name, ``delta.`/path` `` or `'/path'`."""
        if self.at_string:
            table: TableName = ("delta", self.string("a path"))
        else:
            table = self.column("a table (a name, delta.`/path` or '/path')")
        self.subject = self.subject or table
        return table

    def column(self, what: str = "the name of a column") -> tuple[str, ...]:
        """Parse a name whose parts are separated by dots."""
        parts = [self.name(what)]
        while self.take("."):
            parts.append(self.name(what))
        return tuple(parts)

    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Parse names in parentheses."""
        return self.comma_separated(self.column)

    def name(self, what: str = "a name") -> str:
        """Parse a name of one part."""
        if self.at_end or not self._tokens[self._at].is_name:
            raise self.error(what)
        self._at += 1
        return self._tokens[self._at - 1].text

    def string(self, what: str) -> str:
        """Parse a string literal; adjacent literals are concatenated."""
        literals: list[str] = []
        while self.at_string:
            literals.append(self._tokens[self._at].text)
            self._at += 1
        if not literals:
            raise self.error(f"{what} in quotes")
        return "".join(literals)

    def string_or_name(self, what: str) -> str:
        """Parse a string literal or a name."""
        if self.at_string:
            return self.string(what)
        return self.name(what)

    def number(self, what: str) -> float:
        """Parse a number with an optional sign or suffix, such as `10L`."""
        sign = -1 if self.take("-") else 1
        point = "." if self.take(".") else ""  # sqlglot splits .5 into two tokens
        if self.at_end or not self._tokens[self._at].is_number:
            raise self.error(what, back=len(point))
        value = float(point + self._tokens[self._at].text)
        self._at += 1
        if self.take("::"):  # sqlglot's token between 10 and L of 10L
            self._at += 1
        return sign * value

    def integer(self, what: str) -> int:
        """Parse an integer, with or without quotes."""
        if self.at_string:
            digits = self.string(what)
            if not digits.strip().isdecimal():
                raise self.error(what, back=1)
            return int(digits)
        value = self.number(what)
        if value != int(value):
            raise self.error(what, back=1)
        return int(value)

    def comma_separated(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Parse a comma-separated list of items in parentheses."""
        self.expect("(")
        items = [item()]
        while self.take(","):
            items.append(item())
        self.expect(")")
        return tuple(items)

    def parenthesized(self) -> str:
        """The SQL inside the parentheses that are next."""
        self.expect("(")
        sql = self.until(lambda: False, what="an expression or a query")
        self.expect(")")
        return sql

    def until(self, stops: Callable[[], bool], *, what: str, angles: bool = False) -> str:
        """The SQL up to the first token outside of parentheses at which `stops` is true.

        A closing parenthesis that isn't opened here ends the SQL too.

        Args:
            stops: whether the cursor is at a stop token.
            what: the expected item, for errors.
            angles: whether `<` and `>` are parentheses, as in data types.
        """
        opening = (*_OPENING, "<") if angles else _OPENING
        closing = (*_CLOSING, ">") if angles else _CLOSING
        first, depth = self._at, 0
        while not self.at_end and not (depth == 0 and stops()):
            token = self._tokens[self._at]
            if token.is_keyword(*opening):
                depth += 1
            elif token.is_keyword(*closing):
                if depth == 0:
                    break
                depth -= 1
            self._at += 1
        if self._at == first:
            raise self.error(what)
        return self.text[self._tokens[first].start : self._tokens[self._at - 1].end]

    def until_keywords(self, *stops: str, what: str) -> str:
        """The SQL up to one of the stop words outside of parentheses, or up to the end."""
        return self.until(lambda: self.next_are("|".join(stops)), what=what)

    def rest(self, what: str) -> str:
        """The SQL up to the end."""
        return self.until(lambda: False, what=what)

    def expect_end(self) -> None:
        """Check that no token is left.

        Raises:
            StatementError: a token is left.
        """
        if not self.at_end:
            start = self._tokens[self._at].start
            raise StatementError(
                f"SQL statement: unexpected {self.text[start:][:60]!r} after its end. Remove it.",
                statement=self.text,
            )

    def error(self, what: str, *, back: int = 0) -> StatementError:
        """An error that says what is expected at the next token, or `back` tokens before it."""
        at = self._at - back
        if at >= len(self._tokens):
            return StatementError(
                f"SQL statement: expected {what} at the end of {self.text!r}.", statement=self.text
            )
        actual = self.text[self._tokens[at].start :][:60]
        return StatementError(f"SQL statement: expected {what} at {actual!r}.", statement=self.text)
