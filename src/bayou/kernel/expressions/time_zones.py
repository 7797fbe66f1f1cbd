"""Names of time zones, as Spark's `spark.sql.session.timeZone` has them."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from bayou.errors import ArgumentError

__all__ = ["checked_time_zone"]

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?00)?")

_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Java's short names (`ZoneId.SHORT_IDS`), which Spark takes."""


def checked_time_zone(name: str) -> str:
    """The name, if it is a region (`Europe/Berlin`), `Z`, an offset (`+02:00`) or a short name.

    Offsets come back as `+HH:MM`, Java's short names (`PST`) as what they stand for.

    Raises:
        ArgumentError: neither of those.
    """
    if name in ("Z", "UTC", "GMT", "UT"):
        return "UTC"
    name = _SHORT.get(name, name)
    offset = _OFFSET.fullmatch(name)
    if offset is not None and int(offset[2]) <= 18:
        return f"{offset[1]}{int(offset[2]):02}:{offset[3] or '00'}"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError) as error:
        raise ArgumentError(
            f"{name!r} isn't a time zone: give a region such as Europe/Berlin, an offset such as "
            "+02:00, or UTC.",
            argument="time_zone",
        ) from error
