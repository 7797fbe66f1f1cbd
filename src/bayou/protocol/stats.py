"""Per-file statistics and their JSON (PROTOCOL.md, Per-file Statistics)."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from bayou.json_decoding import JsonDecoder, without_lone_surrogates
from bayou.protocol.schema import DataType, DecimalType, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """Statistics of one data file.

    Bounds and null counts are keyed by physical column name; structs are nested mappings. Bounds
    are Python values (int, float, str, bool, bytes, Decimal, date, datetime). `min_values` lacks
    columns whose minimum is unknown, and `max_values` lacks columns whose maximum is unknown.
    `tight_bounds` is None if the writer left it out.

    Examples:
        >>> FileStatistics(num_records=2, min_values={"id": 1}, max_values={"id": 2})
    """

    num_records: int
    min_values: Mapping[str, Any] = field(default_factory=dict)
    max_values: Mapping[str, Any] = field(default_factory=dict)
    null_count: Mapping[str, Any] = field(default_factory=dict)
    tight_bounds: bool | None = None


def to_json(stats: FileStatistics) -> str:
    """Encode statistics as JSON, for `add.stats`.

    All timestamps are truncated to milliseconds. Readers therefore add a millisecond to each
    maximum. A datetime without a time zone is a timestamp_ntz. Bounds that are NaN, infinite,
    boolean or binary are left out, because JSON or other readers don't support them.
    """
    value: dict[str, Any] = {
        "numRecords": stats.num_records,
        "minValues": _bounds_to_json(stats.min_values),
        "maxValues": _bounds_to_json(stats.max_values),
        "nullCount": stats.null_count,
    }
    if stats.tight_bounds is not None:
        value["tightBounds"] = stats.tight_bounds
    return _ENCODER.encode(value).decode()


def from_json(json: str | bytes, schema: StructType) -> FileStatistics | None:
    """Parse `add.stats`; return None if `numRecords` is missing.

    Args:
        schema: the table's schema with physical names. Statistics of columns that the schema lacks
            are left out. Bounds that don't have the column's type are left out too.

    Raises:
        ValueError: `json` isn't a JSON object.
    """
    value = _decode(json)
    num_records = value.get("numRecords")
    if not isinstance(num_records, int) or isinstance(num_records, bool):
        return None
    tight = value.get("tightBounds")
    return FileStatistics(
        num_records=num_records,
        min_values=_bounds_from_json(value.get("minValues"), schema),
        max_values=_bounds_from_json(value.get("maxValues"), schema),
        null_count=_counts_from_json(value.get("nullCount"), schema),
        tight_bounds=tight if isinstance(tight, bool) else None,
    )


def with_wide_bounds(json: str | None, num_records: int) -> str:
    """Return `add.stats` for a file with deleted rows: `tightBounds` is false, `numRecords` is set.

    Null counts stay unchanged, although they may include deleted rows. If `tightBounds` is false,
    readers use a null count only if it is 0 or the number of rows.

    Args:
        json: the file's statistics; None if the file has none.
        num_records: number of rows in the file, including deleted rows.

    Raises:
        ValueError: `json` isn't a JSON object.
    """
    value = {} if json is None else _decode(json)
    value["numRecords"] = num_records
    value["tightBounds"] = False
    return _ENCODER.encode(value).decode()


# Decimals keep all digits when they are encoded and decoded.
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_DECODER: JsonDecoder[Any] = JsonDecoder(object, float_hook=Decimal)


def _decode(json: str | bytes) -> dict[str, Any]:
    try:
        data = json.encode() if isinstance(json, str) else json
        value = _DECODER.decode(without_lone_surrogates(data))
    except (msgspec.DecodeError, UnicodeError, InvalidOperation) as error:
        raise ValueError(f"statistics aren't valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("statistics must be a JSON object")  # noqa: TRY004  # bad input
    return value


def _bounds_to_json(bounds: Mapping[str, Any]) -> dict[str, Any]:
    result = {}
    for name, value in bounds.items():
        encoded = _bound_to_json(value)
        if encoded is not None:
            result[name] = encoded
    return result


def _bound_to_json(value: Any) -> Any:
    match value:
        case None | bool() | bytes():
            return None
        case Mapping():
            return _bounds_to_json(value)
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return value if value.is_finite() else None
        case dt.datetime():
            local = value if value.tzinfo is None else value.astimezone(dt.UTC)
            formatted = local.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return formatted if value.tzinfo is None else formatted + "Z"
        case dt.date():
            return value.isoformat()
        case _:
            return value


def _bounds_from_json(value: Any, schema: StructType) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if not isinstance(value, dict):
        return result
    for column in schema:
        raw = value.get(column.name)
        if raw is None:
            continue
        if isinstance(column.data_type, StructType):
            result[column.name] = _bounds_from_json(raw, column.data_type)
            continue
        bound = _bound_from_json(raw, column.data_type)
        if bound is not None:
            result[column.name] = bound
    return result


def _counts_from_json(value: Any, schema: StructType) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if not isinstance(value, dict):
        return result
    for column in schema:
        raw = value.get(column.name)
        if isinstance(raw, dict) and isinstance(column.data_type, StructType):
            result[column.name] = _counts_from_json(raw, column.data_type)
        elif isinstance(raw, int) and not isinstance(raw, bool):
            result[column.name] = raw
    return result


def _bound_from_json(raw: Any, data_type: DataType) -> Any:
    try:
        if isinstance(data_type, DecimalType):
            return Decimal(raw) if isinstance(raw, int | Decimal | str) else None
        match str(data_type):
            case "byte" | "short" | "integer" | "long":
                return raw if isinstance(raw, int) and not isinstance(raw, bool) else None
            case "float" | "double":
                number = float(raw)
                return None if math.isnan(number) else number
            case "string":
                return raw if isinstance(raw, str) else None
            case "date":
                return dt.date.fromisoformat(raw[:10])
            case "timestamp":
                instant = dt.datetime.fromisoformat(raw)
                return (
                    instant.replace(tzinfo=dt.UTC)
                    if instant.tzinfo is None
                    else instant.astimezone(dt.UTC)
                )
            case "timestamp_ntz":
                return dt.datetime.fromisoformat(raw).replace(tzinfo=None)
            case _:
                return None
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        return None
