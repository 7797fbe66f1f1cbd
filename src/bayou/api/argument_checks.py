"""Arguments that the short API takes from people: refused in a sentence, not by what they break.

A table and the engine that reaches it: what every part of the short API stands on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from bayou.errors import ArgumentError
from bayou.kernel import Engine, Predicate, Table
from bayou.kernel.expressions.model import Expression

__all__ = [
    "BoundTable",
    "checked_condition",
    "checked_names",
    "checked_number",
    "checked_path",
    "checked_text",
    "checked_texts",
    "checked_values",
]


Number = TypeVar("Number", int, float)


def checked_path(path: object) -> str:
    """A table's path as text.

    Raises:
        ArgumentError: it is empty or no path.
    """
    text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError(
            f"{path!r} isn't a table's path; give a local path or a URI such as 's3://lake/events'.",
            argument="path",
        )
    return text


def checked_names(names: Sequence[str] | None, argument: str) -> tuple[str, ...] | None:
    """Names of columns.

    Raises:
        ArgumentError: one text instead of a list, or a name that isn't text.
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise ArgumentError(
            f"{argument} is the text {names!r}; give a list of names, [{names!r}].",
            argument=argument,
        )
    found = tuple(names)
    for name in found:
        if not isinstance(name, str):
            raise ArgumentError(
                f"{argument} has {name!r}, which isn't the name of a column.", argument=argument
            )
    return found


def checked_text(value: str, argument: str) -> str:
    """A text.

    Raises:
        ArgumentError: something else.
    """
    given: object = value
    if not isinstance(given, str):
        raise ArgumentError(f"{argument} is {given!r}; give a text.", argument=argument)
    return value


def checked_number(
    value: Number | None, argument: str, what: str, *, least: int = 0, whole: bool = True
) -> Number | None:
    """A number, None where there is none.

    Args:
        what: what it counts, for the error: `a number of rows`.

    Raises:
        ArgumentError: something else, or less than `least`.
    """
    given: object = value
    if given is None:
        return None
    kinds = (int,) if whole else (int, float)
    if type(given) not in kinds or not given >= least:  # type: ignore[operator]
        raise ArgumentError(
            f"{argument} is {given!r}; it is {what}, {least} or more.", argument=argument
        )
    return value


def checked_texts(values: Mapping[str, str] | None, argument: str) -> Mapping[str, str]:
    """Settings by name, none where None is given.

    Raises:
        ArgumentError: no mapping, or a name or value that isn't text.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ArgumentError(
            f"{argument} is a {type(values).__name__}; give a dictionary of texts.",
            argument=argument,
        )
    pairs: Iterable[tuple[object, object]] = values.items()
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            raise ArgumentError(
                f"{argument}: {name!r} is {value!r}; names and values are texts, such as "
                f"{{{str(name)!r}: {_as_text(value)!r}}}.",
                argument=argument,
            )
    return values


def checked_condition(condition: object, argument: str) -> Predicate | str | None:
    """A condition on rows, None where there is none.

    Raises:
        ArgumentError: neither text nor a predicate.
    """
    if condition is None or isinstance(condition, str | Predicate):
        return condition
    raise ArgumentError(
        f"{argument} is {condition!r}; give SQL text or a predicate such as col('id') > 3.",
        argument=argument,
    )


def checked_values(values: object, argument: str) -> Mapping[str, Expression | str]:
    """New values by column.

    Raises:
        ArgumentError: no mapping, or a value that is neither text nor an expression.
    """
    if not isinstance(values, Mapping):
        raise ArgumentError(
            f"{argument} is {values!r}; give a dictionary of columns and SQL texts.",
            argument=argument,
        )
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str | Expression):
            raise ArgumentError(
                f"{argument} has {name!r}: {value!r}; the value is SQL text or an expression, "
                f"lit({value!r}) for a constant.",
                argument=argument,
            )
    return values


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class BoundTable:
    """A table bound to an engine."""

    __slots__ = ("_engine", "_table")

    def __init__(self, engine: Engine, table: Table) -> None:
        self._engine = engine
        self._table = table

    def __repr__(self) -> str:
        return f"bayou.table({self.path!r})"

    @property
    def path(self) -> str:
        """Fully qualified path."""
        return self._table.path
