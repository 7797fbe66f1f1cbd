"""Rounding: `round`, `floor` and `ceil`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.expressions.casts import distinct, fail, java_double
from bayou.kernel.expressions.functions.decimal_arithmetic import CONTEXT, fit, overflow
from bayou.kernel.expressions.functions.definition import (
    Datum,
    rowwise,
)

__all__ = ["round_number", "to_whole"]

pc: Any = pyarrow.compute

_ANY_DOUBLE = Context(prec=700, rounding="ROUND_HALF_UP")


def to_whole(kernel: Any) -> Any:
    """`floor` or `ceil` by Arrow's kernel of that name."""

    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        number = values[0]
        if pa.types.is_integer(number.type):
            return number
        if pa.types.is_decimal(number.type):
            wide = pc.cast(number, pa.decimal256(number.type.precision + 1, number.type.scale))
            return pc.cast(pc.cast(kernel(wide), pa.decimal256(76, 0)), result)
        whole = kernel(number)
        whole = pc.if_else(pc.is_nan(whole), 0.0, whole)  # as in Java
        beyond = pc.or_(pc.greater_equal(whole, 2.0**63), pc.less(whole, -(2.0**63)))
        fail(beyond, number, lambda value: f"{value!r} is too large for a long")
        return pc.cast(whole, result)

    return evaluate


def round_number(values: Sequence[Datum], result: Any) -> Datum:
    """`round`: half up, away from zero."""
    places = values[1].as_py() if len(values) == 2 else 0
    numbers = values[0]
    if pa.types.is_floating(result):
        single = pa.types.is_float32(result)
        return _distinct_rounded(numbers, places, single=single)
    if pa.types.is_integer(result) and places >= 0:
        return numbers
    step = Decimal(1).scaleb(-places)

    def rounded(number: Any) -> Any:
        value = Decimal(number).quantize(step, context=CONTEXT)
        if pa.types.is_decimal(result):
            return fit("round", value, result)
        bits = result.bit_width - 1
        if not -(1 << bits) <= value < 1 << bits:
            raise overflow("round", result)
        return int(value)

    return rowwise(rounded, result, numbers)


def _distinct_rounded(numbers: Datum, places: int, *, single: bool) -> Datum:
    """Floats rounded half up as their texts are, as Java's BigDecimal does."""
    step = Decimal(1).scaleb(-places)

    def rounded(number: float) -> float:
        if not math.isfinite(number):
            return number
        text = pc.cast(pa.scalar(number, pa.float32()), pa.string()).as_py() if single else None
        exact = Decimal(text or java_double(number))
        if exact == exact.to_integral_value(context=CONTEXT) and places >= 0:
            return number + 0.0  # 0.0 for -0.0
        return float(exact.quantize(step, context=_ANY_DOUBLE)) + 0.0

    return distinct(numbers, rounded, numbers.type)
