"""Tokens of an SQL statement, and the cursor that parsers use to read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bayou.errors import StatementError
from bayou.protocol.schema import TIMESTAMP, DataType
from bayou.protocol.sql import Token, tokenize


def statement_tokens(text: str) -> list[Token]:
    """Split a statement into tokens, without the semicolons at its end."""
    tokens = list(tokenize(text))
    for token in tokens:
        if token.kind == "open":
            raise StatementError(
                f"SQL statement: the quote or comment at {text[token.start :][:60]!r} isn't "
                "closed. Close it.",
                statement=text,
            )
    while tokens and tokens[-1].is_keyword(";"):
        tokens.pop()
    return tokens


TableName = tuple[str, ...]
"""Parts of a table's name, such as `("sales", "orders")`; `("delta", path)` for a path."""


def is_path_name(table: Sequence[str]) -> bool:
    """Whether a table name is a path: ``delta.`/path` ``."""
    return len(table) == 2 and table[0].lower() == "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserSettings:
    """Settings of a session that change the meaning of statements.

    Attributes:
        timestamp: the type that `TIMESTAMP` names in the definition of a column.
        default_format: the format of a new table without a USING clause, in lower case.
    """

    timestamp: DataType = TIMESTAMP
    default_format: str = "parquet"


_Item = TypeVar("_Item")
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


