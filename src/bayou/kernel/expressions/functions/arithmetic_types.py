"""Types of what arithmetic takes and gives, as in Spark's ANSI mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayou.kernel.expressions.functions.definition import (
    NUMBER,
    Binding,
    Call,
    argument,
    constant_of,
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
    "arithmetic",
    "division",
    "integral_division",
    "one_number",
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
