"""Versions and times in paths, as delta-spark takes them: `/table@v12`, `/table@20240105100000000`.

A folder that is really called so is that folder; who opens a table has to look first.

Timestamps in option values.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from bayou.errors import ArgumentError
from bayou.kernel.expressions.literals import checked_time_zone

__all__ = ["PathTravel", "parse_timestamp", "path_travel"]


_TRAVEL = re.compile(r"(?P<path>.+)@(?:[vV](?P<version>\d+)|(?P<time>\d{17}))", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTravel:
    """What a path says, one of version and time.

    Attributes:
        path: the table's.
        version: behind `@v`; None for a time.
        timestamp: behind `@`, as `2024-01-05 10:00:00.000`, in the session's time zone; None for a
            version.
    """

    path: str
    version: int | None
    timestamp: str | None


def path_travel(path: str) -> PathTravel | None:
    """The version or the time at the end of a path; None where there is none."""
    found = _TRAVEL.fullmatch(path)
    if found is None:
        return None
    version, time = found["version"], found["time"]
    return PathTravel(
        path=found["path"],
        version=None if version is None else int(version),
        timestamp=None if time is None else _timestamp(time),
    )


def _timestamp(digits: str) -> str:
    """`20240105103000123` in a shape that Spark and we read."""
    year, month, day, hour, minute, second, fraction = (
        digits[a:b] for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14), (14, 17))
    )
    return f"{year}-{month}-{day} {hour}:{minute}:{second}.{fraction}"


_SHAPE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}:?\d{2})?"
)


def parse_timestamp(name: str, text: str, time_zone: str = "UTC") -> int:
    """Milliseconds since the epoch of what delta-spark takes for `timestampAsOf`.

    A date, a date and a time (`2024-01-05 10:00:00.123`, or with `T`), each with or without an
    offset (`Z`, `+02:00`). Without one it is in `time_zone`, of times that a clock shows twice the
    earlier one.

    Args:
        name: the option, for the error.
        text: its value.
        time_zone: the session's, by any name that Spark takes; one that isn't known here counts as
            UTC.

    Raises:
        ArgumentError: another shape, or no such day or time.
    """
    match = _SHAPE.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError("not a timestamp")
        year, month, day, hour, minute, second = (int(match[i] or 0) for i in range(1, 7))
        micros = int((match[7] or "0").ljust(6, "0")[:6])
        moment = dt.datetime(
            year, month, day, hour, minute, second, micros, tzinfo=_zone(match[8], time_zone)
        )
    except ValueError as error:
        raise ArgumentError(
            f"{name} is {text!r}; it must be a date or a timestamp such as '2024-01-05', "
            f"'2024-01-05 10:00:00.123' or '2024-01-05T10:00:00Z' "
            f"(in {time_zone} without an offset).",
            argument=name,
        ) from error
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (moment - epoch) // dt.timedelta(milliseconds=1)


def _zone(text: str | None, time_zone: str) -> dt.tzinfo:
    if text is None:
        try:
            text = checked_time_zone(time_zone)
        except ArgumentError:
            return dt.UTC
    if text in ("Z", "UTC"):
        return dt.UTC
    if text[0] not in "+-":
        return ZoneInfo(text)
    digits = text[1:].replace(":", "")
    offset = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return dt.timezone(-offset if text[0] == "-" else offset)
