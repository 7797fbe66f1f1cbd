"""Date arithmetic over Arrow columns, in the proleptic Gregorian calendar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.calendar import in_arrow_years, year_of
from bayou.kernel.expressions.casts import cast, raise_if_failed
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    constant_of,
    fixed_parameters,
)
from bayou.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)

DAY = 86_400_000_000
"""Microseconds in a day."""


def without_zone(values: Datum) -> Datum:
    """Convert timestamps in UTC to `timestamp[us]`, Arrow's type without a time zone."""
    return pc.cast(values, pa.timestamp("us"))


def remainder_of_day(values: Datum) -> Datum:
    """Return the microseconds since midnight."""
    micros = pc.cast(without_zone(values), pa.int64())
    return pc.subtract(micros, floor_to_multiple(micros, DAY))


def floor_to_multiple(micros: Datum, step: int) -> Datum:
    """Round integers down to a multiple of `step`."""
    quotient = pc.divide(micros, step)
    floor = pc.multiply(quotient, step)
    return pc.if_else(pc.greater(floor, micros), pc.subtract(floor, step), floor)


def months_of(dates: Datum) -> Datum:
    """Return the number of months since January of the year 0."""
    month = pc.subtract(pc.month(in_arrow_years(dates)), 1)
    return pc.add(pc.multiply(year_of(dates), 12), month)


def first_of_month(months: Datum) -> Datum:
    """Return the first day of each month, computed with the days-from-civil algorithm.

    Args:
        months: numbers of months since year 0; see `months_of`.
    """
    shifted = pc.subtract(months, 2)  # years start in March
    years = floor_divide(shifted, 12)
    month = pc.subtract(shifted, pc.multiply(years, 12))
    era = floor_divide(years, 400)
    year_of_era = pc.subtract(years, pc.multiply(era, 400))
    day_of_year = pc.divide(pc.add(pc.multiply(month, 153), 2), 5)
    leap_days = pc.subtract(pc.divide(year_of_era, 4), pc.divide(year_of_era, 100))
    day_of_era = pc.add(pc.add(pc.multiply(year_of_era, 365), leap_days), day_of_year)
    days = pc.subtract(pc.add(pc.multiply(era, 146_097), day_of_era), 719_468)
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def floor_divide(values: Datum, divisor: int) -> Datum:
    """Divide and round down."""
    return pc.divide(floor_to_multiple(values, divisor), divisor)


