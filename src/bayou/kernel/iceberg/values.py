"""Values of statistics and partitions (Iceberg spec, Binary single-value serialization).

Partition values are `int` (also days and microseconds since the epoch), `float`, `bool`, `str`,
`bytes` or `Decimal`. Bounds are these values, encoded as bytes.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any, Literal, TypeAlias

from bayou.protocol.partition_values import parse
from bayou.protocol.schema import DataType, DecimalType

IcebergValue: TypeAlias = None | bool | int | float | str | bytes | Decimal

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # timestamps without a time zone count from it
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)
_TRUNCATED_MICROSECONDS = 999
"""Maximum number of microseconds by which a maximum of Delta's statistics can be too low.

Delta's statistics truncate timestamps to milliseconds.
"""
_DECIMAL_CONTEXT = Context(prec=76)


def partition_value(string: str | None, data_type: DataType) -> IcebergValue:
    """Parse a partition value of a file action; raise ValueError if it isn't valid for the type."""
    value = parse(string, data_type)
    match value:
        case dt.datetime():
            return _microseconds(value)
        case dt.date():
            return value.toordinal() - _EPOCH_DAY
        case _:
            return value


def lower_bound(value: Any, data_type: DataType, *, was_float: bool = False) -> bytes | None:
    """Encode a minimum from a file's statistics; None if it isn't a valid bound in Iceberg.

    Args:
        value: the minimum, as in `FileStatistics`.
        was_float: whether the file may have been written when the column was a float. In this case,
            `value` is the shortest decimal representation of the float, which can differ from the
            exact value of the float.
    """
    return _bound(value, data_type, "lower", was_float=was_float)


def upper_bound(value: Any, data_type: DataType, *, was_float: bool = False) -> bytes | None:
    """Encode a maximum from a file's statistics; see `lower_bound`."""
    return _bound(value, data_type, "upper", was_float=was_float)


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    """Return the unscaled value in two's complement, big-endian, in as few bytes as possible."""
    unscaled = int(value.scaleb(scale, context=_DECIMAL_CONTEXT))
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
    return unscaled.to_bytes((bits + 7) // 8, "big", signed=True)


def value_bytes(value: IcebergValue, iceberg_type: str) -> bytes | None:
    """Encode a partition value as bytes of the Iceberg type; None if the value is null."""
    match value:
        case None:
            return None
        case bool():
            return b"\x01" if value else b"\x00"
        case int():
            wide = iceberg_type not in ("int", "date")
            return struct.pack("<q" if wide else "<i", value)
        case float():
            return struct.pack("<f" if iceberg_type == "float" else "<d", value)
        case Decimal():
            scale = int(iceberg_type.rstrip(")").rpartition(",")[2])
            return decimal_bytes(value, scale)
        case str():
            return value.encode()
        case bytes():
            return value


def value_from_bytes(data: bytes | None, iceberg_type: str) -> IcebergValue:
    """Return the value of a bound in a field summary; the inverse of `value_bytes`.

    If a column is widened after a bound was written, the bound has fewer bytes than the current
    type.
    """
    if data is None:
        return None
    match iceberg_type:
        case "boolean":
            return data != b"\x00"
        case "int" | "long" | "date" | "timestamp" | "timestamptz":
            return int.from_bytes(data, "little", signed=True)
        case "float" | "double":
            number: float = struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
            return number
        case "string":
            return data.decode()
        case _ if iceberg_type.startswith("decimal"):
            scale = int(iceberg_type.rstrip(")").rpartition(",")[2])
            return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(
                -scale, context=_DECIMAL_CONTEXT
            )
        case _:
            return data


def _bound(
    value: Any, data_type: DataType, side: Literal["lower", "upper"], *, was_float: bool
) -> bytes | None:
    try:
        if isinstance(data_type, DecimalType):
            return _decimal_bound(value, data_type, side)
        match str(data_type):
            case "byte" | "short" | "integer":
                return struct.pack("<i", value)
            case "long":
                return struct.pack("<q", value)
            case "float" | "double" as name:
                return _float_bound(value, name, side, was_float=was_float)
            case "date":
                return struct.pack("<i", value.toordinal() - _EPOCH_DAY)
            case "timestamp" | "timestamp_ntz":
                added = _TRUNCATED_MICROSECONDS if side == "upper" else 0
                return struct.pack("<q", _microseconds(value) + added)
            case "string":
                return str(value).encode()
            case _:
                return None
    except (struct.error, ValueError, OverflowError, InvalidOperation):
        return None  # the bound is out of the column's range: omitting a bound is always correct


def _decimal_bound(value: Decimal, data_type: DecimalType, side: str) -> bytes:
    rounding = ROUND_FLOOR if side == "lower" else ROUND_CEILING
    quantum = Decimal(1).scaleb(-data_type.scale)
    return decimal_bytes(
        value.quantize(quantum, rounding=rounding, context=_DECIMAL_CONTEXT), data_type.scale
    )


def _float_bound(value: float, name: str, side: str, *, was_float: bool) -> bytes | None:
    number = float(value)
    if math.isnan(number):
        return None
    if number == 0:  # in Iceberg, -0.0 is less than 0.0; in Delta's statistics, they are equal
        number = -0.0 if side == "lower" else 0.0
    if name == "float":
        return struct.pack("<f", number)
    if was_float:
        single = struct.unpack("<f", struct.pack("<f", number))[0]
        number = min(number, single) if side == "lower" else max(number, single)
    return struct.pack("<d", number)


def _microseconds(value: dt.datetime) -> int:
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
