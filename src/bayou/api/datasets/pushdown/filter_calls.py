"""A filter as a tree of fields, constants and calls of pyarrow's functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldPath:
    """Path of a column or of a field of a struct column."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant:
    """A constant, as a pyarrow scalar with its type."""

    scalar: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """A call of a function.

    Attributes:
        name: name of the function in `pyarrow.compute`, such as `greater`. One name comes from
            Polars: `equal_missing`, a comparison for which NULL equals NULL. Data skipping ignores
            calls of unknown functions.
        options: options of the function by name, such as `value_set` of `is_in`.
    """

    name: str
    arguments: tuple[FilterNode, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


FilterNode: TypeAlias = FieldPath | Constant | Call


def top_level_columns(node: FilterNode) -> Iterator[str]:
    """Return the names of the top-level columns in a filter, in order, with duplicates."""
    match node:
        case FieldPath(names=names):
            yield names[0]
        case Call(arguments=arguments):
            for argument in arguments:
                yield from top_level_columns(argument)
