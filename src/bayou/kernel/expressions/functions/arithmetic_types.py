"""Argument and result types of arithmetic in Spark's ANSI mode, and exact decimal arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.expressions.casts import raise_if_failed
from bayou.kernel.expressions.functions.definition import (
    NUMBER,
    Binding,
    Call,
    Datum,
    argument_type,
    constant_of,
    rowwise,
)
from bayou.kernel.expressions.model import (
    Literal,
)
from bayou.kernel.expressions.types import (
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


def _operands(call: Call) -> tuple[DataType, DataType]:
    """Return the numeric types to which the two operands are cast.

    As in Spark, a string becomes a long if the other operand is an integer, otherwise a double.
    NULL gets the type of the other operand.
    """
    if len(call.types) != 2:
        raise call.error("the function takes 2 arguments")
    left, right = call.types
    if STRING in (left, right):
        other = right if left == STRING else left
        number = LONG if is_integral(other) else DOUBLE
        left, right = (number if t == STRING else t for t in (left, right))
        if other in (STRING, VOID):
            raise call.error("at least one operand must be a number; cast a string operand")
    left, right = (
        (DOUBLE if both == VOID else both) if t == VOID else t
        for t, both in ((left, right), (right, left))
    )
    if not is_numeric(left) or not is_numeric(right):
        raise call.error("the function takes numbers")
    return left, right


def arithmetic(decimal: Callable[[DecimalType, DecimalType], DecimalType]) -> Any:
    """Return a function that determines the argument and result types of `+`, `-`, `*` or `%`.

    Args:
        decimal: function that returns the result type for two decimal operand types.
    """

    def bind(call: Call) -> Binding:
        left, right = _operands(call)
        if "decimal" in (kind_of(left), kind_of(right)) and "float" not in (
            kind_of(left),
            kind_of(right),
        ):
            one, other = _as_decimals(call, left, right)
            return Binding(arguments=(one, other), result=decimal(one, other))
        both = common_type((left, right))
        assert both is not None  # numeric types have a common type
        return Binding(arguments=(both, both), result=both)

    return bind


def _as_decimals(call: Call, left: DataType, right: DataType) -> tuple[DecimalType, DecimalType]:
    """Return the decimal types of two operands.

    An integer constant gets the precision of its digits: the type of 5 is decimal(1,0).
    """
    types = []
    for expression, data_type in zip(call.arguments, (left, right), strict=True):
        if isinstance(expression, Literal) and type(expression.value) is int:
            types.append(DecimalType(max(1, len(str(abs(expression.value)))), 0))
        else:
            types.append(decimal_for(data_type))
    return types[0], types[1]


def division(call: Call) -> Binding:
    """Return the argument and result types of `/`.

    If one operand is a decimal and the other isn't a float, all types are decimals. Otherwise, all
    types are doubles.
    """
    left, right = _operands(call)
    kinds = {kind_of(left), kind_of(right)}
    if "decimal" in kinds and "float" not in kinds:
        one, other = _as_decimals(call, left, right)
        scale = max(6, one.scale + other.precision + 1)
        result = bounded_decimal(one.precision - one.scale + other.scale + scale, scale)
        return Binding(arguments=(one, other), result=result)
    return Binding(arguments=(DOUBLE, DOUBLE), result=DOUBLE)


def integral_division(call: Call) -> Binding:
    """Return the argument types of `div`, and its result type, long."""
    left, right = _operands(call)
    if "float" in (kind_of(left), kind_of(right)):
        raise call.error("the function takes integers or decimals")
    if "decimal" in (kind_of(left), kind_of(right)):
        return Binding(arguments=_as_decimals(call, left, right), result=LONG)
    return Binding(arguments=(LONG, LONG), result=LONG)


def sum_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """Return the type of a sum or difference of decimals."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale + 1, scale)


def product_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """Return the type of a product of decimals."""
    return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)


def remainder_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """Return the type of a remainder of decimals."""
    scale = max(left.scale, right.scale)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale, scale)


def one_number(call: Call) -> Binding:
    """Return the types of a function such as `abs`, whose result has the type of its argument."""
    if len(call.types) != 1:
        raise call.error("the function takes 1 argument")
    number_type = argument_type(call, call.types[0], NUMBER)
    return Binding(arguments=(number_type,), result=number_type)


