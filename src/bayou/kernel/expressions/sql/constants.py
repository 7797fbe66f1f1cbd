"""Constants of SQL text: numbers, and casts of constants, which are done at once."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

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

__all__ = ["cast_constant", "number", "sql_type"]

_TYPES: dict[str, DataType] = {
    "TINYINT": BYTE,
    "SMALLINT": SHORT,
    "INT": INTEGER,
    "BIGINT": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
    "TEXT": STRING,
    "BINARY": BINARY,
    "VARCHAR": STRING,
}


def sql_type(node: Any) -> DataType | None:
    """The type that a node of sqlglot's tree names; None for one that isn't supported."""
    name = node.this.name
    if name == "DECIMAL":
        sizes = [int(part.this.this) for part in node.expressions] or [10, 0]
        precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        fits = 0 < precision <= 38 and 0 <= scale <= precision
        return DecimalType(precision, scale) if fits else None
    return None if node.expressions and name != "VARCHAR" else _TYPES.get(name)


def cast_constant(constant: Literal, target: DataType) -> Expression:
    """The constant of another type; the cast itself where only the evaluator does it.

    Raises:
        PredicateError: the constant isn't one of that type.
    """
    value = constant.value
    try:
        return Literal(_converted(value, target), target)
    except TypeError as error:
        given = literal_of(value) if constant.data_type is None else constant
        assert given.data_type is not None  # literal_of gives one
        if can_cast(given.data_type, target):
            return Cast(given, target)
        raise _not_one(value, target) from error
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise _not_one(value, target) from error


def _not_one(value: LiteralValue, target: DataType) -> PredicateError:
    return PredicateError(f"{value!r} isn't a {target}.", expression=str(value))


_DECIMAL_CONTEXT = Context(prec=76)
_BITS = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}


def number(text: str) -> Literal:
    """A bare number: integer, decimal with a point, double with an exponent."""
    if re.fullmatch(r"[0-9]+", text):
        return Literal(int(text))
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    return literal_of(Decimal(text))


def _converted(value: LiteralValue, target: DataType) -> LiteralValue:
    """A constant's value after a cast."""
    if value is None:
        return None
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
    """The value as a float of 32 bits has it."""
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
        moment = parse_timestamp(value)
    elif isinstance(value, dt.datetime):
        moment = value
    elif isinstance(value, dt.date):
        moment = dt.datetime.combine(value, dt.time())
    else:
        raise TypeError
    if target == DATE:
        return moment.date()
    if target == TIMESTAMP_NTZ:
        return moment.replace(tzinfo=None)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=dt.UTC)
    return moment.astimezone(dt.UTC)
