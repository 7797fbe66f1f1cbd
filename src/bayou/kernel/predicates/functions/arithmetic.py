"""Arithmetic, with the types, roundings and errors of Spark's ANSI mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError
from bayou.kernel.arrow_types import from_arrow_type
from bayou.kernel.predicates.casts import distinct, fail, java_double
from bayou.kernel.predicates.functions.definition import (
    NUMBER,
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    argument,
    constant_of,
    parameters,
    rowwise,
)
from bayou.kernel.predicates.model import (
    And,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
)
from bayou.kernel.predicates.types import (
    bounded_decimal,
    common_type,
    decimal_for,
    is_integral,
    is_numeric,
    kind_of,
)
from bayou.protocol.schema import (
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    VOID,
    DataType,
    DecimalType,
)

__all__ = ["FUNCTIONS"]

pc: Any = pyarrow.compute

_CONTEXT = Context(prec=120, rounding="ROUND_HALF_UP")
_ANY_DOUBLE = Context(prec=700, rounding="ROUND_HALF_UP")


def _operands(call: Call) -> tuple[DataType, DataType]:
    """Types of two operands, each by itself: numbers, and a string as the number it is beside."""
    if len(call.types) != 2:
        raise call.refuse("it takes 2 arguments")
    left, right = call.types
    if STRING in (left, right):
        other = right if left == STRING else left
        number = LONG if is_integral(other) else DOUBLE
        left, right = (number if t == STRING else t for t in (left, right))
        if other in (STRING, VOID):
            raise call.refuse("one side must be a number; cast the text")
    left, right = (
        (DOUBLE if both == VOID else both) if t == VOID else t
        for t, both in ((left, right), (right, left))
    )
    if not is_numeric(left) or not is_numeric(right):
        raise call.refuse("it takes numbers")
    return left, right


def _arithmetic(decimal: Callable[[DecimalType, DecimalType], DecimalType]) -> Any:
    def bind(call: Call) -> Binding:
        left, right = _operands(call)
        if "decimal" in (kind_of(left), kind_of(right)) and "float" not in (
            kind_of(left),
            kind_of(right),
        ):
            one, other = _as_decimals(call, left, right)
            return Binding(arguments=(one, other), result=decimal(one, other))
        both = common_type((left, right))
        assert both is not None  # numbers have one
        return Binding(arguments=(both, both), result=both)

    return bind


def _as_decimals(call: Call, left: DataType, right: DataType) -> tuple[DecimalType, DecimalType]:
    """A constant integer takes the digits that it has, a column those of its type."""
    types = []
    for expression, data_type in zip(call.arguments, (left, right), strict=True):
        if isinstance(expression, Literal) and type(expression.value) is int:
            types.append(DecimalType(max(1, len(str(abs(expression.value)))), 0))
        else:
            types.append(decimal_for(data_type))
    return types[0], types[1]


def _division(call: Call) -> Binding:
    left, right = _operands(call)
    kinds = {kind_of(left), kind_of(right)}
    if "decimal" in kinds and "float" not in kinds:
        one, other = _as_decimals(call, left, right)
        scale = max(6, one.scale + other.precision + 1)
        result = bounded_decimal(one.precision - one.scale + other.scale + scale, scale)
        return Binding(arguments=(one, other), result=result)
    return Binding(arguments=(DOUBLE, DOUBLE), result=DOUBLE)


def _integral_division(call: Call) -> Binding:
    left, right = _operands(call)
    if "float" in (kind_of(left), kind_of(right)):
        raise call.refuse("it takes integers or decimals")
    if "decimal" in (kind_of(left), kind_of(right)):
        return Binding(arguments=_as_decimals(call, left, right), result=LONG)
    return Binding(arguments=(LONG, LONG), result=LONG)


def _sum_type(left: DecimalType, right: DecimalType) -> DecimalType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale + 1, scale)


def _product_type(left: DecimalType, right: DecimalType) -> DecimalType:
    return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)


def _remainder_type(left: DecimalType, right: DecimalType) -> DecimalType:
    scale = max(left.scale, right.scale)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale, scale)


def _checked(sign: str, kernel: Any, exact: Callable[[Any, Any], Any]) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        left, right = values
        if pa.types.is_decimal(result):
            return _decimals(sign, (kernel, exact), values, result)
        try:
            return kernel(left, right)
        except pa.ArrowInvalid as error:
            raise _overflow(sign, result) from error

    return evaluate


def _decimals(sign: str, kernels: tuple[Any, Any], operands: Sequence[Any], result: Any) -> Datum:
    (kernel, exact), (left, right) = kernels, operands
    digits = left.type.precision + right.type.precision + 1
    if max(digits, 39 + max(left.type.scale, right.type.scale)) <= 76:
        wide = [pc.cast(v, pa.decimal256(v.type.precision, v.type.scale)) for v in (left, right)]
        values = kernel(*wide)
        return _fitted(sign, values, result)
    return rowwise(lambda a, b: _fit(sign, exact(a, b), result), result, left, right)


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
    limit = Decimal(10**result.precision - 1).scaleb(-result.scale, _CONTEXT)
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


def _fit(sign: str, number: Decimal, result: Any) -> Decimal:
    rounded = number.quantize(Decimal(1).scaleb(-result.scale), context=_CONTEXT)
    if rounded and rounded.adjusted() >= result.precision - result.scale:
        raise _overflow(sign, result)
    return rounded


def _overflow(sign: str, result: Any) -> EvaluationError:
    return EvaluationError(
        f"A result of {sign!r} doesn't fit a {from_arrow_type(result)}. Spark's ANSI mode fails "
        "such a query too; cast an operand to a wider type.",
        expression=sign,
    )


def _refuse_zero(sign: str, divisor: Datum, dividend: Datum) -> None:
    zero = pc.and_(pc.equal(divisor, pa.scalar(0, divisor.type)), pc.is_valid(dividend))
    fail(zero, dividend, lambda value: f"{value!r} {sign} 0 divides by zero")


def _divide(values: Sequence[Datum], result: Any) -> Datum:
    left, right = values
    _refuse_zero("/", right, left)
    if pa.types.is_floating(result):
        return pc.divide(left, right)
    # Spark rounds at 39 decimals first.
    step = Decimal(1).scaleb(-39)

    def divide(a: Decimal, b: Decimal) -> Decimal:
        return _fit("/", _CONTEXT.divide(a, b).quantize(step, context=_CONTEXT), result)

    return rowwise(divide, result, left, right)


def _divide_whole(values: Sequence[Datum], result: Any) -> Datum:
    left, right = values
    _refuse_zero("div", right, left)
    if pa.types.is_decimal(left.type):
        return rowwise(lambda a, b: _long(_CONTEXT.divide_int(a, b)), result, left, right)
    try:
        return pc.divide_checked(left, right)
    except pa.ArrowInvalid as error:
        raise _overflow("div", result) from error


def _long(number: Decimal) -> int:
    value = int(number)
    if not -(1 << 63) <= value < 1 << 63:
        raise _overflow("div", pa.int64())
    return value


def _remainder(values: Sequence[Datum], result: Any) -> Datum:
    left, right = values
    _refuse_zero("%", right, left)
    if pa.types.is_floating(result):
        return rowwise(_float_remainder, result, left, right)
    if pa.types.is_decimal(result):
        return rowwise(
            lambda a, b: _fit("%", _CONTEXT.remainder(a, b), result), result, left, right
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
    found = _remainder(values, result)
    if pa.types.is_decimal(result):
        return rowwise(
            lambda r, b: _fit("pmod", (r + b) % b if r < 0 else r, result), result, found, right
        )
    negative = pc.less(found, pa.scalar(0, found.type))
    again = _remainder([pc.add(found, right), right], result)
    return pc.if_else(negative, again, found)


def _negate(values: Sequence[Datum], result: Any) -> Datum:
    if pa.types.is_decimal(result):
        return pc.negate(values[0])
    try:
        return (
            pc.negate(values[0]) if pa.types.is_floating(result) else pc.negate_checked(values[0])
        )
    except pa.ArrowInvalid as error:
        raise _overflow("negative", result) from error


def _absolute(values: Sequence[Datum], result: Any) -> Datum:
    if pa.types.is_decimal(result) or pa.types.is_floating(result):
        return pc.abs(values[0])
    try:
        return pc.abs_checked(values[0])
    except pa.ArrowInvalid as error:
        raise _overflow("abs", result) from error


def _one_number(call: Call) -> Binding:
    if len(call.types) != 1:
        raise call.refuse("it takes 1 argument")
    wanted = argument(call, call.types[0], NUMBER)
    return Binding(arguments=(wanted,), result=wanted)


def _whole(call: Call) -> Binding:
    given = _one_number(call).result
    if isinstance(given, DecimalType):
        precision = min(38, given.precision - given.scale + 1)
        return Binding(arguments=(given,), result=DecimalType(precision, 0))
    if is_integral(given):
        return Binding(arguments=(LONG,), result=LONG)
    return Binding(arguments=(DOUBLE,), result=LONG)


def _to_whole(kernel: Any) -> Any:
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


def _rounding(call: Call) -> Binding:
    if not 1 <= len(call.types) <= 2:
        raise call.refuse("it takes 1 to 2 arguments")
    given = argument(call, call.types[0], NUMBER)
    places = 0
    if len(call.types) == 2:
        argument(call, call.types[1], INTEGER)
        places = constant_of(call, 1)
        if type(places) is not int:
            raise call.refuse("the number of decimals must be a constant integer")
    result = given
    if isinstance(given, DecimalType):
        whole = given.precision - given.scale + 1
        if places < 0:
            result = DecimalType(min(38, max(whole, -places + 1)), 0)
        else:
            scale = min(given.scale, places)
            result = DecimalType(min(38, whole + scale), scale)
    rest = (INTEGER,) if len(call.types) == 2 else ()
    return Binding(arguments=(given, *rest), result=result)


def _round(values: Sequence[Datum], result: Any) -> Datum:
    places = values[1].as_py() if len(values) == 2 else 0
    numbers = values[0]
    if pa.types.is_floating(result):
        single = pa.types.is_float32(result)
        return distinct_rounded(numbers, places, single=single)
    if pa.types.is_integer(result) and places >= 0:
        return numbers
    step = Decimal(1).scaleb(-places)

    def rounded(number: Any) -> Any:
        value = Decimal(number).quantize(step, context=_CONTEXT)
        if pa.types.is_decimal(result):
            return _fit("round", value, result)
        bits = result.bit_width - 1
        if not -(1 << bits) <= value < 1 << bits:
            raise _overflow("round", result)
        return int(value)

    return rowwise(rounded, result, numbers)


def distinct_rounded(numbers: Datum, places: int, *, single: bool) -> Datum:
    """Floats rounded half up as their texts are, as Java's BigDecimal does."""
    step = Decimal(1).scaleb(-places)

    def rounded(number: float) -> float:
        if not math.isfinite(number):
            return number
        text = pc.cast(pa.scalar(number, pa.float32()), pa.string()).as_py() if single else None
        exact = Decimal(text or java_double(number))
        if exact == exact.to_integral_value(context=_CONTEXT) and places >= 0:
            return number + 0.0  # 0.0 for -0.0
        return float(exact.quantize(step, context=_ANY_DOUBLE)) + 0.0

    return distinct(numbers, rounded, numbers.type)


