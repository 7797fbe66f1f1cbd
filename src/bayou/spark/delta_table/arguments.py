"""Checks of the arguments of `DeltaTable` and its builders.

For an argument of the wrong type, some methods of delta-spark raise a `TypeError`, others a
`ValueError`. `ArgumentTypeError` is a subclass of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayou.errors import ArgumentTypeError


def check_string(value: str, argument: str) -> str:
    """Return the argument if it is a string; raise `ArgumentTypeError` otherwise."""
    if not isinstance(value, str):
        raise _wrong_type(argument, "a string", value)
    return value


def check_integer(value: int, argument: str) -> int:
    """Return the argument if it is an integer; raise `ArgumentTypeError` otherwise."""
    if not _is_integer(value):
        raise _wrong_type(argument, "an int", value)
    return value


def check_number(value: float, argument: str) -> float:
    """Return the argument as a float; raise `ArgumentTypeError` if it isn't a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _wrong_type(argument, "a number", value) from None


def check_version(value: int, argument: str) -> int:
    """Return a protocol version if it is an integer; raise `ArgumentTypeError` otherwise."""
    if not _is_integer(value):
        raise _wrong_type(f"The {argument}", "an integer", value, argument=argument)
    return value


def check_boolean(value: bool, argument: str) -> bool:
    """Return the argument if it is a boolean; raise `ArgumentTypeError` otherwise."""
    if not isinstance(value, bool):
        raise _wrong_type(argument, "a boolean", value)
    return value


def check_strings(values: Mapping[str, str] | None, argument: str) -> dict[str, str]:
    """Return a dict of strings, or {} for None; raise `ArgumentTypeError` for other types."""
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _wrong_type(argument, "a dict", values)
    for key, value in values.items():
        check_string(key, f"each key of {argument}")
        check_string(value, f"the value of {key} in {argument}")
    return dict(values)


def check_names(columns: tuple[Any, ...], argument: str) -> tuple[str, ...]:
    """Return column names as a tuple; they are passed as `f("a", "b")` or as `f(["a", "b"])`."""
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    return tuple(check_string(column, argument) for column in columns)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong_type(
    subject: str, expected: str, value: object, *, argument: str | None = None
) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{subject} needs to be {expected} but got '{type(value)}': {value!r}.",
        argument=argument or subject,
    )
