"""How results of arithmetic move with their arguments, from which bounds of results follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bayou.kernel.expressions.types import (
    kind_of,
)
from bayou.protocol.schema import (
    DataType,
)

__all__ = ["adding", "falling", "rising", "rising_unless_float", "scaling"]


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _any_float(types: Sequence[DataType]) -> bool:
    return any(kind_of(t) == "float" for t in types)


def adding(signs: tuple[int, int]) -> Any:
    """Of a sum (signs 1 and 1) or a difference (1 and -1)."""

    def directions(constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
        variable = [c is None for c in constants]
        # Infinities and NaN: the sum of two columns needn't be between the sums of their bounds.
        if _any_float(types) and (all(variable) or not all(map(_finite, constants))):
            return None
        moves = tuple(s if v else 0 for s, v in zip(signs, variable, strict=True))
        # NaN stays the greatest when it is taken from something.
        return None if _any_float(types) and -1 in moves else moves

    return directions


def scaling(*, divides: bool) -> Any:
    """Of a product with a constant, or a quotient by one."""

    def directions(constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
        left, right = constants
        factor = right if left is None else left
        if factor is None or (divides and left is not None) or not factor or not _finite(factor):
            return None
        if factor < 0 and (_any_float(types) or divides):
            return None
        move = 1 if factor > 0 else -1
        return (move, 0) if left is None else (0, move)

    return directions


def rising(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    """Of what rises with its first argument where the others are constants."""
    return (1, *(0 for _ in constants[1:])) if all(c is not None for c in constants[1:]) else None


def rising_unless_float(
    constants: Sequence[Any], types: Sequence[DataType]
) -> Sequence[int] | None:
    """Of what makes 0 of NaN, which is the greatest float."""
    return None if _any_float(types) else rising(constants, types)


def falling(_constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
    """Of the negative; NaN stays the greatest, so that floats have no direction."""
    return None if _any_float(types) else (-1,)
