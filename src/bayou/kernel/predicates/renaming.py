"""Predicates under other names of the columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from bayou.kernel.predicates.model import Column, Expression

__all__ = ["with_paths"]

_ExpressionT = TypeVar("_ExpressionT", bound=Expression)


def with_paths(
    expression: _ExpressionT, rename: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> _ExpressionT:
    """The same expression with what `rename` gives for the path of each column."""
    renamed: Any = _renamed(expression, rename)
    assert isinstance(renamed, type(expression))
    return renamed


def _renamed(value: Any, rename: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Any:
    """Whatever kinds of expressions there are: they are dataclasses of expressions and tuples."""
    match value:
        case Column(path):
            return Column(rename(path))
        case tuple():
            return tuple(_renamed(item, rename) for item in value)
        case Expression() if dataclasses.is_dataclass(value):
            parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return type(value)(**{k: _renamed(v, rename) for k, v in parts.items()})
        case _:
            return value
