"""Roots, exponentials and logarithms; doubles to the last bit as Spark has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute

from bayou.kernel.expressions.functions import fdlibm
from bayou.kernel.expressions.functions.definition import (
    Datum,
    Function,
    Macro,
    parameters,
    rowwise,
)
from bayou.kernel.expressions.model import Expression, Literal
from bayou.protocol.schema import DOUBLE

__all__ = ["FUNCTIONS"]

pc: Any = pyarrow.compute


def _of_one(function: Callable[[float], float | None]) -> Any:
    return lambda values, result: rowwise(function, result, *values)


def _positive(function: Callable[[float], float]) -> Callable[[float], float | None]:
    """A logarithm: NULL where there is none."""
    return lambda x: None if x <= 0 else function(x)


def _logarithm(values: Sequence[Datum], result: Any) -> Datum:
    if len(values) == 1:
        return rowwise(_positive(fdlibm.log), result, *values)

    def to_base(base: float, x: float) -> float | None:
        if base <= 0 or x <= 0:
            return None
        over = fdlibm.log(base)
        return fdlibm.log(x) / over if over else _over_zero(fdlibm.log(x))

    return rowwise(to_base, result, *values)


def _over_zero(x: float) -> float:
    return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x)


def _root(values: Sequence[Datum], _result: Any) -> Datum:
    return pc.sqrt(values[0])


def _whole(values: Sequence[Datum], _result: Any) -> Datum:
    return pc.round(values[0], 0, "half_to_even")


_ONE = parameters(DOUBLE, result=DOUBLE)
_TWO = fdlibm.log(2.0)


def _constant(value: float) -> Callable[[], Expression]:
    return lambda: Literal(value, DOUBLE)


FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="sqrt",
        signature="sqrt(a)",
        summary="The square root, a double; NaN of a number below 0.",
        bind=_ONE,
        evaluate=_root,
    ),
    Function(
        name="cbrt",
        signature="cbrt(a)",
        summary="The cube root, a double.",
        bind=_ONE,
        evaluate=_of_one(fdlibm.cbrt),
    ),
    Function(
        name="pow",
        signature="pow(a, b), power(a, b)",
        summary="a to the power of b, a double.",
        bind=parameters(DOUBLE, DOUBLE, result=DOUBLE),
        evaluate=lambda values, result: rowwise(fdlibm.pow, result, *values),
        aliases=("power",),
    ),
    Function(
        name="exp",
        signature="exp(a)",
        summary="e to the power of the number, a double.",
        bind=_ONE,
        evaluate=_of_one(fdlibm.exp),
    ),
    Function(
        name="ln",
        signature="ln(a)",
        summary="The natural logarithm, a double; NULL of 0 and below.",
        bind=_ONE,
        evaluate=_of_one(_positive(fdlibm.log)),
        nulls="more",
    ),
    Function(
        name="log",
        signature="log([base, ]a)",
        summary="The logarithm to a base, or the natural one; NULL of 0 and below.",
        bind=parameters(DOUBLE, DOUBLE, result=DOUBLE, optional=1),
        evaluate=_logarithm,
        nulls="more",
    ),
    Function(
        name="log2",
        signature="log2(a)",
        summary="The logarithm to base 2; NULL of 0 and below.",
        bind=_ONE,
        evaluate=_of_one(_positive(lambda x: fdlibm.log(x) / _TWO)),
        nulls="more",
    ),
    Function(
        name="log10",
        signature="log10(a)",
        summary="The logarithm to base 10; NULL of 0 and below.",
        bind=_ONE,
        evaluate=_of_one(_positive(fdlibm.log10)),
        nulls="more",
    ),
    Function(
        name="rint",
        signature="rint(a)",
        summary="The nearest whole number, of two the even one; a double.",
        bind=_ONE,
        evaluate=_whole,
    ),
    Macro(
        name="pi",
        signature="pi()",
        summary="The number pi.",
        count=(0, 0),
        expand=_constant(math.pi),
    ),
    Macro(
        name="e",
        signature="e()",
        summary="Euler's number.",
        count=(0, 0),
        expand=_constant(math.e),
    ),
)
