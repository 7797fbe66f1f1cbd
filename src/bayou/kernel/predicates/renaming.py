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
    if isinstance(value, Column):
        return Column(rename(value.path))
    if isinstance(value, tuple):
        return tuple(_renamed(item, rename) for item in value)
    if isinstance(value, Expression):
        kind: Any = type(value)
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(kind)}
        return kind(**{name: _renamed(part, rename) for name, part in parts.items()})
    return value
