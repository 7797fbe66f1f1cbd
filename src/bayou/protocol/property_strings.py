"""Parsers for the values of table properties."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bayou.errors import TablePropertyError

T_co = TypeVar("T_co", covariant=True)


class PropertyValueError(TablePropertyError, ValueError):
    """An unknown table property, or an invalid value of a known property.

    The kernel adds the table's path to the error.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message, table="", key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperty(Generic[T_co]):
    """A table property: key, default value and parser.

    Attributes:
        parse: function that parses the property's value. Its ValueError names the valid values.
        settable: whether users may set the property. If false, only writers set it.
    """

    key: str
    default: T_co
    parse: Callable[[str], T_co]
    settable: bool = True

    def read(self, configuration: Mapping[str, str]) -> T_co:
        """Return the parsed value of the property, or its default if `configuration` lacks it.

        Raises:
            PropertyValueError: the value is invalid.
        """
        value = configuration.get(self.key)
        if value is None:
            return self.default
        try:
            return self.parse(value)
        except ValueError as error:
            raise PropertyValueError(
                self.key, f"table property {self.key!r} has the invalid value {value!r}: {error}"
            ) from error


def parse_interval(string: str) -> int:
    """Parse an interval such as `interval 30 days` or `7 days 12 hours` into milliseconds.

    Months and years have no fixed length and are rejected, as in delta-spark.

    Raises:
        ValueError: the string isn't an interval.
    """
    body = string.strip().lower().removeprefix("interval").strip()
    total = 0.0
    position = 0
    while position < len(body):
        match = _INTERVAL_PART.match(body, position)
        if match is None:
            raise ValueError("expected an interval such as 'interval 30 days'")
        if match["unit"] in ("month", "year"):
            raise ValueError("months and years have no fixed length, use days")
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


def boolean(string: str) -> bool:
    """Parse `true` or `false`, ignoring case."""
    match string.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("expected true or false")


def any_string(string: str) -> str:
    """Return the string unchanged; every string is valid."""
    return string


def integer_at_least(minimum: int) -> Callable[[str], int]:
    """Return a parser that accepts only integers of at least `minimum`."""

    def parse(string: str) -> int:
        try:
            value = int(string.strip())
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise ValueError(f"expected an integer of at least {minimum}")
        return value

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts `choices` in any case, and returns the matching choice."""
    by_folded = {choice.lower(): choice for choice in choices}

    def parse(string: str) -> str:
        choice = by_folded.get(string.strip().lower())
        if choice is None:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return choice

    return parse


def set_of(*choices: str) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of comma-separated lists with values from `choices`.

    The parser rejects other values and duplicates.
    """

    def parse(string: str) -> tuple[str, ...]:
        values = tuple(value.strip() for value in string.split(",")) if string.strip() else ()
        if len(set(values)) < len(values) or not set(values) <= set(choices):
            raise ValueError(
                f"expected a comma-separated list of {', '.join(choices)}, each at most once"
            )
        return values

    return parse


def byte_size(string: str) -> int | None:
    """Parse a number of bytes, such as `134217728` or `128mb`.

    The result is never None. The return type includes None because a `TableProperty` has one type
    for its parsed value and its default, and this default can be None.
    """
    match = re.fullmatch(r"\s*([0-9]+)\s*([kmgt]?)i?b?\s*", string.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("expected a size such as 134217728 or 128mb")
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def interval(string: str) -> int | None:
    """Parse an interval with `parse_interval`.

    The result is never None; see `byte_size` for the return type.
    """
    return parse_interval(string)


def column_list(string: str) -> str | None:
    """Check a list of columns with `column_paths`; return the string unchanged if it is valid."""
    column_paths(string)
    return string


def column_path(string: str) -> tuple[str, ...]:
    """Parse one column such as `s.b` into its path.

    Raises:
        ValueError: the string isn't exactly one column.
    """
    paths = column_paths(string)
    if len(paths) != 1:
        raise ValueError("expected one column name")
    return paths[0]


def column_paths(string: str) -> tuple[tuple[str, ...], ...]:
    """Parse a list of columns such as ``a, s.b, `x.y` `` into paths of unquoted names.

    Raises:
        ValueError: a quote isn't closed, or a name is empty.
    """
    if not string.strip():
        return ()
    columns: list[tuple[str, ...]] = []
    path: list[str] = []
    position = 0
    while True:
        match = _NAME.match(string, position)
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
