"""Arguments that people give, refused in a sentence where delta-spark refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayou.errors import ArgumentError

__all__ = ["flag", "names", "number", "text", "texts"]


def text(value: str, argument: str) -> str:
    """A text."""
    given: object = value
    if not isinstance(given, str):
        raise ArgumentError(
            f"{argument} needs to be a string but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    return value


def number(value: int, argument: str) -> int:
    """A whole number."""
    given: object = value
    if not isinstance(given, int) or isinstance(given, bool):
        raise ArgumentError(
            f"{argument} needs to be an int but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    return value


def flag(value: bool, argument: str) -> bool:
    """True or false."""
    given: object = value
    if not isinstance(given, bool):
        raise ArgumentError(
            f"{argument} needs to be a boolean but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    return value


def texts(values: Mapping[str, str] | None, argument: str) -> dict[str, str]:
    """Texts by name; nothing for None."""
    given: object = {} if values is None else values
    if not isinstance(given, dict):
        raise ArgumentError(
            f"{argument} needs to be a dict but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    for key, value in given.items():
        text(key, f"each key of {argument}")
        text(value, f"the value of {key} in {argument}")
    return dict(given)


def names(columns: tuple[Any, ...], argument: str) -> tuple[str, ...]:
    """Names of columns, given one by one or as one list."""
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    return tuple(text(column, argument) for column in columns)
