"""Fields that are moments in a form of their own: numbers since the epoch, or texts of a pattern.

| format | a value is |
|---|---|
| `epoch-s`, `epoch-ms`, `epoch-us` | a number since 1970, or a text of one |
| `iso` | a text as ISO 8601 has it |
| one with `%`, such as `%d.%m.%Y %H:%M` | a text by that pattern, as Python's `strptime` takes it |

Without an offset a text is in UTC. Null stays null. A pattern has a year, and no `%Z`: which names
of zones `strptime` knows depends on the machine, and their offsets it leaves out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bayou.protocol.schema import TIMESTAMP, StructField, StructType

__all__ = ["converted", "is_timestamp_format", "schema_without", "timestamp_columns"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = {"epoch-s": 1_000_000, "epoch-ms": 1000, "epoch-us": 1}


def is_timestamp_format(text: str) -> bool:
    """Whether values can be read by it."""
    if text in _MICROSECONDS or text == "iso":
        return True
    example = datetime(2024, 1, 1, tzinfo=UTC)
    try:
        found = _by_pattern(example.strftime(text), text)
    except (ValueError, re.error):  # the latter for a part that is there twice
        return False
    return found.year == example.year and "%Z" not in text.replace("%%", "")


def converted(record: dict[str, Any], formats: Mapping[str, str]) -> dict[str, Any]:
    """A record whose fields of these names are moments in UTC.

    Raises:
        ValueError: a value isn't of its format.
    """
    found = dict(record)
    for name, form in formats.items():
        value = found.get(name)
        if value is None:
            continue
        try:
            found[name] = _moment(value, form)
        except (ValueError, ArithmeticError) as error:  # Decimal's overflow is no OverflowError
            raise ValueError(
                f"field {name!r}: {str(value)[:60]!r} isn't a timestamp by the format {form}"
            ) from error
    return found


def timestamp_columns(columns: StructType, formats: Mapping[str, str]) -> StructType:
    """Columns with those of these names as timestamps."""
    return StructType(
        tuple(
            StructField(name=f.name, data_type=TIMESTAMP, nullable=f.nullable)
            if f.name in formats
            else f
            for f in columns
        )
    )


def schema_without(schema: str, paths: Mapping[str, str]) -> str:
    """A JSON Schema that says nothing of the values of these properties, such as `place.at`."""
    found: Any = json.loads(schema)
    for path in paths:
        part = found
        *outer, name = [path] if path in found.get("properties", {}) else path.split(".")
        for step in outer:
            part = part.get("properties", {}).get(step, {})
        if name in part.get("properties", {}):
            part["properties"][name] = {}
    return json.dumps(found)


def _moment(value: Any, form: str) -> datetime:
    numeric = form in _MICROSECONDS and isinstance(value, int | float)
    if isinstance(value, bool) or not (numeric or isinstance(value, str)):
        raise ValueError(type(value).__name__)  # the caller tells the record
    if form in _MICROSECONDS:
        number = value if isinstance(value, int) else Decimal(str(value))
        return _EPOCH + timedelta(microseconds=int(number * _MICROSECONDS[form]))
    found = datetime.fromisoformat(value) if form == "iso" else _by_pattern(value, form)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _by_pattern(value: str, pattern: str) -> datetime:
    return datetime.strptime(value, pattern)  # noqa: DTZ007  # UTC is added where it has none
