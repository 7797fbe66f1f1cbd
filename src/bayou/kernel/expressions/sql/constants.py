"""Constants in SQL: types, numbers, casts of constants, intervals."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from sqlglot import exp

from bayou.errors import PredicateError
from bayou.kernel.expressions.casts import can_cast
from bayou.kernel.expressions.literals import literal_of, parse_timestamp
from bayou.kernel.expressions.model import Cast, Expression, Literal, LiteralValue
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)
from bayou.protocol.sql import number_text

_TYPES: dict[exp.DType, DataType] = {
    exp.DType.TINYINT: BYTE,
    exp.DType.SMALLINT: SHORT,
    exp.DType.INT: INTEGER,
    exp.DType.BIGINT: LONG,
    exp.DType.FLOAT: FLOAT,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP_NTZ,
    exp.DType.TEXT: STRING,
    exp.DType.BINARY: BINARY,
    exp.DType.VARCHAR: STRING,
}


def sql_type(node: exp.DataType) -> DataType | None:
    """Return the Delta type of a type node in sqlglot's tree; None if the type isn't supported."""
    if node.this == exp.DType.DECIMAL:
        sizes = [int(part.name) for part in node.expressions] or [10, 0]
        precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        fits = 0 < precision <= 38 and 0 <= scale <= precision
        return DecimalType(precision, scale) if fits else None
    if node.expressions and node.this != exp.DType.VARCHAR:
        return None
    return _TYPES.get(node.this)


def cast_constant(constant: Literal, target: DataType) -> Expression:
    """Cast a constant to a type.

    If the cast can only be computed during evaluation, the result is a `Cast`.

    Raises:
        PredicateError: the constant can't be cast to the type.
    """
    value = constant.value
    try:
        return Literal(_converted(value, target), target)
    except TypeError as error:
        literal = literal_of(value) if constant.data_type is None else constant
        assert literal.data_type is not None  # set by `literal_of`
        if can_cast(literal.data_type, target):
            return Cast(literal, target)
        raise _invalid(value, target) from error
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise _invalid(value, target) from error


def _invalid(value: LiteralValue, target: DataType) -> PredicateError:
    return PredicateError(
        f"{value!r} isn't a valid {target}. Correct the constant.", expression=str(value)
    )


_DECIMAL_CONTEXT = Context(prec=76)
_BITS = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}


def number(digits: str) -> Literal:
    """Parse a number without a suffix: `1` is an integer, `1.0` a decimal, `1e0` a double."""
    if re.fullmatch(r"[0-9]+", digits):
        return Literal(int(digits))
    if "e" in digits.lower():
        try:
            return Literal(float(digits), DOUBLE)
        except ValueError:
            raise PredicateError(f"{digits} isn't a number.", expression=digits) from None
    return literal_of(Decimal(digits))


def _converted(value: LiteralValue, target: DataType) -> LiteralValue:
    if value is None:
        return None
    is_decimal = isinstance(target, DecimalType)
    if isinstance(value, str) and (is_decimal or target in (*_BITS, FLOAT, DOUBLE)):
        value = number_text(value)
    if isinstance(target, DecimalType):
        return _to_decimal(value, target)
    if target in _BITS:
        number = int(value) if isinstance(value, str | int) else int(_finite(value))
        if not -(1 << (_BITS[target] - 1)) <= number < 1 << (_BITS[target] - 1):
            raise OverflowError
        return number
    if target in (FLOAT, DOUBLE) and isinstance(value, str | int | float | Decimal):
        return float(value) if target == DOUBLE else _single(float(value))
    if target == BOOLEAN and isinstance(value, bool):
        return value
    if target == STRING and isinstance(value, str):
        return value
    if target in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return _to_time(value, target)
    raise TypeError


def _single(value: float) -> float:
    try:
        (single,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(single)


def _finite(value: LiteralValue) -> float | Decimal:
    if not isinstance(value, float | Decimal):
        raise TypeError
    return value


def _to_decimal(value: LiteralValue, target: DecimalType) -> Decimal:
    if not isinstance(value, str | int | float | Decimal):
        raise TypeError
    number = Decimal(str(value)).quantize(
        Decimal(1).scaleb(-target.scale), rounding=ROUND_HALF_UP, context=_DECIMAL_CONTEXT
    )
    if number and number.adjusted() >= target.precision - target.scale:
        raise OverflowError
    return number


def _to_time(value: LiteralValue, target: DataType) -> dt.date | dt.datetime:
    if isinstance(value, str):
        timestamp = parse_timestamp(value)
    elif isinstance(value, dt.datetime):
        timestamp = value
    elif isinstance(value, dt.date):
        timestamp = dt.datetime.combine(value, dt.time())
    else:
        raise TypeError
    if target == DATE:
        return timestamp.date()
    if target == TIMESTAMP_NTZ:
        return timestamp.replace(tzinfo=None)
    if timestamp.tzinfo is None:
        return timestamp.replace(tzinfo=dt.UTC)
    return timestamp.astimezone(dt.UTC)


_MONTHS = {"year": 12, "month": 1}
_MICROS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_CLOCK = ("day", "hour", "minute", "second")
_AMOUNT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_PAIR = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s+([a-z]+)", re.IGNORECASE)


def interval(node: exp.Interval) -> tuple[int, int] | None:
    """Return (months, microseconds) of an interval; None if it isn't a supported constant."""
    value, sign = node.this, 1
    if isinstance(value, exp.Neg):
        value, sign = value.this, -1
    if not isinstance(value, exp.Literal):
        return None
    string = value.name.strip()
    match node.args.get("unit"):
        case None:
            amounts = _pairs(string)
        case exp.Var(name=unit):
            amounts = _single_unit(string, unit)
        case exp.IntervalSpan(this=exp.Var(name=first), expression=exp.Var(name=last)):
            amounts = _span(string, first.lower(), last.lower())
        case _:
            amounts = None
    return None if amounts is None else (sign * amounts[0], sign * amounts[1])