class TokenCursor:
    """A cursor over the tokens of a statement.

    `take` returns False if the next tokens don't match. `expect` and the methods that parse names,
    strings and numbers raise `StatementError` instead. The argument `expected` of a method
    describes the valid syntax, for the error message.

    Attributes:
        settings: the settings of the statement's session.
        first_table: the first table that was parsed; None if no table has been parsed.
    """

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token] | None = None,
        *,
        first: int = 0,
        settings: ParserSettings | None = None,
    ) -> None:
        self.text = text
        self.settings = settings or ParserSettings()
        self._tokens = statement_tokens(text) if tokens is None else tokens
        self._at = first
        self.first_table: TableName | None = None

    @property
    def at_string(self) -> bool:
        return not self.at_end and self._tokens[self._at].is_string

    @property
    def at_name(self) -> bool:
        return not self.at_end and self._tokens[self._at].is_name

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._tokens)

    @property
    def offset(self) -> int:
        """The character offset of the next token in the statement."""
        return self._tokens[self._at].start if not self.at_end else len(self.text)

    def text_before_last(self) -> str:
        """The statement's text before the token that was parsed last."""
        return self.text[: self._tokens[self._at - 1].start]

    def fork(self) -> TokenCursor:
        return TokenCursor(self.text, self._tokens, first=self._at, settings=self.settings)

    def next_are(self, *words: str, after: int = 0) -> bool:
        """Whether the next tokens are these keywords, after skipping `after` tokens.

        The word `A|B` matches the keyword A or B.
        """
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
        """If the next tokens are these keywords, advance past them and return True.

        The word `A|B` matches the keyword A or B.
        """
        if not self.next_are(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Advance past these keywords; raise `StatementError` if they aren't next."""
        if not self.take(*words):
            raise self.error(" ".join(words))

    def table(self) -> TableName:
        """Parse a table: a name, ``delta.`/path` `` or `'/path'`."""
        if self.at_string:
            table: TableName = ("delta", self.string("a path"))
        else:
            table = self.column("a table (a name, delta.`/path` or '/path')")
        self.first_table = self.first_table or table
        return table

    def column(self, expected: str = "the name of a column") -> tuple[str, ...]:
        """Parse a name whose parts are separated by dots."""
        parts = [self.name(expected)]
        while self.take("."):
            parts.append(self.name(expected))
        return tuple(parts)

    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Parse a comma-separated list of column names in parentheses."""
        return self.parenthesized_list(self.column)

    def name(self, expected: str = "a name") -> str:
        """Parse a name without dots."""
        if not self.at_name:
            raise self.error(expected)
        self._at += 1
        return self._tokens[self._at - 1].text

    def string(self, expected: str) -> str:
        """Parse a string literal; adjacent literals are concatenated."""
        literals: list[str] = []
        while self.at_string:
            literals.append(self._tokens[self._at].text)
            self._at += 1
        if not literals:
            raise self.error(f"{expected} in quotes")
        return "".join(literals)

    def string_or_name(self, expected: str) -> str:
        """Parse a string literal or a name."""
        if self.at_string:
            return self.string(expected)
        return self.name(expected)

    def number(self, expected: str) -> float:
        """Parse a number that can have a minus sign and a type suffix, such as `-10L`."""
        return float(self._number_text(expected))

    def integer(self, expected: str) -> int:
        """Parse an integer, with or without quotes."""
        if self.at_string:
            digits = self.string(expected).strip()
        else:
            digits = self._number_text(expected)
        if not digits.removeprefix("-").isdecimal():
            raise self.error(expected, back=1)
        return int(digits)

    def _number_text(self, expected: str) -> str:
        """Parse a number; return its sign and digits, without the suffix."""
        sign = "-" if self.take("-") else ""
        if self.at_end or not self._tokens[self._at].is_number:
            raise self.error(expected)
        self._at += 1
        return sign + self._tokens[self._at - 1].text.upper().rstrip("LSYFBD")

    def time_travel(self) -> tuple[int | None, str | None]:
        """Parse `[FOR] VERSION | TIMESTAMP AS OF ...`; return the version and the timestamp.

        Both are None if the clause isn't next.
        """
        self.take("FOR")
        if self.take("VERSION|SYSTEM_VERSION", "AS", "OF"):
            return self.integer("a version number"), None
        if self.take("TIMESTAMP|SYSTEM_TIME", "AS", "OF"):
            return None, self.string("a timestamp")
        return None, None

    def comma_separated(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Parse a comma-separated list; `item` parses one item."""
        items = [item()]
        while self.take(","):
            items.append(item())
        return tuple(items)

    def parenthesized_list(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Parse a comma-separated list in parentheses; `item` parses one item."""
        self.expect("(")
        items = self.comma_separated(item)
        self.expect(")")
        return items

    def parenthesized(self) -> str:
        """Parse an expression or query in parentheses; return the SQL between the parentheses."""
        self.expect("(")
        sql = self.until(lambda: False, expected="an expression or a query")
        self.expect(")")
        return sql

    def until(self, stops: Callable[[], bool], *, expected: str, angles: bool = False) -> str:
        """Skip tokens as `skip_until` does, and return the SQL of the skipped tokens.

        If no token is skipped, raise `StatementError`.
        """
        first = self._at
        self.skip_until(stops, angles=angles)
        if self._at == first:
            raise self.error(expected)
        return self.text[self._tokens[first].start : self._tokens[self._at - 1].end]

    def skip_until(self, stops: Callable[[], bool], *, angles: bool = False) -> None:
        """Advance token by token, and stop outside of parentheses when `stops()` returns true.

        The cursor also stops at an unmatched closing parenthesis and at the end of the statement.
        If `angles` is true, `<` and `>` count as parentheses, as in data types.
        """
        opening = (*_OPENING, "<") if angles else _OPENING
        closing = (*_CLOSING, ">") if angles else _CLOSING
        depth = 0
        while not self.at_end and not (depth == 0 and stops()):
            token = self._tokens[self._at]
            depth += token.is_keyword(*opening) - token.is_keyword(*closing)
            if depth < 0:
                return
            self._at += 1

    def until_keywords(self, *stops: str, expected: str) -> str:
        """Advance to a keyword in `stops` outside of parentheses, and return the skipped SQL.

        If there is no such keyword, advance to the end of the statement. Raise `StatementError` if
        no token is skipped.
        """
        return self.until(lambda: self.next_are("|".join(stops)), expected=expected)

    def until_end(self, expected: str) -> str:
        """Advance to the end, and return the skipped SQL; raise `StatementError` if it is empty."""
        return self.until(lambda: False, expected=expected)

    def expect_end(self) -> None:
        """Raise `StatementError` if the cursor isn't at the end of the statement."""
        if not self.at_end:
            start = self._tokens[self._at].start
            raise StatementError(
                f"SQL statement: unexpected {self.text[start:][:60]!r} after the end of the "
                "statement. Remove this text.",
                statement=self.text,
            )

    def duplicate_column_error(self, column: str) -> StatementError:
        """Return the error for a column that a SET clause assigns twice."""
        return StatementError(
            f"SQL statement: column {column} is set twice. There is a conflict from these SET "
            "columns (DELTA_CONFLICT_SET_COLUMN). Set each column once.",
            statement=self.text,
        )

    def duplicate_insert_column_error(self, column: str) -> StatementError:
        """Return the error for a column that the INSERT clause of a MERGE assigns twice."""
        return StatementError(
            f"SQL statement: column {column} is set twice; duplicate column names in INSERT clause "
            "(DELTA_DUPLICATE_COLUMNS_ON_INSERT). List each column once.",
            statement=self.text,
        )

    def error(self, expected: str, *, back: int = 0) -> StatementError:
        """Return a syntax error at the next token, or at the token `back` tokens before it.

        Args:
            expected: description of the valid syntax at this position.
        """
        at = self._at - back
        if at >= len(self._tokens):
            return StatementError(
                f"SQL statement: expected {expected} at the end of {self.text!r}.",
                statement=self.text,
            )
        actual = self.text[self._tokens[at].start :][:60]
        return StatementError(
            f"SQL statement: expected {expected} at {actual!r}.", statement=self.text
        )
