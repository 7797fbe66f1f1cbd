"""Computes the year of a date, and formats dates and timestamps, for any year.

Arrow supports only the years -32767 to 32767, and returns wrong results for other dates. The
proleptic Gregorian calendar repeats every 400 years; such a period is called an era. Therefore,
dates are moved by whole eras before they are passed to Arrow.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import pc

# A pyarrow array or scalar. pyarrow's functions accept both, but their type hints don't.
Datum: TypeAlias = Any

_ERA = 146_097  # days
_DAY = 86_400_000_000  # microseconds
_ARROW_DAYS = (-12_000_000, 11_000_000)  # in the years -30885 and 32086
_FOUR_DIGITS = (-719_528, 2_932_896)  # 0000-01-01 and 9999-12-31


def in_arrow_years(dates: Datum) -> Datum:
    """Move dates by whole eras to years that Arrow supports; month, day and weekday don't change.

    If all dates are in such years, they are returned unchanged.
    """
    days = _days(dates)
    return dates if _are_within(days, _ARROW_DAYS) else _dates(_within_era(days))


def year_of(dates: Datum) -> Datum:
    """Return the years of dates, as int64."""
    days = _days(dates)
    if _are_within(days, _ARROW_DAYS):
        return pc.cast(pc.year(dates), pa.int64())
    near = pc.cast(pc.year(_dates(_within_era(days))), pa.int64())
    return pc.add(near, pc.multiply(_eras(days), 400))


def date_strings(dates: Datum) -> Datum:
    """Format dates as Spark does: `2024-01-05`, `+10000-01-01`, `-0001-12-31`."""
    days = _days(dates)
    if _are_within(days, _FOUR_DIGITS):
        return pc.cast(dates, pa.string())
    return _with_year(dates, pc.cast(_dates(_within_era(days)), pa.string()))


def timestamp_strings(timestamps: Datum) -> Datum:
    """Format `timestamp_ntz` values as `2024-01-05 12:00:00.000000`.

    Years outside 0 to 9999 are formatted as in `date_strings`.
    """
    micros = pc.cast(timestamps, pa.int64())
    days = _floor_divide(micros, _DAY)
    if _are_within(days, _FOUR_DIGITS):
        return pc.cast(timestamps, pa.string())
    of_day = pc.subtract(micros, pc.multiply(days, _DAY))
    near = pc.add(pc.multiply(_within_era(days), _DAY), of_day)
    return _with_year(_dates(days), pc.cast(pc.cast(near, pa.timestamp("us")), pa.string()))


def _with_year(dates: Datum, strings: Datum) -> Datum:
    """Replace the first four characters of each string by the year of the date in `dates`."""
    years = year_of(dates)
    digits = pc.utf8_lpad(pc.cast(pc.abs(years), pa.string()), 4, padding="0")
    sign = pc.if_else(pc.greater(years, 9999), "+", pc.if_else(pc.less(years, 0), "-", ""))
    return pc.binary_join_element_wise(sign, digits, pc.utf8_slice_codeunits(strings, 4), "")


def _days(dates: Datum) -> Datum:
    return pc.cast(pc.cast(dates, pa.int32()), pa.int64())


def _dates(days: Datum) -> Datum:
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def _eras(days: Datum) -> Datum:
    return _floor_divide(days, _ERA)


def _within_era(days: Datum) -> Datum:
    """Move days by whole eras to the years 1970 to 2369."""
    return pc.subtract(days, pc.multiply(_eras(days), _ERA))


def _are_within(days: Datum, limits: tuple[int, int]) -> bool:
    low, high = (to_scalar(limit, pa.int64()) for limit in limits)
    outside = pc.or_(pc.less(days, low), pc.greater(days, high))
    if isinstance(outside, pa.Scalar):
        return outside.as_py() is not True
    return pc.any(outside, min_count=0).as_py() is not True


def _floor_divide(values: Datum, divisor: int) -> Datum:
    quotient = pc.divide(values, divisor)
    below = pc.less(pc.subtract(values, pc.multiply(quotient, divisor)), 0)
    return pc.subtract(quotient, pc.cast(below, pa.int64()))
