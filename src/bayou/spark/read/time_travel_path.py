"""Versions and times in paths, as delta-spark takes them: `/table@v12`, `/table@20240105100000000`.

A folder that is really called so is that folder; who opens a table has to look first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PathTravel", "path_travel"]

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
