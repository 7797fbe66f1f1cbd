"""The filter of an engine as a tree: fields, constants, and calls with pyarrow's function names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldPath:
    """A column, or a field of a struct column, by its names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant:
    """A constant, as a pyarrow scalar with its type."""

    scalar: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """A call of a function.

    Attributes:
        name: name of pyarrow's compute function, such as `greater`. A function that pyarrow doesn't
            have has another name, and is never translated.
        options: options of the function by name, such as `value_set` of `is_in`.
    """

    name: str
    arguments: tuple[FilterNode, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


FilterNode: TypeAlias = FieldPath | Constant | Call


def top_level_columns(node: FilterNode) -> Iterator[str]:
    """The names of the top-level columns in a filter, in order, with duplicates."""
    match node:
        case FieldPath(names=names):
            yield names[0]
        case Call(arguments=arguments):
            for argument in arguments:
                yield from top_level_columns(argument)
