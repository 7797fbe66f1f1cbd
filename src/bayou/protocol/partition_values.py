"""Conversion of partition values to strings and back (PROTOCOL.md, Partition Value Serialization).

The empty string is NULL for every type. After a column is widened, existing files keep the strings
of the old type; strings of a narrower type are therefore parsed too.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

from bayou.protocol.schema import DataType, DecimalType
from bayou.protocol.sql import number_text

PartitionValue: TypeAlias = (
    None | bool | int | float | str | bytes | Decimal | dt.date | dt.datetime
)

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_TIMESTAMP = re.compile(
    r"([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
    r"\s*(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_DECIMAL_CONTEXT = Context(prec=76)


def serialize(value: PartitionValue, data_type: DataType) -> str | None:
    """Convert a partition value to its string in `add.partitionValues`.

    None, "" and b"" are converted to None (NULL).

    Timestamps are written in UTC with the suffix `Z`, which every reader reads as UTC. A datetime
    without a time zone is UTC. Numbers are formatted as in delta-spark.

    Raises:
        ValueError: the value isn't of the type, or tables can't be partitioned by the type.
    """
    if value is None:
        return None
    name = str(data_type)
    try:
        return _serialize(value, data_type, name) or None
    except (TypeError, AttributeError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"{value!r} isn't a value of type {name}") from error


def parse(string: str | None, data_type: DataType, time_zone: str = "UTC") -> PartitionValue:
    """Parse a string in `add.partitionValues`; None and "" are NULL.

    A timestamp becomes a datetime in UTC; a timestamp_ntz becomes a datetime without a time zone.

    Args:
        time_zone: time zone of timestamps whose strings have no time zone.

    Raises:
        ValueError: the string isn't of the type, or tables can't be partitioned by the type.
    """
    if string is None or string == "":
        return None
    try:
        return _parse(string, data_type, time_zone)
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"partition value {string!r} isn't a value of type {data_type}") from error


def lacks_time_zone(string: str | None, data_type: DataType) -> bool:
    """Whether the string of a `timestamp` partition value has no time zone.

    Each reader interprets such a string in its own time zone. A command that rewrites a file must
    copy the string unchanged: if the command added a time zone, the value would change for readers
    in other time zones.
    """
    match = (
        None
        if not string or str(data_type) != "timestamp"
        else _TIMESTAMP.fullmatch(string.strip())
    )
    return match is not None and match[8] is None


def _serialize(value: PartitionValue, data_type: DataType, name: str) -> str:
    if isinstance(data_type, DecimalType):
        return _format_decimal(value, data_type)
    match name:
        case "string" if isinstance(value, str):
            return value
        case "boolean" if isinstance(value, bool):
            return "true" if value else "false"
        case _ if isinstance(value, bool):  # in Python, a bool is an int
            raise TypeError
        case "byte" | "short" | "integer" | "long" if isinstance(value, int):
            return str(_in_range(value, name))
        case "float" | "double" if isinstance(value, int | float):
            return _format_float(float(value), single=name == "float")
        case "date" if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return value.isoformat()
        case "timestamp" if isinstance(value, dt.datetime):
            instant = value if value.tzinfo is None else value.astimezone(dt.UTC)
            return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case "timestamp_ntz" if isinstance(value, dt.datetime) and value.tzinfo is None:
            return value.isoformat(sep=" ")
        case "binary" if isinstance(value, bytes):
            return value.decode("utf-8")
        case _:
            raise TypeError


def _parse(string: str, data_type: DataType, time_zone: str) -> PartitionValue:
    if isinstance(data_type, DecimalType):
        value = Decimal(number_text(string)).quantize(
            Decimal(1).scaleb(-data_type.scale), context=_DECIMAL_CONTEXT
        )
        if value and value.adjusted() >= data_type.precision - data_type.scale:
            raise ValueError(string)
        return value
    match data_type.name if hasattr(data_type, "name") else "":
        case "string":
            return string
        case "boolean" if string.lower() in ("true", "false"):
            return string.lower() == "true"
        case "byte" | "short" | "integer" | "long" as name:
            return _in_range(int(number_text(string)), name)
        case "double":
            return float(number_text(string))
        case "float":
            return _as_single(float(number_text(string)))
        case "date":
            # Accept a timestamp too, and drop its time of day.
            return _timestamp(string).date()
        case "timestamp":
            return _instant(string, time_zone)
        case "timestamp_ntz":
            return _timestamp(string)
        case "binary":
            return string.encode("utf-8")
        case _:
            raise ValueError(string)


def _in_range(value: int, name: str) -> int:
    limit = 1 << (_INTEGER_BITS[name] - 1)
    if not -limit <= value < limit:
        raise OverflowError
    return value


def _format_decimal(value: PartitionValue, data_type: DecimalType) -> str:
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise TypeError
    scaled = Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), context=_DECIMAL_CONTEXT)
    if scaled and scaled.adjusted() >= data_type.precision - data_type.scale:
        raise OverflowError
    return format(scaled, "f")


def _format_float(value: float, *, single: bool) -> str:
    """Format a float as Java does: `1.0`, `1.0E10`, `NaN`, `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    if single:
        value = _as_single(value)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(_shortest_single(value) if single else repr(value)).as_tuple()
    significand = "".join(map(str, digits)).rstrip("0") or "0"
    assert isinstance(exponent, int)
    point = len(digits) + exponent  # the value is 0.<significand> times ten to the power of this
    if -3 < point <= 7:
        whole = significand[:point].ljust(point, "0") if point > 0 else "0"
        fraction = significand[point:] if point > 0 else "0" * -point + significand
        body = f"{whole}.{fraction or '0'}"
    else:
        body = f"{significand[0]}.{significand[1:] or '0'}E{point - 1}"
    return f"-{body}" if sign else body


def _shortest_single(value: float) -> str:
    for precision in range(1, 9):
        shortest = f"{value:.{precision}g}"
        if _as_single(float(shortest)) == value:
            return shortest
    return f"{value:.9g}"


def _as_single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _timestamp(string: str) -> dt.datetime:
    match = _TIMESTAMP.fullmatch(string.strip())
    if match is None:
        raise ValueError(string)
    year, month, day, hour, minute, second, fraction, _ = match.groups()
    return dt.datetime(  # noqa: DTZ001  # the caller sets the time zone
        int(year),
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int((fraction or "0")[:6].ljust(6, "0")),
    )


def _instant(string: str, time_zone: str) -> dt.datetime:
    local = _timestamp(string)
    match = _TIMESTAMP.fullmatch(string.strip())
    zone = match[8] if match else None
    if zone == "Z" or (zone is None and time_zone == "UTC"):
        return local.replace(tzinfo=dt.UTC)
    if zone is None:
        return local.replace(tzinfo=_zone(time_zone)).astimezone(dt.UTC)
    digits = zone[1:].replace(":", "")
    offset = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return (local - offset if zone[0] == "+" else local + offset).replace(tzinfo=dt.UTC)


@lru_cache(maxsize=64)
def _zone(name: str) -> dt.tzinfo:
    if name[0] in "+-":
        minutes = int(name[1:3]) * 60 + int(name[4:6])
        return dt.timezone(dt.timedelta(minutes=minutes if name[0] == "+" else -minutes))
    return ZoneInfo(name)
