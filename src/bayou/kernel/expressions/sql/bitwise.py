"""Bitwise operators by Spark's precedence; the parser has one level for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.kernel.expressions.model import Expression, call

__all__ = ["BITWISE", "bitwise"]

BITWISE = {
    "BitwiseOr": ("|", 0),
    "BitwiseXor": ("^", 1),
    "BitwiseAnd": ("&", 2),
    "BitwiseLeftShift": ("shiftleft", 3),
    "BitwiseRightShift": ("shiftright", 3),
}
"""Functions by the parser's names, and how tightly they bind."""


def bitwise(operands: Sequence[Expression], kinds: Sequence[str]) -> Expression:
    """The expression of a chain without parentheses.

    Args:
        operands: from left to right.
        kinds: names out of `BITWISE` between them, one less.
    """
    done = [operands[0]]
    pending: list[str] = []

    def apply_down_to(level: int) -> None:
        while pending and BITWISE[pending[-1]][1] >= level:
            right, left = done.pop(), done.pop()
            done.append(call(BITWISE[pending.pop()][0], left, right))

    for kind, operand in zip(kinds, operands[1:], strict=True):
        apply_down_to(BITWISE[kind][1])
        pending.append(kind)
        done.append(operand)
    apply_down_to(0)
    return done[0]
