"""Types of what arithmetic takes and gives, as in Spark's ANSI mode.

Decimals computed exactly and then fitted to the type of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.expressions.casts import fail
from bayou.kernel.expressions.functions.definition import (
    NUMBER,
    Binding,
    Call,
    Datum,
    argument,
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

__all__ = [
    "CONTEXT",
    "arithmetic",
    "division",
    "fit",
    "in_decimals",
    "integral_division",
    "one_number",
    "overflow",
    "product_type",
    "remainder_type",
    "rounding",
    "sum_type",
    "two_floats",
    "whole_number",
]


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


def arithmetic(decimal: Callable[[DecimalType, DecimalType], DecimalType]) -> Any:
    """The binding of `+`, `-`, `*` and the like.

    Args:
        decimal: type of the result of two decimals.
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


def division(call: Call) -> Binding:
    """The binding of `/`: decimals give a decimal, all else a double."""
    left, right = _operands(call)
    kinds = {kind_of(left), kind_of(right)}
    if "decimal" in kinds and "float" not in kinds:
        one, other = _as_decimals(call, left, right)
        scale = max(6, one.scale + other.precision + 1)
        result = bounded_decimal(one.precision - one.scale + other.scale + scale, scale)
        return Binding(arguments=(one, other), result=result)
    return Binding(arguments=(DOUBLE, DOUBLE), result=DOUBLE)


def integral_division(call: Call) -> Binding:
    """The binding of `div`, which gives a long."""
    left, right = _operands(call)
    if "float" in (kind_of(left), kind_of(right)):
        raise call.refuse("it takes integers or decimals")
    if "decimal" in (kind_of(left), kind_of(right)):
        return Binding(arguments=_as_decimals(call, left, right), result=LONG)
    return Binding(arguments=(LONG, LONG), result=LONG)


def sum_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """Type of a sum or difference of decimals."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale + 1, scale)


def product_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """Type of a product of decimals."""
    return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)


def remainder_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """Type of a remainder of decimals."""
    scale = max(left.scale, right.scale)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale, scale)


def one_number(call: Call) -> Binding:
    """The binding of a function that gives the type of its one number."""
    if len(call.types) != 1:
        raise call.refuse("it takes 1 argument")
    wanted = argument(call, call.types[0], NUMBER)
    return Binding(arguments=(wanted,), result=wanted)


def whole_number(call: Call) -> Binding:
    """The binding of `floor` and `ceil`: of decimals a decimal, of all else a long."""
    given = one_number(call).result
    if isinstance(given, DecimalType):
        precision = min(38, given.precision - given.scale + 1)
        return Binding(arguments=(given,), result=DecimalType(precision, 0))
    if is_integral(given):
        return Binding(arguments=(LONG,), result=LONG)
    return Binding(arguments=(DOUBLE,), result=LONG)


def rounding(call: Call) -> Binding:
    """The binding of `round`, whose number of decimals is a constant."""
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


def two_floats(call: Call) -> Binding:
    """The binding of a function of two floats of one type."""
    if len(call.types) != 2:
        raise call.refuse("it takes 2 arguments")
    both = FLOAT if set(call.types) == {FLOAT} else DOUBLE
    for given in call.types:
        argument(call, given, NUMBER)
    return Binding(arguments=(both, both), result=both)


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