def integer_rounding_binding(call: Call) -> Binding:
    """Return the argument and result types of `floor` and `ceil`.

    The result is a decimal for a decimal, and a long for all other numbers.
    """
    number_type = one_number(call).result
    if isinstance(number_type, DecimalType):
        precision = min(38, number_type.precision - number_type.scale + 1)
        return Binding(arguments=(number_type,), result=DecimalType(precision, 0))
    if is_integral(number_type):
        return Binding(arguments=(LONG,), result=LONG)
    return Binding(arguments=(DOUBLE,), result=LONG)


def rounding(call: Call) -> Binding:
    """Return the argument and result types of `round`.

    The number of decimal places must be a constant.
    """
    if not 1 <= len(call.types) <= 2:
        raise call.error("the function takes 1 to 2 arguments")
    number_type = argument_type(call, call.types[0], NUMBER)
    decimals = 0
    if len(call.types) == 2:
        argument_type(call, call.types[1], INTEGER)
        decimals = constant_of(call, 1)
        if type(decimals) is not int:
            raise call.error("the number of decimal places must be a constant integer")
    result = number_type
    if isinstance(number_type, DecimalType):
        whole = number_type.precision - number_type.scale + 1
        if decimals < 0:
            result = DecimalType(min(38, max(whole, -decimals + 1)), 0)
        else:
            scale = min(number_type.scale, decimals)
            result = DecimalType(min(38, whole + scale), scale)
    rest = (INTEGER,) if len(call.types) == 2 else ()
    return Binding(arguments=(number_type, *rest), result=result)


def two_floats(call: Call) -> Binding:
    """Return the argument and result types of a function such as `nanvl`.

    All types are float if both arguments are floats, otherwise double.
    """
    if len(call.types) != 2:
        raise call.error("the function takes 2 arguments")
    both = FLOAT if set(call.types) == {FLOAT} else DOUBLE
    for data_type in call.types:
        argument_type(call, data_type, NUMBER)
    return Binding(arguments=(both, both), result=both)


CONTEXT = Context(prec=120, rounding="ROUND_HALF_UP")


def decimal_arithmetic(
    sign: str, kernels: tuple[Any, Any], operands: Sequence[Any], result: Any
) -> Datum:
    """Apply an operator to two decimals.

    Arrow's decimals have at most 76 digits. If the result may need more digits, Python computes it
    row by row.

    Args:
        sign: the operator, for error messages.
        kernels: the Arrow function and the Python function that implement the operator.
        result: the Arrow type of the result.
    """
    (kernel, exact), (left, right) = kernels, operands
    digits = left.type.precision + right.type.precision + 1
    if max(digits, 39 + max(left.type.scale, right.type.scale)) <= 76:
        wide = [pc.cast(v, pa.decimal256(v.type.precision, v.type.scale)) for v in (left, right)]
        values = kernel(*wide)
        return _fitted(sign, values, result)
    return rowwise(lambda a, b: round_to_type(sign, exact(a, b), result), result, left, right)


def _fitted(sign: str, values: Datum, result: Any) -> Datum:
    target = from_arrow_type(result)
    rounded = _rounded(values, result)
    raise_if_failed(
        pc.and_(pc.is_null(rounded), pc.is_valid(values)),
        values,
        lambda value: f"{value} is out of range for {target}, the result type of {sign!r}",
    )
    return rounded


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
    in_range = pc.and_(pc.greater_equal(rounded, low), pc.less_equal(rounded, high))
    return pc.cast(pc.if_else(in_range, rounded, pa.scalar(None, rounded.type)), result)


def round_to_type(sign: str, number: Decimal, result: Any) -> Decimal:
    """Round a number to the result type; raise an `EvaluationError` if it is out of range.

    Args:
        sign: the operator that computed the number, for error messages.
        result: the Arrow decimal type of the result.
    """
    rounded = number.quantize(Decimal(1).scaleb(-result.scale), context=CONTEXT)
    if rounded and rounded.adjusted() >= result.precision - result.scale:
        raise overflow(sign, result)
    return rounded


def overflow(sign: str, result: Any) -> EvaluationError:
    """Return the error for a result that is out of range for its type."""
    return EvaluationError(
        f"A result of {sign!r} is out of range for {from_arrow_type(result)}. This is an error in "
        "Spark's ANSI mode too. Cast an operand to a wider type.",
        expression=sign,
    )
