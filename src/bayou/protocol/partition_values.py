"""Partition values as text (PROTOCOL.md, Partition Value Serialization).

NULL and the empty string are one: both are null for every type. After a type change old values
keep the old type's text, so a text of a narrower type is read too.
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

__all__ = ["PartitionValue", "is_zoneless", "parse", "serialize"]

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
    """Text of a value for `add.partitionValues`, None for NULL, "" and b"".

    Timestamps are written in UTC as ISO 8601 with `Z`, which no reader's time zone can shift, as
    PROTOCOL.md recommends and delta-spark does; a datetime without zone counts as UTC. Numbers
    are written as delta-spark writes them.

    Raises:
        ValueError: the value doesn't fit the type, or the type can't partition a table.
    """
    if value is None:
        return None
    name = str(data_type)
    try:
        return _serialize(value, data_type, name) or None
    except (TypeError, AttributeError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"{value!r} isn't a value of type {name}") from error


def parse(text: str | None, data_type: DataType, time_zone: str = "UTC") -> PartitionValue:
    """Value of a text in `add.partitionValues`; None and "" are NULL.

    A timestamp comes back with zone UTC, a timestamp_ntz without zone.

    Args:
        text: what stands in the log.
        data_type: the column's type.
        time_zone: zone of timestamps that are written without one.

    Raises:
        ValueError: the text isn't a value of the type, or the type can't partition a table.
    """
    if text is None or text == "":
        return None
    try:
        return _parse(text, data_type, time_zone)
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"partition value {text!r} isn't a value of type {data_type}") from error


def is_zoneless(text: str | None, data_type: DataType) -> bool:
    """Whether a text is a timestamp without a zone: each reader takes its own.

    Such a text stays when rows move to new files, for no other one means the same to all readers.
    """
    match = (
        None if not text or str(data_type) != "timestamp" else _TIMESTAMP.fullmatch(text.strip())
    )
    return match is not None and match[8] is None


def _serialize(value: PartitionValue, data_type: DataType, name: str) -> str:
    if isinstance(data_type, DecimalType):
        return _decimal_text(value, data_type)
    match name:
        case "string" if isinstance(value, str):
            return value
        case "boolean" if isinstance(value, bool):
            return "true" if value else "false"
        case _ if isinstance(value, bool):  # an int to Python
            raise TypeError
        case "byte" | "short" | "integer" | "long" if isinstance(value, int):
            return str(_in_range(value, name))
        case "float" | "double" if isinstance(value, int | float):
            return _float_text(float(value), single=name == "float")
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


def _parse(text: str, data_type: DataType, time_zone: str) -> PartitionValue:
    if isinstance(data_type, DecimalType):
        value = Decimal(text).quantize(
            Decimal(1).scaleb(-data_type.scale), context=_DECIMAL_CONTEXT
        )
        if value and value.adjusted() >= data_type.precision - data_type.scale:
            raise ValueError(text)
        return value
    match data_type.name if hasattr(data_type, "name") else "":
        case "string":
            return text
        case "boolean" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "byte" | "short" | "integer" | "long" as name:
            return _in_range(int(text), name)
        case "double":
            return float(text)
        case "float":
            return _as_single(float(text))
        case "date":
            # A timestamp's text is cut to its date.
            return _timestamp(text).date()
        case "timestamp":
            return _instant(text, time_zone)
        case "timestamp_ntz":
            return _timestamp(text)
        case "binary":
            return text.encode("utf-8")
        case _:
            raise ValueError(text)


def _in_range(value: int, name: str) -> int:
    limit = 1 << (_INTEGER_BITS[name] - 1)
    if not -limit <= value < limit:
        raise OverflowError
    return value


def _decimal_text(value: PartitionValue, data_type: DecimalType) -> str:
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise TypeError
    scaled = Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), context=_DECIMAL_CONTEXT)
    if scaled and scaled.adjusted() >= data_type.precision - data_type.scale:
        raise OverflowError
    return format(scaled, "f")


def _float_text(value: float, *, single: bool) -> str:
    """A float as Java prints it: `1.0`, `1.0E10`, `NaN`, `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    if single:
        value = _as_single(value)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(_shortest_single(value) if single else repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    assert isinstance(exponent, int)
    point = len(digits) + exponent  # the value is 0.<text> times ten to the power of this
    if -3 < point <= 7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        fraction = text[point:] if point > 0 else "0" * -point + text
        body = f"{whole}.{fraction or '0'}"
    else:
        body = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return f"-{body}" if sign else body


def _shortest_single(value: float) -> str:
    for precision in range(1, 9):
        text = f"{value:.{precision}g}"
        if _as_single(float(text)) == value:
            return text
    return f"{value:.9g}"


def _as_single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _timestamp(text: str) -> dt.datetime:
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, _ = match.groups()
    return dt.datetime(  # noqa: DTZ001  # the caller puts the zone
        int(year),
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int((fraction or "0")[:6].ljust(6, "0")),
    )


def _instant(text: str, time_zone: str) -> dt.datetime:
    local = _timestamp(text)
    match = _TIMESTAMP.fullmatch(text.strip())
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
