"""The words of a statement, taken one after the other by the parser of its family.

SQL text as tokens that know where they stand, so that one can be replaced and the rest kept.
"""

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
    "Words",
    "glanced_tokens",
    "quoted_name",
    "quoted_text",
    "tokens",
]


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


TableName = tuple[str, ...]
"""Parts of a name; `("delta", path)` for a path."""

_Item = TypeVar("_Item")
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def quoted_name(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Words:
    """A statement and a place in it. `take` moves on where the words are there, `expect` refuses.

    Attributes:
        text: the statement.
        subject: the first table that was taken, None before.
    """

    def __init__(self, text: str, words: list[Token] | None = None) -> None:
        self.text = text
        self._words = tokens(text) if words is None else list(words)
        while self._words and self._words[-1].text == ";" and not self._words[-1].is_text:
            self._words.pop()
        self._at = 0
        self.subject: TableName | None = None

    @property
    def at_text(self) -> bool:
        """Whether a text in quotes is next."""
        return not self.ended and self._words[self._at].is_text

    @property
    def ended(self) -> bool:
        """Whether no word is left."""
        return self._at >= len(self._words)

    @property
    def offset(self) -> int:
        """Where the next word begins in the text."""
        return self._words[self._at].start if not self.ended else len(self.text)

    def begin_with(self, *words: str, after: int = 0) -> bool:
        """Whether these are the next words; `after` so many others."""
        first = self._at + after
        found = self._words[first : first + len(words)]
        return len(found) == len(words) and all(
            w.says(*wanted.split("|")) for w, wanted in zip(found, words, strict=True)
        )

    def has_ahead(self, *words: str) -> bool:
        """Whether these words stand anywhere from here on."""
        last = len(self._words) - self._at - len(words)
        return any(self.begin_with(*words, after=n) for n in range(last + 1))

    def take(self, *words: str) -> bool:
        """Go behind these words where they are the next ones; `A|B` is either."""
        if not self.begin_with(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Go behind these words.

        Raises:
            StatementError: others stand here.
        """
        if not self.take(*words):
            raise self.error(" ".join(words))

    def table(self) -> TableName:
        """A table: a name, ``delta.`/path` `` or `'/path'`."""
        if self.at_text:
            found: TableName = ("delta", self.string("a path"))
        else:
            found = self.column("a table: a name, delta.`/path` or '/path'")
        self.subject = self.subject or found
        return found

    def column(self, what: str = "the name of a column") -> tuple[str, ...]:
        """A name with dots between its parts."""
        parts = [self.name(what)]
        while self.take("."):
            parts.append(self.name(what))
        return tuple(parts)

    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Names in parentheses."""
        return self.several(self.column)

    def name(self, what: str = "a name") -> str:
        """One name."""
        if self.ended or not self._words[self._at].is_name:
            raise self.error(what)
        self._at += 1
        return self._words[self._at - 1].text

    def string(self, what: str) -> str:
        """A text in quotes; texts side by side are one."""
        found: list[str] = []
        while self.at_text:
            found.append(self._words[self._at].text)
            self._at += 1
        if not found:
            raise self.error(f"{what}, in quotes")
        return "".join(found)

    def string_or_name(self, what: str) -> str:
        """A text in quotes, or a bare name."""
        if self.at_text:
            return self.string(what)
        return self.name(what)

    def number(self, what: str) -> float:
        """A number, with a sign or without; `10L` too."""
        sign = -1 if self.take("-") else 1
        point = "." if self.take(".") else ""  # how sqlglot takes .5 apart
        if self.ended or not self._words[self._at].is_number:
            raise self.error(what, back=len(point))
        value = float(point + self._words[self._at].text)
        self._at += 1
        if self.take("::"):  # how sqlglot takes the L of 10L apart
            self._at += 1
        return sign * value

    def integer(self, what: str) -> int:
        """A whole number, also in quotes."""
        if self.at_text:
            text = self.string(what)
            if not text.strip().isdecimal():
                raise self.error(what, back=1)
            return int(text)
        value = self.number(what)
        if value != int(value):
            raise self.error(what, back=1)
        return int(value)

    def several(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Items in parentheses, with commas between."""
        self.expect("(")
        found = [item()]
        while self.take(","):
            found.append(item())
        self.expect(")")
        return tuple(found)

    def parenthesized(self) -> str:
        """What stands in the parentheses that open here, as text."""
        self.expect("(")
        text = self.until(lambda: False, what="what stands in parentheses")
        self.expect(")")
        return text

    def until(self, stops: Callable[[], bool], *, what: str, angles: bool = False) -> str:
        """Text from here to where `stops` says so outside of any parentheses, or they close.

        Args:
            stops: looks at the words that are next.
            what: is expected here.
            angles: `<` and `>` are parentheses, too: in a type they are.
        """
        opening = (*_OPENING, "<") if angles else _OPENING
        closing = (*_CLOSING, ">") if angles else _CLOSING
        first, depth = self._at, 0
        while not self.ended and not (depth == 0 and stops()):
            word = self._words[self._at]
            if word.says(*opening):
                depth += 1
            elif word.says(*closing):
                if depth == 0:
                    break
                depth -= 1
            self._at += 1
        if self._at == first:
            raise self.error(what)
        return self.text[self._words[first].start : self._words[self._at - 1].end]

    def until_words(self, *stops: str, what: str) -> str:
        """Text up to one of some words outside of any parentheses, or the end."""
        return self.until(lambda: self.begin_with("|".join(stops)), what=what)

    def rest(self, what: str) -> str:
        """All that is left, as text."""
        return self.until(lambda: False, what=what)

    def end(self) -> None:
        """Nothing may follow.

        Raises:
            StatementError: something does.
        """
        if not self.ended:
            start = self._words[self._at].start
            raise StatementError(
                f"The statement should end before {self.text[start:][:60]!r}.", statement=self.text
            )

    def error(self, what: str, *, back: int = 0) -> StatementError:
        """What is expected here, and what stands here."""
        at = self._at - back
        if at >= len(self._words):
            return StatementError(
                f"{_capital(what)} is missing at the end of: {self.text}", statement=self.text
            )
        found = self.text[self._words[at].start :][:60]
        return StatementError(f"{_capital(what)} is expected at {found!r}.", statement=self.text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