def _nan_value(values: Sequence[Datum], _result: Any) -> Datum:
    first, second = values
    return pc.if_else(pc.fill_null(pc.is_nan(first), False), second, first)


def _two_floats(call: Call) -> Binding:
    if len(call.types) != 2:
        raise call.refuse("it takes 2 arguments")
    both = FLOAT if set(call.types) == {FLOAT} else DOUBLE
    for given in call.types:
        argument(call, given, NUMBER)
    return Binding(arguments=(both, both), result=both)


def _is_nan(value: Expression) -> Expression:
    # FALSE for NULL, so that NOT isnan(x) holds for it.
    nan = Comparison("=", value, Literal(math.nan, DOUBLE))
    return And((nan, Not(IsNull(value))))


def _sign(values: Sequence[Datum], result: Any) -> Datum:
    number = values[0]
    return pc.if_else(pc.equal(number, 0.0), number, pc.cast(pc.sign(number), result))


# How results move with their arguments.


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _any_float(types: Sequence[DataType]) -> bool:
    return any(kind_of(t) == "float" for t in types)


def _adding(signs: tuple[int, int]) -> Any:
    def directions(constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
        variable = [c is None for c in constants]
        # Infinities and NaN: the sum of two columns needn't be between the sums of their bounds.
        if _any_float(types) and (all(variable) or not all(map(_finite, constants))):
            return None
        moves = tuple(s if v else 0 for s, v in zip(signs, variable, strict=True))
        # NaN stays the greatest when it is taken from something.
        return None if _any_float(types) and -1 in moves else moves

    return directions


def _scaling(*, divides: bool) -> Any:
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


def _rising(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    return (1, *(0 for _ in constants[1:])) if all(c is not None for c in constants[1:]) else None


def _falling(_constants: Sequence[Any], types: Sequence[DataType]) -> Sequence[int] | None:
    return None if _any_float(types) else (-1,)


FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="+",
        signature="a + b",
        summary="Sum. An overflow is an error; decimals by Spark's precision rules.",
        bind=_arithmetic(_sum_type),
        evaluate=_checked("+", pc.add_checked, _CONTEXT.add),
        directions=_adding((1, 1)),
    ),
    Function(
        name="-",
        signature="a - b",
        summary="Difference. An overflow is an error.",
        bind=_arithmetic(_sum_type),
        evaluate=_checked("-", pc.subtract_checked, _CONTEXT.subtract),
        directions=_adding((1, -1)),
    ),
    Function(
        name="*",
        signature="a * b",
        summary="Product. An overflow is an error.",
        bind=_arithmetic(_product_type),
        evaluate=_checked("*", pc.multiply_checked, _CONTEXT.multiply),
        directions=_scaling(divides=False),
    ),
    Function(
        name="/",
        signature="a / b",
        summary="Quotient: a double, of decimals a decimal. Division by zero is an error.",
        bind=_division,
        evaluate=_divide,
        directions=_scaling(divides=True),
    ),
    Function(
        name="div",
        signature="a div b",
        summary="Quotient without its fraction, a long. Division by zero is an error.",
        bind=_integral_division,
        evaluate=_divide_whole,
        directions=_scaling(divides=True),
    ),
    Function(
        name="%",
        signature="a % b, mod(a, b)",
        summary="Remainder, with the sign of `a`. Division by zero is an error.",
        bind=_arithmetic(_remainder_type),
        evaluate=_remainder,
        aliases=("mod",),
    ),
    Function(
        name="pmod",
        signature="pmod(a, b)",
        summary="Remainder, never negative for a positive `b`.",
        bind=_arithmetic(_remainder_type),
        evaluate=_positive_remainder,
    ),
    Function(
        name="negative",
        signature="-a, negative(a)",
        summary="The number with the other sign.",
        bind=_one_number,
        evaluate=_negate,
        directions=_falling,
    ),
    Function(
        name="abs",
        signature="abs(a)",
        summary="The number without its sign.",
        bind=_one_number,
        evaluate=_absolute,
    ),
    Function(
        name="sign",
        signature="sign(a), signum(a)",
        summary="-1.0, 0.0 or 1.0, a double.",
        bind=parameters(DOUBLE, result=DOUBLE),
        evaluate=_sign,
        directions=_rising,
        aliases=("signum",),
    ),
    Function(
        name="round",
        constants=(1,),
        signature="round(a[, decimals])",
        summary="Rounded half up, away from zero; `decimals` is a constant and may be negative.",
        bind=_rounding,
        evaluate=_round,
        directions=_rising,
    ),
    Function(
        name="floor",
        signature="floor(a)",
        summary="The whole number at or below: a long, of decimals a decimal.",
        bind=_whole,
        evaluate=_to_whole(pc.floor),
        directions=_rising,
    ),
    Function(
        name="ceil",
        signature="ceil(a), ceiling(a)",
        summary="The whole number at or above: a long, of decimals a decimal.",
        bind=_whole,
        evaluate=_to_whole(pc.ceil),
        directions=_rising,
        aliases=("ceiling",),
    ),
    Macro(
        name="isnan",
        signature="isnan(a)",
        summary="Whether it is NaN; FALSE for NULL.",
        count=(1, 1),
        expand=_is_nan,
    ),
    Function(
        name="nanvl",
        signature="nanvl(a, b)",
        summary="`a`, or `b` where `a` is NaN.",
        bind=_two_floats,
        evaluate=_nan_value,
        nulls="own",
    ),
)
