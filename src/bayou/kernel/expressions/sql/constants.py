"""Constants of SQL text: numbers, and casts of constants, which are done at once.

Constant intervals of SQL text, which stand beside a date or timestamp.

String constants of Spark's SQL, whose escapes the parser doesn't know.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable
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

__all__ = ["STAND_IN", "cast_constant", "interval", "lift_strings", "number", "sql_type"]


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
_PAIR = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s+([a-z]+)", re.IGNORECASE)


def interval(node: Any, text_of: Callable[[str], str]) -> tuple[int, int] | None:
    """Months and microseconds of an `Interval` of sqlglot's tree.

    Args:
        text_of: the string that a stand-in is for.

    Returns:
        None for an interval that isn't a constant, or has another form.
    """
    value, sign = node.this, 1
    if type(value).__name__ == "Neg":
        value, sign = value.this, -1
    if type(value).__name__ != "Literal":
        return None
    text = text_of(str(value.this)).strip()
    unit = node.args.get("unit")
    match type(unit).__name__:
        case "NoneType":
            found = _pairs(text)
        case "Var":
            found = _one(text, unit.name)
        case "IntervalSpan":
            found = _span(text, unit.this.name.lower(), unit.expression.name.lower())
        case _:
            found = None
    return None if found is None else (sign * found[0], sign * found[1])


def _one(text: str, unit: str) -> tuple[int, int] | None:
    unit = unit.lower()
    if unit not in _MONTHS and unit not in _MICROS:
        unit = unit.removesuffix("s")
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    if unit in _MONTHS and amount == int(amount):
        return int(amount) * _MONTHS[unit], 0
    if unit in _MICROS and (amount == int(amount) or unit == "second"):
        return 0, int(amount * _MICROS[unit])
    return None


def _pairs(text: str) -> tuple[int, int] | None:
    """`1 day 2 hours`."""
    months = micros = at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        found = None if pair is None else _one(pair[1], pair[2])
        if pair is None or found is None:
            return None
        months, micros, at = months + found[0], micros + found[1], pair.end()
    return (months, micros) if at else None


def _span(text: str, first: str, last: str) -> tuple[int, int] | None:
    """`'1-2' YEAR TO MONTH`, `'1 10:30:00.5' DAY TO SECOND` and the like."""
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    if (first, last) == ("year", "month"):
        found = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
        return None if found is None else (sign * (int(found[1]) * 12 + int(found[2])), 0)
    if first not in _CLOCK or last not in _CLOCK:
        return None
    units = _CLOCK[_CLOCK.index(first) : _CLOCK.index(last) + 1]
    amounts = re.split(r"[ :]", text)
    if len(amounts) != len(units) or not all(
        re.fullmatch(r"[0-9]+(\.[0-9]+)?", a) for a in amounts
    ):
        return None
    total = sum((Decimal(a) * _MICROS[u] for a, u in zip(amounts, units, strict=True)), Decimal(0))
    return 0, sign * int(total)


# A quoted name, or a string with its prefix: these are where a quote may stand in SQL.
_QUOTED = re.compile(
    r"`(?:[^`]|``)*`"
    r"|(?P<hex>\b[xX])(?:'[^']*'|\"[^\"]*\")"
    r"|(?P<raw>\b[rR])?(?:'(?P<single>(?:[^'\\]|\\.|'')*)'|\"(?P<double>(?:[^\"\\]|\\.|\"\")*)\")"
    r"|--[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
STAND_IN = re.compile("bayou string ([0-9]+)")
"""What stands in the text for a string: its number."""


def lift_strings(text: str, strings: list[str]) -> str:
    """Put numbered stand-ins for string constants, whose values go to `strings`.

    The parser's own idea of escapes isn't Spark's.
    """

    def lift(match: re.Match[str]) -> str:
        body = match["single"] if match["single"] is not None else match["double"]
        if body is None or match["hex"]:
            return match[0]
        quote = "'" if match["single"] is not None else '"'
        strings.append(body if match["raw"] else _unescape(body, quote))
        return f"'bayou string {len(strings) - 1}'"

    return _QUOTED.sub(lift, text)


_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<one>.))"
    r"|(?P<twice>''|\"\")",
    re.DOTALL,
)
_ONE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unescape(body: str, quote: str) -> str:
    def value(match: re.Match[str]) -> str:
        if code := match["short"] or match["long"]:
            return chr(int(code, 16))
        if octal := match["octal"]:
            return chr(int(octal, 8))
        if twice := match["twice"]:
            return quote if twice == quote * 2 else twice
        return _ONE.get(match["one"], match["one"])

    text = _ESCAPE.sub(value, body)
    # \uXXXX escapes may have spelled a character beyond 16 bits as two.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
