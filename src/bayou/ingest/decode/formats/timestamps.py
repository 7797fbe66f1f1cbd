"""Converts timestamp fields with a configured format.

| format | value |
|---|---|
| `epoch-s`, `epoch-ms`, `epoch-us` | a number or a numeric string: time since 1970 in this unit |
| `iso` | an ISO 8601 string |
| a pattern such as `%d.%m.%Y %H:%M` | a string that matches the pattern of Python's `strptime` |

A string without a UTC offset is in UTC. Null stays null. A pattern must contain the year. A pattern
can't contain `%Z`: `strptime` accepts different zone names on different machines, and ignores the
offsets of the zones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bayou.protocol.schema import TIMESTAMP, StructField, StructType
from bayou.protocol.sql import number_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = {"epoch-s": 1_000_000, "epoch-ms": 1000, "epoch-us": 1}
_MAX_MICROSECONDS = 10**18


def is_timestamp_format(format: str) -> bool:
    """Whether a timestamp format is valid."""
    if format in _MICROSECONDS or format == "iso":
        return True
    example = datetime(2024, 1, 1, tzinfo=UTC)
    try:
        parsed = _by_pattern(example.strftime(format), format)
    except (ValueError, re.error):  # re.error for a repeated directive
        return False
    return parsed.year == example.year and "%Z" not in format.replace("%%", "")


def converted(record: dict[str, Any], formats: Mapping[str, str]) -> dict[str, Any]:
    """Return a record whose timestamp fields are converted to UTC.

    Args:
        formats: the format of each timestamp field.

    Raises:
        ValueError: a value doesn't match its format.
    """
    result = dict(record)
    for name, form in formats.items():
        value = result.get(name)
        if value is None:
            continue
        try:
            result[name] = _timestamp(value, form)
        except (ValueError, ArithmeticError) as error:  # Decimal raises ArithmeticError
            raise ValueError(
                f"field {name!r}: {str(value)[:60]!r} isn't a timestamp of the format {form}"
            ) from error
    return result


def timestamp_columns(columns: StructType, formats: Mapping[str, str]) -> StructType:
    """Return `columns`; each column that has a format in `formats` has the type timestamp."""
    return StructType(
        tuple(
            StructField(name=f.name, data_type=TIMESTAMP, nullable=f.nullable)
            if f.name in formats
            else f
            for f in columns
        )
    )


def schema_without(schema: str, paths: Mapping[str, str]) -> str:
    """Return a JSON Schema that allows any value for the properties at `paths`.

    A path such as `place.at` is the path of a nested property.
    """
    document: Any = json.loads(schema)
    for path in paths:
        part = document
        *outer, name = [path] if path in document.get("properties", {}) else path.split(".")
        for step in outer:
            part = part.get("properties", {}).get(step, {})
        if name in part.get("properties", {}):
            part["properties"][name] = {}
    return json.dumps(document)


def _timestamp(value: Any, form: str) -> datetime:
    numeric = form in _MICROSECONDS and isinstance(value, int | float | Decimal)
    if isinstance(value, bool) or not (numeric or isinstance(value, str)):
        raise ValueError(type(value).__name__)  # the caller reports the field
    if form in _MICROSECONDS:
        number: Any = value if isinstance(value, int) else Decimal(number_text(str(value)))
        microseconds = number * _MICROSECONDS[form]
        if abs(microseconds) > _MAX_MICROSECONDS:  # `int` takes seconds for '1e999999'
            raise OverflowError
        return _EPOCH + timedelta(microseconds=int(microseconds))
    parsed = datetime.fromisoformat(value) if form == "iso" else _by_pattern(value, form)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _by_pattern(value: str, pattern: str) -> datetime:
    return datetime.strptime(value, pattern)  # noqa: DTZ007  # the caller adds UTC
