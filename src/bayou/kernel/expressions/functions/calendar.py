"""Days, months and the clock over Arrow columns, in the proleptic Gregorian calendar."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.expressions.functions.definition import Datum

__all__ = [
    "DAY",
    "first_of_month",
    "floored",
    "months_of",
    "quotient",
    "remainder_of_day",
    "without_zone",
]

pc: Any = pyarrow.compute

DAY = 86_400_000_000
"""Microseconds of a day."""


def without_zone(values: Datum) -> Datum:
    """A timestamp without its zone, which is UTC."""
    return pc.cast(values, pa.timestamp("us"))


def remainder_of_day(values: Datum) -> Datum:
    """Microseconds since midnight."""
    micros = pc.cast(without_zone(values), pa.int64())
    return pc.subtract(micros, floored(micros, DAY))


def floored(micros: Datum, step: int) -> Datum:
    """The multiple of a step at or below."""
    quotient = pc.divide(micros, step)
    floor = pc.multiply(quotient, step)
    return pc.if_else(pc.greater(floor, micros), pc.subtract(floor, step), floor)


def months_of(dates: Datum) -> Datum:
    """Months since year 0."""
    years = pc.cast(pc.year(dates), pa.int64())
    return pc.add(pc.multiply(years, 12), pc.subtract(pc.month(dates), 1))


def first_of_month(months: Datum) -> Datum:
    """The date on which a month begins, by the days-from-civil rule."""
    shifted = pc.subtract(months, 2)  # years that begin in March
    years = quotient(shifted, 12)
    month = pc.subtract(shifted, pc.multiply(years, 12))
    era = quotient(years, 400)
    year_of_era = pc.subtract(years, pc.multiply(era, 400))
    day_of_year = pc.divide(pc.add(pc.multiply(month, 153), 2), 5)
    leap_days = pc.subtract(pc.divide(year_of_era, 4), pc.divide(year_of_era, 100))
    day_of_era = pc.add(pc.add(pc.multiply(year_of_era, 365), leap_days), day_of_year)
    days = pc.subtract(pc.add(pc.multiply(era, 146_097), day_of_era), 719_468)
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def quotient(values: Datum, divisor: int) -> Datum:
    """Divided and rounded down."""
    return pc.divide(floored(values, divisor), divisor)
