"""How values of table properties are written, and read.

Each reader takes the property's text and raises ValueError with what it expects instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bayou.errors import TablePropertyError

__all__ = [
    "PropertyValueError",
    "TableProperty",
    "at_least",
    "boolean",
    "byte_size",
    "column_list",
    "column_paths",
    "interval",
    "one_of",
    "parse_interval",
    "plain_text",
]

T_co = TypeVar("T_co", covariant=True)


class PropertyValueError(TablePropertyError, ValueError):
    """A property that isn't known, or whose value can't be used; the kernel names the table."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message, table="", key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperty(Generic[T_co]):
    """A property: its key, its value where the table doesn't say, and how its text is read.

    Attributes:
        parse: text to value; raises ValueError with what is expected.
        settable: whether a user may give it; others are written by writers only.
    """

    key: str
    default: T_co
    parse: Callable[[str], T_co]
    settable: bool = True

    def read(self, configuration: Mapping[str, str]) -> T_co:
        """The table's value.

        Raises:
            PropertyValueError: the text can't be read.
        """
        text = configuration.get(self.key)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise PropertyValueError(
                self.key, f"table property {self.key!r} can't be {text!r}: {error}"
            ) from error


def parse_interval(text: str) -> int:
    """Milliseconds of an interval such as `interval 30 days` or `7 days 12 hours`.

    Months and years have no fixed length and are refused, as delta-spark does.

    Raises:
        ValueError: not an interval.
    """
    body = text.strip().lower().removeprefix("interval").strip()
    total = 0.0
    position = 0
    while position < len(body):
        match = _INTERVAL_PART.match(body, position)
        if match is None:
            raise ValueError("expected an interval such as 'interval 30 days'")
        if match["unit"] in ("month", "year"):
            raise ValueError("months and years have no fixed length, give days")
        total += float(match["number"]) * _UNIT_MS[match["unit"]]
        position = match.end()
    if not body or total < 0:
        raise ValueError("expected an interval such as 'interval 30 days'")
    return int(total)


_INTERVAL_PART = re.compile(
    r"\s*(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?)\s*"
    r"(?P<unit>microsecond|millisecond|second|minute|hour|day|week|month|year)s?(?=\s|$)"
)
_UNIT_MS: Mapping[str, float] = {
    "microsecond": 0.001,
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}


def boolean(text: str) -> bool:
    """`true` or `false`, in any case."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("expected true or false")


def plain_text(text: str) -> str:
    """Any text."""
    return text


def at_least(least: int) -> Callable[[str], int]:
    """Whole numbers from one on."""

    def parse(text: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            value = least - 1
        if value < least:
            raise ValueError(f"expected a whole number of at least {least}")
        return value

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    """One of some words, in any case; as it is spelt here."""
    by_folded = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        choice = by_folded.get(text.strip().lower())
        if choice is None:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return choice

    return parse


def byte_size(text: str) -> int | None:
    """Bytes, of a number or of `128mb`."""
    match = re.fullmatch(r"\s*([0-9]+)\s*([kmgt]?)i?b?\s*", text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("expected a size such as 134217728 or 128mb")
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def interval(text: str) -> int | None:
    """As `parse_interval`, for a property that may be absent."""
    return parse_interval(text)


def column_list(text: str) -> str | None:
    """The text of a list that `column_paths` takes."""
    column_paths(text)
    return text


def column_paths(text: str) -> tuple[tuple[str, ...], ...]:
    """Column paths of a list such as ``a, s.b, `x.y` ``, names without their quotes.

    Raises:
        ValueError: a quote that isn't closed, or an empty name.
    """
    if not text.strip():
        return ()
    columns: list[tuple[str, ...]] = []
    path: list[str] = []
    position = 0
    while True:
        match = _NAME.match(text, position)
        if match is None:
            raise ValueError("expected column names, separated by commas")
        quoted, plain = match["quoted"], match["plain"]
        path.append(quoted.replace("``", "`") if quoted is not None else plain.strip())
        position = match.end()
        if match["end"] != ".":
            columns.append(tuple(path))
            path = []
        if match["end"] == "":
            return tuple(columns)


_NAME = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`.,]*[^`.,\s]))\s*(?P<end>[.,]|$)"
)