_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mm", "mon"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}
_LENGTHS = {
    "day": DAY,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def _floor_date(dates: Datum, unit: str) -> Datum:
    match unit:
        case "week":
            days = pc.cast(pc.cast(dates, pa.int32()), pa.int64())
            monday = pc.subtract(floor_to_multiple(pc.add(days, 3), 7), 3)
            return pc.cast(pc.cast(monday, pa.int32()), pa.date32())
        case "month":
            return first_of_month(months_of(dates))
        case _:
            return first_of_month(floor_to_multiple(months_of(dates), 12 if unit == "year" else 3))


def truncate_date(values: Sequence[Datum], result: Any) -> Datum:
    """Evaluate `trunc`: the first day of a year, quarter, month or week; other units give null."""
    dates, name = values
    unit = _UNITS.get(str(name.as_py()).lower(), "")
    if unit not in ("year", "quarter", "month", "week"):
        return pa.nulls(len(dates), result)
    return _floor_date(dates, unit)


def truncate_timestamp(values: Sequence[Datum], result: Any) -> Datum:
    """Evaluate `date_trunc`: the start of a unit, such as an hour; an unknown unit gives null."""
    name, timestamps = values
    unit = _UNITS.get(str(name.as_py()).lower())
    if unit is None:
        return pa.nulls(len(timestamps), result)
    if unit in _LENGTHS:
        return pc.cast(floor_to_multiple(pc.cast(timestamps, pa.int64()), _LENGTHS[unit]), result)
    dates = cast(timestamps, TIMESTAMP, DATE)
    return pc.cast(_floor_date(dates, unit), result)


def truncating_date(call: Call) -> Binding:
    """Return the argument and result types of `trunc`."""
    binding = fixed_parameters(DATE, STRING, result=DATE)(call)
    constant_of(call, 1)
    return binding


def truncating_timestamp(call: Call) -> Binding:
    """Return the argument and result types of `date_trunc`."""
    binding = fixed_parameters(STRING, TIMESTAMP, result=TIMESTAMP)(call)
    constant_of(call, 0)
    return binding


def add_days(sign: int) -> Any:
    """Return a function that adds days to dates (`sign` is 1) or subtracts them (`sign` is -1)."""

    def evaluate(values: Sequence[Datum], _result: Any) -> Datum:
        days, count = (pc.cast(pc.cast(v, pa.int32()), pa.int64()) for v in values)
        return _checked_date(pc.add(days, pc.multiply(count, sign)))

    return evaluate


def _checked_date(days: Datum) -> Datum:
    out_of_range = pc.or_(pc.greater(days, (1 << 31) - 1), pc.less(days, -(1 << 31)))
    raise_if_failed(
        out_of_range, days, lambda value: f"day {value} since 1970 is out of range for date"
    )
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def date_add_binding(call: Call) -> Binding:
    """Return the argument and result types of `date_add` and `date_sub`."""
    if len(call.types) == 2 and call.types[1] == LONG:
        raise call.error("the number of days must be an int; cast it")
    return fixed_parameters(DATE, INTEGER, result=DATE)(call)


def difference(values: Sequence[Datum], result: Any) -> Datum:
    """Return the number of days from the second date to the first."""
    end, start = (pc.cast(pc.cast(v, pa.int32()), pa.int64()) for v in values)
    return pc.cast(pc.subtract(end, start), result)


def _months_later(dates: Datum, months: Datum) -> Datum:
    target = pc.add(months_of(dates), pc.cast(months, pa.int64()))
    first = pc.cast(pc.cast(first_of_month(target), pa.int32()), pa.int64())
    next_first = pc.cast(pc.cast(first_of_month(pc.add(target, 1)), pa.int32()), pa.int64())
    day = pc.subtract(pc.day(in_arrow_years(dates)), 1)
    last = pc.subtract(next_first, 1)
    days = pc.min_element_wise(pc.add(first, day), last, skip_nulls=False)
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def add_months(values: Sequence[Datum], _result: Any) -> Datum:
    """Evaluate `add_months`. If the new month lacks the day, the result is the month's last day."""
    return _months_later(values[0], values[1])


def last_day(values: Sequence[Datum], result: Any) -> Datum:
    """Return the last day of the month."""
    following = first_of_month(pc.add(months_of(values[0]), 1))
    last = pc.subtract(pc.cast(pc.cast(following, pa.int32()), pa.int64()), 1)
    return pc.cast(pc.cast(last, pa.int32()), result)


def interval_type(call: Call) -> Binding:
    """Return the argument and result types of a date or timestamp plus an interval.

    The interval consists of two arguments: months and microseconds.
    """
    result = call.types[0]  # the sum of a string and an interval is a string in Spark
    micros = constant_of(call, 2)
    if result not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        raise call.error("an interval can only be added to a date or timestamp")
    if result == DATE and micros % DAY:
        result = TIMESTAMP
    return Binding(arguments=(result, LONG, LONG), result=result)


def add_interval(values: Sequence[Datum], result: Any) -> Datum:
    """Add months and microseconds to dates or timestamps."""
    times, months, micros = values
    if pa.types.is_date(result):
        dates = _months_later(times, months) if months.as_py() else times
        days = pc.cast(pc.cast(dates, pa.int32()), pa.int64())
        return _checked_date(pc.add(days, micros.as_py() // DAY))
    local = pc.cast(without_zone(times), pa.int64())
    if months.as_py():
        of_day = pc.subtract(local, floor_to_multiple(local, DAY))
        dates = _months_later(cast(without_zone(times), TIMESTAMP_NTZ, DATE), months)
        local = pc.add(pc.cast(pc.cast(dates, pa.timestamp("us")), pa.int64()), of_day)
    try:
        return pc.cast(pc.add_checked(local, micros), result)
    except pa.ArrowInvalid as error:
        raise EvaluationError(
            "INTERVAL: the sum of a timestamp and the interval is out of range for timestamp. "
            "Use a shorter interval.",
            expression="interval",
        ) from error
