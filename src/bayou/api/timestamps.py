"""Moments as the short API takes them."""

from __future__ import annotations

import datetime as dt
from typing import TypeAlias

from bayou.errors import ArgumentError

__all__ = ["Timestamp", "milliseconds"]

Timestamp: TypeAlias = dt.datetime | str | int
"""A datetime (without zone: UTC), ISO 8601 text (without zone: UTC), or ms since the epoch."""


def milliseconds(timestamp: Timestamp) -> int:
    """Ms since the epoch.

    Raises:
        ArgumentError: it isn't a timestamp.
    """
    match timestamp:
        case bool():
            pass
        case int():
            return timestamp
        case str():
            try:
                return milliseconds(dt.datetime.fromisoformat(timestamp))
            except ValueError:
                pass
        case dt.datetime():
            moment = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=dt.UTC)
            return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    raise ArgumentError(
        f"{timestamp!r} isn't a timestamp: give a datetime, ISO 8601 text such as "
        "'2024-01-05T10:00:00Z', or milliseconds since the epoch.",
        argument="timestamp",
    )
