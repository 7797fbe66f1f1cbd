"""Roots, exponentials, logarithms and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.casts import java_double, map_distinct, raise_if_failed
from bayou.kernel.expressions.functions.arithmetic_types import CONTEXT, overflow, round_to_type
from bayou.kernel.expressions.functions.definition import (
    Datum,
    Function,
    Macro,
    fixed_parameters,
    rowwise,
)
from bayou.kernel.expressions.model import Expression, Literal
from bayou.protocol.schema import DOUBLE


def _of_one(kernel: Any) -> Any:
    return lambda values, _result: kernel(values[0])


def _cube_root(values: Sequence[Datum], result: Any) -> Datum:
    return rowwise(math.cbrt, result, *values)


def _power(values: Sequence[Datum], _result: Any) -> Datum:
    base, exponent = values
    # In Java, 1 to the power of NaN or an infinity is NaN. In C it is 1.
    is_nan = pc.and_(pc.equal(pc.abs(base), 1.0), pc.invert(pc.is_finite(exponent)))
    return pc.if_else(is_nan, math.nan, pc.power(base, exponent))


def _logarithm(kernel: Any) -> Any:
    """Return a function that computes a logarithm. The logarithm of a number <= 0 is NULL."""

    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        return pc.if_else(pc.less_equal(values[0], 0.0), pa.scalar(None, result), kernel(values[0]))

    return evaluate


_ln = _logarithm(pc.ln)


def _logarithm_to_base(values: Sequence[Datum], result: Any) -> Datum:
    if len(values) == 1:
        return _ln(values, result)
    base, number = values
    return pc.divide(_ln([number], result), _ln([base], result))


def _whole(values: Sequence[Datum], _result: Any) -> Datum:
    return pc.round(values[0], 0, "half_to_even")


_ONE = fixed_parameters(DOUBLE, result=DOUBLE)


def _constant(value: float) -> Callable[[], Expression]:
    return lambda: Literal(value, DOUBLE)


FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="sqrt",
        signature="sqrt(a)",
        summary="The square root, a double; NaN for a negative number.",
        bind=_ONE,
        evaluate=_of_one(pc.sqrt),
    ),
    Function(
        name="cbrt",
        signature="cbrt(a)",
        summary="The cube root, a double.",
        bind=_ONE,
        evaluate=_cube_root,
        exact=False,
    ),
    Function(
        name="pow",
        signature="pow(a, b), power(a, b)",
        summary="`a` to the power of `b`, a double.",
        bind=fixed_parameters(DOUBLE, DOUBLE, result=DOUBLE),
        evaluate=_power,
        exact=False,
        aliases=("power",),
    ),
    Function(
        name="exp",
        signature="exp(a)",
        summary="e to the power of `a`, a double.",
        bind=_ONE,
        evaluate=_of_one(pc.exp),
        exact=False,
    ),
    Function(
        name="ln",
        signature="ln(a)",
        summary="The natural logarithm, a double; NULL if `a` <= 0.",
        bind=_ONE,
        evaluate=_ln,
        exact=False,
        null_handling="more",
    ),
    Function(
        name="log",
        signature="log([base, ]a)",
        summary="The logarithm to a base, or the natural logarithm; NULL if `a` or base <= 0.",
        bind=fixed_parameters(DOUBLE, DOUBLE, result=DOUBLE, optional=1),
        evaluate=_logarithm_to_base,
        exact=False,
        null_handling="more",
    ),
    Function(
        name="log2",
        signature="log2(a)",
        summary="The logarithm to base 2; NULL if `a` <= 0.",
        bind=_ONE,
        evaluate=_logarithm(lambda x: pc.divide(pc.ln(x), math.log(2))),
        exact=False,
        null_handling="more",
    ),
    Function(
        name="log10",
        signature="log10(a)",
        summary="The logarithm to base 10; NULL if `a` <= 0.",
        bind=_ONE,
        evaluate=_logarithm(pc.log10),
        exact=False,
        null_handling="more",
    ),
    Function(
        name="rint",
        signature="rint(a)",
        summary="The nearest integer as a double, rounded half to even.",
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


_ANY_DOUBLE = Context(prec=700, rounding="ROUND_HALF_UP")


def to_whole(kernel: Any) -> Any:
    """Return a function that rounds numbers to integers with Arrow's `floor` or `ceil`.

    Args:
        kernel: the Arrow function.
    """

    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        number = values[0]
        if pa.types.is_integer(number.type):
            return number
        if pa.types.is_decimal(number.type):
            wide = pc.cast(number, pa.decimal256(number.type.precision + 1, number.type.scale))
            return pc.cast(pc.cast(kernel(wide), pa.decimal256(76, 0)), result)
        whole = kernel(number)
        whole = pc.if_else(pc.is_nan(whole), 0.0, whole)  # as in Java
        out_of_range = pc.or_(pc.greater_equal(whole, 2.0**63), pc.less(whole, -(2.0**63)))
        raise_if_failed(out_of_range, number, lambda value: f"{value!r} is out of range for long")
        return pc.cast(whole, result)

    return evaluate


def round_number(values: Sequence[Datum], result: Any) -> Datum:
    """Implement `round`, which rounds half away from zero."""
    decimals = values[1].as_py() if len(values) == 2 else 0
    numbers = values[0]
    if pa.types.is_floating(result):
        return _distinct_rounded(numbers, decimals)
    if pa.types.is_integer(result) and decimals >= 0:
        return numbers
    digits = min(decimals, result.scale) if pa.types.is_decimal(result) else decimals
    step = Decimal(1).scaleb(-max(digits, -100))

    def rounded(number: Any) -> Any:
        value = Decimal(number).quantize(step, context=CONTEXT)
        if pa.types.is_decimal(result):
            return round_to_type("round", value, result)
        bits = result.bit_width - 1
        if not -(1 << bits) <= value < 1 << bits:
            raise overflow("round", result)
        return int(value)

    return rowwise(rounded, result, numbers)


def _distinct_rounded(numbers: Datum, decimals: int) -> Datum:
    """Round floats half away from zero, in decimal arithmetic as Java does.

    Each float is first converted to the shortest decimal string that identifies it as a double.
    This decimal number is rounded.

    Args:
        decimals: number of decimal places.
    """
    step = Decimal(1).scaleb(-max(-400, min(decimals, 400)))  # beyond all digits of a double

    def rounded(number: float) -> float:
        if not math.isfinite(number):
            return number
        exact = Decimal(java_double(number))
        if exact == exact.to_integral_value(context=CONTEXT) and decimals >= 0:
            return number + 0.0  # converts -0.0 to 0.0
        return float(exact.quantize(step, context=_ANY_DOUBLE)) + 0.0

    return map_distinct(numbers, rounded, numbers.type)
