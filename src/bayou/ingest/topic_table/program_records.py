"""Records that a program hands over, as the JSON that a topic's records are.

Dates, times, UUIDs, decimals and bytes (in base 64) are texts; numbers, texts and arrays of numpy
are what they hold, as are timestamps of pandas. JSON has neither NaN nor infinity: they are null.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bayou.errors import ArgumentError

__all__ = ["json_records"]


def json_records(records: Iterable[Mapping[str, Any]], *, argument: str) -> list[bytes]:
    """The JSON text of each record.

    Args:
        argument: what the caller calls them, for messages.

    Raises:
        ArgumentError: one holds what has no JSON.
    """
    encoder = msgspec.json.Encoder(enc_hook=_plain)
    found: list[bytes] = []
    for record in records:
        try:
            found.append(encoder.encode(record))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ArgumentError(
                f"{argument}[{len(found)}] can't be written as JSON: {error}. Nothing was written.",
                argument=argument,
            ) from error
    return found


def _plain(value: Any) -> Any:
    """What stands for a value of a type that the encoder doesn't know."""
    match value:
        case Mapping():
            return dict(value)
        case dt.datetime():  # of pandas: to the nanosecond, and NaT, which isn't equal to itself
            return value.isoformat(timespec="microseconds") if value == value else None  # noqa: PLR0124
        case str():
            return str(value)
        case float():
            return float(value)
    if hasattr(value, "tolist"):
        held = value.tolist()
        if not (isinstance(held, int) and value.dtype.kind in "mM"):  # nanoseconds since when?
            return held
    raise TypeError(f"{str(value)[:60]!r} is of the type {type(value).__name__}")
