"""Time travel: versions and timestamps in paths and options, as in delta-spark.

A path can end in a version (`@v12`) or a timestamp (`@20240105100000000`). Callers first check that
no table exists at the whole path.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from bayou.errors import ArgumentError
from bayou.kernel.expressions.literals import normalize_time_zone

_TRAVEL = re.compile(r"(?P<path>.+)@(?:[vV](?P<version>\d+)|(?P<time>\d{17}))", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTravel:
    """The result of parsing a path that ends in a version or timestamp.

    Attributes:
        path: the table's path without the version or timestamp.
        version: the version; None if the path has a timestamp.
        timestamp: a timestamp in the session's time zone, such as `2024-01-05 10:00:00.000`; None
            if the path has a version.
    """

    path: str
    version: int | None
    timestamp: str | None


def path_travel(path: str) -> PathTravel | None:
    """Parse the version or timestamp at the end of a path; None if the path has neither."""
    match = _TRAVEL.fullmatch(path)
    if match is None:
        return None
    version, time = match["version"], match["time"]
    return PathTravel(
        path=match["path"],
        version=None if version is None else int(version),
        timestamp=None if time is None else _timestamp(time),
    )


def _timestamp(digits: str) -> str:
    """Convert `20240105103000123` to `2024-01-05 10:30:00.123`."""
    year, month, day, hour, minute, second, fraction = (
        digits[a:b] for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14), (14, 17))
    )
    return f"{year}-{month}-{day} {hour}:{minute}:{second}.{fraction}"


_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}:?\d{2})?"
)


def parse_timestamp(name: str, string: str, time_zone: str = "UTC") -> int:
    """Parse a timestamp in the format of delta-spark's `timestampAsOf`; return ms since the epoch.

    If a local time occurs twice because clocks were set back, the earlier one is used.

    Args:
        name: the option's name, for errors.
        string: a date, or a date and time such as `2024-01-05 10:00:00.123`. The separator can be
            `T`, and an offset such as `Z` or `+02:00` can follow.
        time_zone: time zone of a timestamp without an offset, under any of Spark's names. If the
            name is unknown, UTC is used.
    """
    match = _TIMESTAMP.fullmatch(string.strip())
    try:
        if match is None:
            raise ValueError("not a timestamp")
        year, month, day, hour, minute, second = (int(match[i] or 0) for i in range(1, 7))
        micros = int((match[7] or "0").ljust(6, "0")[:6])
        timestamp = dt.datetime(
            year, month, day, hour, minute, second, micros, tzinfo=_zone(match[8], time_zone)
        )
    except ValueError as error:
        raise ArgumentError(
            f"{name}: The provided timestamp ({string!r}) cannot be converted to a valid timestamp "
            "(DELTA_TIMESTAMP_INVALID). Set a date or a timestamp such as '2024-01-05', "
            "'2024-01-05 10:00:00.123' or '2024-01-05T10:00:00Z'. A timestamp without an offset is "
            f"in {time_zone}.",
            argument=name,
        ) from error
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (timestamp - epoch) // dt.timedelta(milliseconds=1)


def _zone(offset: str | None, time_zone: str) -> dt.tzinfo:
    if offset is None:
        try:
            offset = normalize_time_zone(time_zone)
        except ArgumentError:
            return dt.UTC
    if offset in ("Z", "UTC"):
        return dt.UTC
    if offset[0] not in "+-":
        return ZoneInfo(offset)
    digits = offset[1:].replace(":", "")
    delta = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return dt.timezone(-delta if offset[0] == "-" else delta)