def _single_unit(string: str, unit: str) -> tuple[int, int] | None:
    unit = unit.lower()
    if unit not in _MONTHS and unit not in _MICROS:
        unit = unit.removesuffix("s")
    if _AMOUNT.fullmatch(string) is None:
        return None
    amount = Decimal(string)
    if unit in _MONTHS and amount == int(amount):
        return int(amount) * _MONTHS[unit], 0
    if unit in _MICROS and (amount == int(amount) or unit == "second"):
        return 0, int(amount * _MICROS[unit])
    return None


def _pairs(string: str) -> tuple[int, int] | None:
    """Parse a string like `1 day 2 hours` to (months, microseconds); None if it is invalid."""
    months = micros = position = 0
    while position < len(string):
        pair = _PAIR.match(string, position)
        amounts = None if pair is None else _single_unit(pair[1], pair[2])
        if pair is None or amounts is None:
            return None
        months, micros, position = months + amounts[0], micros + amounts[1], pair.end()
    return (months, micros) if position else None


def _span(string: str, first: str, last: str) -> tuple[int, int] | None:
    """Parse an interval such as `'1-2' YEAR TO MONTH` or `'1 10:30:00.5' DAY TO SECOND`.

    Args:
        string: the string in quotes, such as `1 10:30:00.5`.
        first, last: the units before and after TO, in lower case, such as `day` and `second`.

    Returns:
        Months and microseconds; None if the interval is invalid.
    """
    sign = -1 if string.startswith("-") else 1
    string = string.lstrip("+-")
    if (first, last) == ("year", "month"):
        match = re.fullmatch(r"([0-9]+)-([0-9]+)", string)
        return None if match is None else (sign * (int(match[1]) * 12 + int(match[2])), 0)
    if first not in _CLOCK or last not in _CLOCK:
        return None
    units = _CLOCK[_CLOCK.index(first) : _CLOCK.index(last) + 1]
    amounts = re.split(r"[ :]", string)
    if len(amounts) != len(units) or not all(
        re.fullmatch(r"[0-9]+(\.[0-9]+)?", a) for a in amounts
    ):
        return None
    total = sum((Decimal(a) * _MICROS[u] for a, u in zip(amounts, units, strict=True)), Decimal(0))
    return 0, sign * int(total)
