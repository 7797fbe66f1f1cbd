"""Expressions with other columns or constants in the places of theirs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from bayou.kernel.expressions.model import Column, Expression, Literal

__all__ = ["with_literals", "with_paths"]

_ExpressionT = TypeVar("_ExpressionT", bound=Expression)


def with_paths(
    expression: _ExpressionT, rename: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> _ExpressionT:
    """The same expression with what `rename` gives for the path of each column."""
    renamed: Any = _replaced(expression, Column, lambda column: Column(rename(column.path)))
    assert isinstance(renamed, type(expression))
    return renamed


def with_literals(expression: _ExpressionT, replace: Callable[[Literal], Literal]) -> _ExpressionT:
    """The same expression with what `replace` gives for each constant."""
    replaced: Any = _replaced(expression, Literal, replace)
    assert isinstance(replaced, type(expression))
    return replaced


def _replaced(value: Any, kind: type[Expression], replace: Callable[[Any], Expression]) -> Any:
    """Whatever kinds of expressions there are: they are dataclasses of expressions and tuples."""
    if isinstance(value, kind):
        return replace(value)
    if isinstance(value, tuple):
        return tuple(_replaced(item, kind, replace) for item in value)
    if isinstance(value, Expression):
        node: Any = type(value)
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(node)}
        return node(**{name: _replaced(part, kind, replace) for name, part in parts.items()})
    return value
