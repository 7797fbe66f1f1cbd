"""Arithmetic with the types, rounding and errors of Spark's ANSI mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.casts import raise_if_failed
from bayou.kernel.expressions.functions.arithmetic_types import (
    CONTEXT,
    arithmetic,
    decimal_arithmetic,
    division,
    integer_rounding_binding,
    integral_division,
    one_number,
    overflow,
    product_type,
    remainder_type,
    round_to_type,
    rounding,
    sum_type,
    two_floats,
)
from bayou.kernel.expressions.functions.definition import (
    Datum,
    Function,
    Macro,
    fixed_parameters,
    rowwise,
)
from bayou.kernel.expressions.functions.math import round_number, to_whole
from bayou.kernel.expressions.types import (
    kind_of,
)
from bayou.protocol.schema import (
    BOOLEAN,
    DOUBLE,
    DataType,
)


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _any_float(types: Sequence[DataType]) -> bool:
    return any(kind_of(t) == "float" for t in types)


def sum_monotonicity(signs: tuple[int, int]) -> Any:
    """Return the `Function.monotonicity` of `+` (signs 1, 1) or of `-` (signs 1, -1)."""

    def directions(constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
        variable = [c is None for c in constants]
        # Infinity minus infinity is NaN, the maximum. Therefore a sum can be greater than the sum
        # of its operands' upper bounds.
        if _any_float(types) and (all(variable) or not all(map(_finite, constants))):
            return None
        result = tuple(s if v else 0 for s, v in zip(signs, variable, strict=True))
        # If the subtrahend grows to NaN, the difference doesn't decrease: it is NaN, the maximum.
        return None if _any_float(types) and -1 in result else result

    return directions


def product_monotonicity(*, divides: bool) -> Any:
    """Return the `Function.monotonicity` of `*`, or of `/` if `divides` is True.

    A product or a quotient is monotonic only if one operand is a finite constant other than 0. In a
    quotient, this operand must be the divisor.
    """

    def directions(constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
        left, right = constants
        factor = right if left is None else left
        if factor is None or (divides and left is not None) or not factor or not _finite(factor):
            return None
        if factor < 0 and (_any_float(types) or divides):
            return None
        direction = 1 if factor > 0 else -1
        return (direction, 0) if left is None else (0, direction)

    return directions


def non_decreasing(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    """`Function.monotonicity` of functions that never decrease as the first argument grows.

    The result is 1 for the first argument, and 0 for each other argument. If one of the other
    arguments isn't a constant, the result is None.
    """
    return (1, *(0 for _ in constants[1:])) if all(c is not None for c in constants[1:]) else None


def non_decreasing_unless_float(
    constants: Sequence[Any], types: Sequence[DataType]
) -> Sequence[int] | None:
    """`Function.monotonicity` of `floor` and `ceil`.

    The result is None for floats, because `floor` and `ceil` convert NaN, the greatest float, to 0.
    """
    return None if _any_float(types) else non_decreasing(constants, types)


def non_increasing(_constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
    """`Function.monotonicity` of negation.

    The result is None for floats, because the negation of NaN, the greatest float, is also NaN.
    """
    return None if _any_float(types) else (-1,)


def _checked(sign: str, kernel: Any, exact: Callable[[Any, Any], Any]) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        left, right = values
        if pa.types.is_decimal(result):
            return decimal_arithmetic(sign, (kernel, exact), values, result)
        try:
            return kernel(left, right)
        except pa.ArrowInvalid as error:
            raise overflow(sign, result) from error

    return evaluate


def _refuse_zero(sign: str, divisor: Datum, dividend: Datum) -> None:
    zero = pc.and_(pc.equal(divisor, pa.scalar(0, divisor.type)), pc.is_valid(dividend))
    raise_if_failed(zero, dividend, lambda value: f"{value!r} {sign} 0 is a division by zero")


def _divide(values: Sequence[Datum], result: Any) -> Datum:
    left, right = values
    _refuse_zero("/", right, left)
    if pa.types.is_floating(result):
        return pc.divide(left, right)
    # Spark first rounds to 39 fractional digits.
    step = Decimal(1).scaleb(-39)

    def divide(a: Decimal, b: Decimal) -> Decimal:
        return round_to_type("/", CONTEXT.divide(a, b).quantize(step, context=CONTEXT), result)

    return rowwise(divide, result, left, right)


def _divide_whole(values: Sequence[Datum], result: Any) -> Datum:
    left, right = values
    _refuse_zero("div", right, left)
    if pa.types.is_decimal(left.type):
        return rowwise(lambda a, b: _long(CONTEXT.divide_int(a, b)), result, left, right)
    try:
        return pc.divide_checked(left, right)
    except pa.ArrowInvalid as error:
        raise overflow("div", result) from error


def _long(number: Decimal) -> int:
    value = int(number)
    if not -(1 << 63) <= value < 1 << 63:
        raise overflow("div", pa.int64())
    return value


def _remainder(values: Sequence[Datum], result: Any) -> Datum:
    left, right = values
    _refuse_zero("%", right, left)
    if pa.types.is_floating(result):
        return rowwise(_float_remainder, result, left, right)
    if pa.types.is_decimal(result):
        return rowwise(
            lambda a, b: round_to_type("%", CONTEXT.remainder(a, b), result), result, left, right
        )
    one = pa.scalar(1, right.type)
    divisor = pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), one, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


def _float_remainder(left: float, right: float) -> float:
    if math.isinf(left) or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def _positive_remainder(values: Sequence[Datum], result: Any) -> Datum:
    right = values[1]
    remainder = _remainder(values, result)
    if pa.types.is_decimal(result):
        return rowwise(
            lambda r, b: round_to_type(
                "pmod", CONTEXT.remainder(CONTEXT.add(r, b), b) if r < 0 else r, result
            ),
            result,
            remainder,
            right,
        )
    if pa.types.is_integer(result) and result.bit_width < 32:  # Java adds bytes and shorts as ints
        remainder, right = pc.cast(remainder, pa.int32()), pc.cast(right, pa.int32())
    negative = pc.less(remainder, pa.scalar(0, remainder.type))
    shifted = _remainder([pc.add(remainder, right), right], result)
    return pc.cast(pc.if_else(negative, shifted, remainder), result)


def _negate(values: Sequence[Datum], result: Any) -> Datum:
    if pa.types.is_decimal(result):
        return pc.negate(values[0])
    try:
        return (
            pc.negate(values[0]) if pa.types.is_floating(result) else pc.negate_checked(values[0])
        )
    except pa.ArrowInvalid as error:
        raise overflow("negative", result) from error


def _absolute(values: Sequence[Datum], result: Any) -> Datum:
    if pa.types.is_decimal(result) or pa.types.is_floating(result):
        return pc.abs(values[0])
    try:
        return pc.abs_checked(values[0])
    except pa.ArrowInvalid as error:
        raise overflow("abs", result) from error


def _nan_value(values: Sequence[Datum], _result: Any) -> Datum:
    first, second = values
    return pc.if_else(pc.fill_null(pc.is_nan(first), False), second, first)


def _is_nan(values: Sequence[Datum], _result: Any) -> Datum:
    return pc.fill_null(pc.is_nan(values[0]), False)


def _sign(values: Sequence[Datum], result: Any) -> Datum:
    number = values[0]
    return pc.if_else(pc.equal(number, 0.0), number, pc.cast(pc.sign(number), result))


FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="+",
        signature="a + b",
        summary="The sum. An overflow is an error. Decimals have Spark's precision rules.",
        bind=arithmetic(sum_type),
        evaluate=_checked("+", pc.add_checked, CONTEXT.add),
        monotonicity=sum_monotonicity((1, 1)),
    ),
    Function(
        name="-",
        signature="a - b",
        summary="The difference. An overflow is an error.",
        bind=arithmetic(sum_type),
        evaluate=_checked("-", pc.subtract_checked, CONTEXT.subtract),
        monotonicity=sum_monotonicity((1, -1)),
    ),
    Function(
        name="*",
        signature="a * b",
        summary="The product. An overflow is an error.",
        bind=arithmetic(product_type),
        evaluate=_checked("*", pc.multiply_checked, CONTEXT.multiply),
        monotonicity=product_monotonicity(divides=False),
    ),
    Function(
        name="/",
        signature="a / b",
        summary="The quotient: a decimal for decimals, else a double. Division by 0 is an error.",
        bind=division,
        evaluate=_divide,
        monotonicity=product_monotonicity(divides=True),
    ),
    Function(
        name="div",
        signature="a div b",
        summary="The integral part of the quotient, a long. Division by 0 is an error.",
        bind=integral_division,
        evaluate=_divide_whole,
        monotonicity=product_monotonicity(divides=True),
    ),
    Function(
        name="%",
        signature="a % b, mod(a, b)",
        summary="The remainder, with the sign of `a`. Division by 0 is an error.",
        bind=arithmetic(remainder_type),
        evaluate=_remainder,
        aliases=("mod",),
    ),
    Function(
        name="pmod",
        signature="pmod(a, b)",
        summary="The remainder, which is never negative for a positive `b`.",
        bind=arithmetic(remainder_type),
        evaluate=_positive_remainder,
    ),
    Function(
        name="negative",
        signature="-a, negative(a)",
        summary="The negated number.",
        bind=one_number,
        evaluate=_negate,
        monotonicity=non_increasing,
    ),
    Function(
        name="abs",
        signature="abs(a)",
        summary="The absolute value.",
        bind=one_number,
        evaluate=_absolute,
    ),
    Function(
        name="sign",
        signature="sign(a), signum(a)",
        summary="The sign as a double: -1.0, 0.0 or 1.0.",
        bind=fixed_parameters(DOUBLE, result=DOUBLE),
        evaluate=_sign,
        monotonicity=non_decreasing,
        aliases=("signum",),
    ),
    Function(
        name="round",
        constants=(1,),
        signature="round(a[, decimals])",
        summary="Rounded half away from zero; `decimals` is a constant and can be negative.",
        bind=rounding,
        evaluate=round_number,
        monotonicity=non_decreasing,
    ),
    Function(
        name="floor",
        signature="floor(a)",
        summary="The largest integer up to `a`: a decimal for decimals, else a long.",
        bind=integer_rounding_binding,
        evaluate=to_whole(pc.floor),
        monotonicity=non_decreasing_unless_float,
    ),
    Function(
        name="ceil",
        signature="ceil(a), ceiling(a)",
        summary="The smallest integer from `a` on: a decimal for decimals, else a long.",
        bind=integer_rounding_binding,
        evaluate=to_whole(pc.ceil),
        monotonicity=non_decreasing_unless_float,
        aliases=("ceiling",),
    ),
    # `isnan` isn't translated to a comparison with NaN. Otherwise, data skipping could skip files
    # that contain NaN: some writers, such as deltalake, ignore NaN in minimum and maximum values.
    Function(
        name="isnan",
        signature="isnan(a)",
        summary="Whether `a` is NaN; FALSE for NULL.",
        bind=fixed_parameters(DOUBLE, result=BOOLEAN),
        evaluate=_is_nan,
        null_handling="own",
    ),
    Function(
        name="nanvl",
        signature="nanvl(a, b)",
        summary="`b` if `a` is NaN, else `a`.",
        bind=two_floats,
        evaluate=_nan_value,
        null_handling="own",
    ),
)
