"""Decimals computed exactly and then fitted to the type of the result."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.expressions.casts import fail
from bayou.kernel.expressions.functions.definition import (
    Datum,
    rowwise,
)

__all__ = ["CONTEXT", "fit", "in_decimals", "overflow"]

pc: Any = pyarrow.compute

CONTEXT = Context(prec=120, rounding="ROUND_HALF_UP")


def in_decimals(sign: str, kernels: tuple[Any, Any], operands: Sequence[Any], result: Any) -> Datum:
    """Two decimals by `kernels`: Arrow's where 76 digits suffice, else Python's, row by row."""
    (kernel, exact), (left, right) = kernels, operands
    digits = left.type.precision + right.type.precision + 1
    if max(digits, 39 + max(left.type.scale, right.type.scale)) <= 76:
        wide = [pc.cast(v, pa.decimal256(v.type.precision, v.type.scale)) for v in (left, right)]
        values = kernel(*wide)
        return _fitted(sign, values, result)
    return rowwise(lambda a, b: fit(sign, exact(a, b), result), result, left, right)


def _fitted(sign: str, values: Datum, result: Any) -> Datum:
    """Exact values rounded to the result's type."""
    target = from_arrow_type(result)
    fitting = _rounded(values, result)
    fail(
        pc.and_(pc.is_null(fitting), pc.is_valid(values)),
        values,
        lambda value: f"{value} is too large for the {target} that {sign!r} gives here",
    )
    return fitting


def _rounded(values: Datum, result: Any) -> Datum:
    limit = Decimal(10**result.precision - 1).scaleb(-result.scale, CONTEXT)
    scale = values.type.scale
    rounded = pc.round(
        pc.cast(values, pa.decimal256(76, scale)) if values.type.precision < 76 else values,
        ndigits=result.scale,
        round_mode="half_towards_infinity",
    )
    low, high = (pa.scalar(v, pa.decimal256(76, result.scale)) for v in (-limit, limit))
    rounded = pc.cast(rounded, pa.decimal256(76, result.scale), safe=False)
    fits = pc.and_(pc.greater_equal(rounded, low), pc.less_equal(rounded, high))
    return pc.cast(pc.if_else(fits, rounded, pa.scalar(None, rounded.type)), result)


def fit(sign: str, number: Decimal, result: Any) -> Decimal:
    """A number rounded to the type of the result; raises where it is too large."""
    rounded = number.quantize(Decimal(1).scaleb(-result.scale), context=CONTEXT)
    if rounded and rounded.adjusted() >= result.precision - result.scale:
        raise overflow(sign, result)
    return rounded


def overflow(sign: str, result: Any) -> EvaluationError:
    """What is raised where a result is too large for its type."""
    return EvaluationError(
        f"A result of {sign!r} doesn't fit a {from_arrow_type(result)}. Spark's ANSI mode fails "
        "such a query too; cast an operand to a wider type.",
        expression=sign,
    )
