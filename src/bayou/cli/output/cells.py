"""Formats values as cells of a printed table."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

MAX_LENGTH = 60
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def format_cell(value: Any, max_length: int = MAX_LENGTH) -> Any:
    """Format a value as a cell of a printed table; long strings are shortened."""
    match value:
        case None:
            return value
        case float():
            return _NOT_FINITE.get(str(value), value)
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case dt.datetime():
            return value.isoformat(sep=" ")
        case bytes():
            string = value.decode(errors="backslashreplace")
        case dict() | list():
            string = msgspec.json.encode(value, enc_hook=str).decode()
        case _:
            string = str(value)
    return string if len(string) <= max_length else f"{string[: max_length - 1]}…"
