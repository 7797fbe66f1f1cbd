"""The types of literals, and the parsing of strings as dates, numbers and time zones."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.expressions.model import Literal, LiteralValue
from bayou.kernel.expressions.types import kind_of
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
    PrimitiveType,
)
from bayou.protocol.sql import number_text


def literal_of(value: LiteralValue) -> Literal:
    """Return a literal of a Python value, with the corresponding type."""
    match value:
        case None:
            return Literal(None, VOID)
        case bool():
            return Literal(value, BOOLEAN)
        case int():
            return Literal(value, _integer_type(value))
        case float():
            return Literal(value, DOUBLE)
        case Decimal():
            return Literal(value, _decimal_type(value))
        case str():
            return Literal(value, STRING)
        case bytes():
            return Literal(value, BINARY)
        case dt.datetime():
            return Literal(value, TIMESTAMP_NTZ if value.tzinfo is None else TIMESTAMP)
        case _:
            return Literal(value, DATE)


def arrow_scalar(literal: Literal, arrow_type: Any) -> Any:
    """Convert a resolved literal to an Arrow scalar of the type in which it is compared."""
    value: object = literal.value
    if value is None:
        return to_scalar(None, arrow_type)
    if pa.types.is_floating(arrow_type):
        return to_scalar(_as_float(value), arrow_type)
    if pa.types.is_decimal(arrow_type):
        assert isinstance(value, int | Decimal)
        return to_scalar(Decimal(value), arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return to_scalar(_as_datetime(value, utc=arrow_type.tz is not None), arrow_type)
    return to_scalar(value, arrow_type)


def resolve_literal(literal: Literal, other: DataType | None) -> Literal:
    """Return the literal with its type, which may depend on the other operand of a comparison.

    Args:
        other: type of the operand with which the literal is compared. A string literal is parsed as
            this type or a wider type, for example as a double if this type is a decimal. If None,
            the literal isn't compared.
    """
    value = literal.value
    if value is None:
        return Literal(None, literal.data_type or VOID)
    if isinstance(value, str) and other is not None and other not in (STRING, VOID):
        return Literal(_parse_string(value, other), _parsed_type(value, other))
    if literal.data_type is not None:
        return literal
    if isinstance(value, dt.datetime) and value.tzinfo is None and other == TIMESTAMP:
        return Literal(value.replace(tzinfo=dt.UTC), TIMESTAMP)
    if isinstance(value, float) and other == FLOAT:
        # A Python float is a double, and Spark compares float and double as double.
        return Literal(value, DOUBLE)
    if isinstance(value, Decimal) and not value.is_finite():
        return Literal(float(value), DOUBLE)
    return literal_of(value)


def _parsed_type(string: str, other: DataType) -> DataType:
    if kind_of(other) == "integer":
        return _integer_type(int(string.strip()))
    return DOUBLE if other == FLOAT or isinstance(other, DecimalType) else other


def _parse_string(string: str, other: DataType) -> LiteralValue:
    try:
        if isinstance(other, DecimalType):
            return float(number_text(string))
        match other.name if isinstance(other, PrimitiveType) else "":
            case "byte" | "short" | "integer" | "long":
                return int(number_text(string))
            case "float" | "double":
                return float(number_text(string))
            case "boolean":
                return {"true": True, "false": False}[string.strip().lower()]
            case "binary":
                return string.encode()
            case "date":
                return parse_timestamp(string).date()
            case "timestamp":
                instant = parse_timestamp(string)
                return (
                    instant.replace(tzinfo=dt.UTC)
                    if instant.tzinfo is None
                    else instant.astimezone(dt.UTC)
                )
            case "timestamp_ntz":
                return parse_timestamp(string).replace(tzinfo=None)
            case _:
                raise ValueError(string)
    except (ValueError, KeyError, OverflowError, InvalidOperation) as error:
        raise PredicateError(
            f"{string!r} is compared with a value of type {other}, but can't be parsed as {other}. "
            "Correct the string, or cast the other operand to string.",
            expression=string,
        ) from error


_TIMESTAMP = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?)?)?)?"
    r"\s*(\S.*)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")


def parse_timestamp(string: str, *, strict: bool = False) -> dt.datetime:
    """Parse a date or timestamp; the result has a time zone if the string has one.

    Args:
        strict: whether a time zone is accepted only after seconds, as in Spark. If False, an offset
            is also accepted after minutes, and a zone name also after a day, hour or minute.
    """
    match = _TIMESTAMP.fullmatch(string.strip())
    if match is None:
        raise ValueError(string)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if zone is not None and (
        day is None or (minute is None and zone[0] in "+-") or (strict and second is None)
    ):
        raise ValueError(string)  # '2024-02-03-04' and '2024-02-03 10-20' are no offsets
    local = dt.datetime(  # noqa: DTZ001  # the time zone is optional
        int(year),
        int(month or 1),
        int(day or 1),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int((fraction or "")[:6].ljust(6, "0")),
    )
    return local if zone is None else local.replace(tzinfo=_zone(zone))


def _zone(name: str) -> dt.tzinfo:
    if name.upper() in ("Z", "UTC", "GMT"):
        return dt.UTC
    if match := _OFFSET.fullmatch(name):
        offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return dt.timezone(offset if match[1] == "+" else -offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(name) from error


def _decimal_type(value: Decimal) -> DataType:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return DOUBLE
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise PredicateError(
            f"{value}: the number has more than 38 digits, the maximum of a decimal. Use fewer "
            "digits, or a double.",
            expression=str(value),
        )
    return DecimalType(precision, scale)


def _integer_type(value: int) -> DataType:
    if -(1 << 31) <= value < 1 << 31:
        return INTEGER
    if -(1 << 63) <= value < 1 << 63:
        return LONG
    return _decimal_type(Decimal(value))


def _as_float(value: object) -> float:
    assert isinstance(value, int | float | Decimal)
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _as_datetime(value: object, *, utc: bool) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        assert isinstance(value, dt.date)
        value = dt.datetime.combine(value, dt.time())
    if value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC) if utc else value
    return value.astimezone(dt.UTC) if utc else value.astimezone(dt.UTC).replace(tzinfo=None)


_ZONE_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?00)?")

_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Java's short time zone names (`ZoneId.SHORT_IDS`), which Spark accepts."""


def normalize_time_zone(name: str) -> str:
    """Validate and normalize a time zone name as in `spark.sql.session.timeZone`.

    A name is a region (`Europe/Berlin`), `Z`, an offset (`+02:00`) or a Java short name (`PST`).
    Offsets are returned in the form `+HH:MM`. Short names are replaced by their region or offset.
    """
    if name in ("Z", "UTC", "GMT", "UT"):
        return "UTC"
    name = _SHORT.get(name, name)
    offset = _ZONE_OFFSET.fullmatch(name)
    if offset is not None and int(offset[2]) <= 18:
        return f"{offset[1]}{int(offset[2]):02}:{offset[3] or '00'}"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError) as error:
        raise ArgumentError(
            f"{name!r} isn't a time zone. Use a region such as Europe/Berlin, an offset such as "
            "+02:00, or UTC.",
            argument="time_zone",
        ) from error
