"""Functions of dates and timestamps, in the proleptic Gregorian calendar and the time zone UTC."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.calendar import in_arrow_years, year_of
from bayou.kernel.expressions.functions.date_arithmetic import (
    add_days,
    add_interval,
    add_months,
    date_add_binding,
    difference,
    floor_divide,
    floor_to_multiple,
    interval_type,
    last_day,
    remainder_of_day,
    truncate_date,
    truncate_timestamp,
    truncating_date,
    truncating_timestamp,
)
from bayou.kernel.expressions.functions.date_format import (
    PATTERNS,
    date_format_binding,
    format_dates,
    is_ordered_format,
)
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    fixed_parameters,
    rowwise,
)
from bayou.kernel.expressions.model import Cast, Expression, Literal, call
from bayou.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
)


def _field(kernel: Callable[[Any], Any]) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        dates = values[0] if kernel is year_of else in_arrow_years(values[0])
        return pc.cast(kernel(dates), result)

    return evaluate


def _clock(call: Call) -> Binding:
    """Return the argument and result types of `hour`, `minute` and `second`.

    A timestamp without a time zone keeps its type. Other arguments are cast to timestamp.
    """
    if call.types == (TIMESTAMP_NTZ,):
        return Binding(arguments=(TIMESTAMP_NTZ,), result=INTEGER)
    return fixed_parameters(TIMESTAMP, result=INTEGER)(call)


def _make_date(values: Sequence[Datum], result: Any) -> Datum:
    def make(year: int, month: int, day: int) -> dt.date:
        try:
            return dt.date(year, month, day)
        except ValueError as error:
            raise EvaluationError(
                f"make_date({year}, {month}, {day}): the date doesn't exist. Pass the "
                "year, month and day of an existing date.",
                expression="make_date",
            ) from error

    return rowwise(make, result, *values)


def _epoch(divisor: int) -> Any:
    def evaluate(values: Sequence[Datum], _result: Any) -> Datum:
        return floor_divide(pc.cast(values[0], pa.int64()), divisor)

    return evaluate


def _from_epoch(factor: int, name: str) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        try:
            return pc.cast(pc.multiply_checked(values[0], factor), result)
        except pa.ArrowInvalid as error:
            raise EvaluationError(
                f"{name}: a value is out of range for timestamp. Use numbers closer to 0.",
                expression=name,
            ) from error

    return evaluate


def _days(values: Sequence[Datum], _result: Any) -> Datum:
    return pc.cast(values[0], pa.int32())


def _to_date(*arguments: Expression) -> Expression:
    return _parsed("to_date", DATE, "yyyy-MM-dd", *arguments)


def _to_timestamp(*arguments: Expression) -> Expression:
    return _parsed("to_timestamp", TIMESTAMP, "yyyy-MM-dd HH:mm:ss", *arguments)


def _unix_timestamp(*arguments: Expression) -> Expression:
    timestamp = _parsed("unix_timestamp", TIMESTAMP, "yyyy-MM-dd HH:mm:ss", *arguments)
    # Rounds towards zero, unlike unix_seconds.
    return call("div", call("unix_micros", timestamp), Literal(1_000_000, LONG))


def _parsed(name: str, target: DataType, pattern: str, *arguments: Expression) -> Expression:
    if len(arguments) == 2:
        format_argument = arguments[1]
        if not isinstance(format_argument, Literal) or format_argument.value != pattern:
            raise PredicateError(
                f"{name}: only the format {pattern!r} is supported. Use CAST(... AS "
                f"{str(target).upper()}) instead.",
                expression=name,
            )
    return Cast(arguments[0], target)


def _format_directions(
    constants: Sequence[Any], _types: Sequence[DataType]
) -> Sequence[int] | None:
    pattern = constants[1]
    return (1, 0) if isinstance(pattern, str) and is_ordered_format(pattern) else None


def _rises_with_first(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    if any(constant is None for constant in constants[1:]):
        return None
    return (1, *(0 for _ in constants[1:]))


def _rises_with_second(
    constants: Sequence[Any], _types: Sequence[DataType]
) -> Sequence[int] | None:
    return None if constants[0] is None else (0, 1)


def _rises_with_both(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    return tuple(1 if constant is None else 0 for constant in constants)


def _rises_and_falls(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    return tuple(
        s if constant is None else 0 for s, constant in zip((1, -1), constants, strict=True)
    )


def _interval_directions(
    constants: Sequence[Any], types: Sequence[DataType]
) -> Sequence[int] | None:
    """`Function.monotonicity` of a date or timestamp plus an interval.

    The result is None for timestamps plus months, because the order can change. January 30 at 9:00
    plus 1 month is February 28 at 9:00. January 31 at 8:00 plus 1 month is earlier: February 28 at
    8:00.
    """
    months = constants[1]
    return None if months and types[0] != DATE else _rises_with_first(constants, types)


def _calendar(name: str, summary: str, kernel: Any, *aliases: str, rises: bool = False) -> Function:
    names = ", ".join(f"{n}(d)" for n in (name, *aliases))
    return Function(
        name=name,
        signature=names,
        summary=summary,
        bind=fixed_parameters(DATE, result=INTEGER),
        evaluate=_field(kernel),
        monotonicity=_rises_with_first if rises else None,
        aliases=aliases,
    )


def _of_day(name: str, summary: str, step: int, modulo: int) -> Function:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        count = pc.divide(remainder_of_day(values[0]), step)
        return pc.cast(pc.subtract(count, floor_to_multiple(count, modulo)), result)

    return Function(
        name=name, signature=f"{name}(ts)", summary=summary, bind=_clock, evaluate=evaluate
    )


FUNCTIONS: tuple[Function | Macro, ...] = (
    _calendar("year", "The year.", year_of, rises=True),
    _calendar("quarter", "The quarter, 1 to 4.", pc.quarter),
    _calendar("month", "The month, 1 to 12.", pc.month),
    _calendar("day", "The day of the month.", pc.day, "dayofmonth"),
    _calendar("dayofyear", "The day of the year, from 1.", pc.day_of_year),
    _calendar(
        "dayofweek",
        "The day of the week, 1 (Sunday) to 7.",
        lambda v: pc.day_of_week(v, count_from_zero=False, week_start=7),
    ),
    _calendar("weekday", "The day of the week, 0 (Monday) to 6.", pc.day_of_week),
    _calendar("weekofyear", "The ISO 8601 week.", pc.iso_week),
    _of_day("hour", "The hour in UTC, 0 to 23.", 3_600_000_000, 24),
    _of_day("minute", "The minute, 0 to 59.", 60_000_000, 60),
    _of_day("second", "The second, 0 to 59.", 1_000_000, 60),
    Function(
        name="date_format",
        constants=(1,),
        signature="date_format(ts, format)",
        summary=(
            "The timestamp as a string. The format is a constant of "
            + ", ".join(f"`{name}`" for name in PATTERNS)
            + ", `S` (fractions), 'quoted' text and other characters."
        ),
        bind=date_format_binding,
        evaluate=format_dates,
        monotonicity=_format_directions,
    ),
    Function(
        name="date_trunc",
        constants=(0,),
        signature="date_trunc(unit, ts)",
        summary=(
            "The start of the year, quarter, month, week, day, hour, minute, second, millisecond "
            "or microsecond; NULL for other units. The unit is a constant."
        ),
        bind=truncating_timestamp,
        evaluate=truncate_timestamp,
        null_handling="more",
        monotonicity=_rises_with_second,
    ),
    Function(
        name="trunc",
        constants=(1,),
        signature="trunc(d, unit)",
        summary="The first day of the year, quarter, month or week; NULL for other units.",
        bind=truncating_date,
        evaluate=truncate_date,
        null_handling="more",
        monotonicity=_rises_with_first,
    ),
    Function(
        name="date_add",
        signature="date_add(d, days), d + days",
        summary="The date plus a number of days.",
        bind=date_add_binding,
        evaluate=add_days(1),
        monotonicity=_rises_with_both,
        aliases=("dateadd",),
    ),
    Function(
        name="date_sub",
        signature="date_sub(d, days), d - days",
        summary="The date minus a number of days.",
        bind=date_add_binding,
        evaluate=add_days(-1),
        monotonicity=_rises_and_falls,
    ),
    Function(
        name="datediff",
        signature="datediff(end, start), date_diff",
        summary="The number of days from start to end.",
        bind=fixed_parameters(DATE, DATE, result=INTEGER),
        evaluate=difference,
        monotonicity=_rises_and_falls,
        aliases=("date_diff",),
    ),
    Function(
        name="add_months",
        signature="add_months(d, months)",
        summary="The date plus a number of months; at most the last day of the month.",
        bind=fixed_parameters(DATE, INTEGER, result=DATE),
        evaluate=add_months,
        monotonicity=_rises_with_first,
    ),
    Function(
        name="last_day",
        signature="last_day(d)",
        summary="The last day of the month.",
        bind=fixed_parameters(DATE, result=DATE),
        evaluate=last_day,
        monotonicity=_rises_with_first,
    ),
    Function(
        name="add_interval",
        constants=(1, 2),
        signature="ts + INTERVAL ..., ts - INTERVAL ...",
        summary=(
            "A date or timestamp plus or minus a constant interval of years, months, weeks, days, "
            "hours, minutes or seconds. Intervals aren't supported elsewhere. The order of "
            "timestamps isn't preserved by years and months."
        ),
        bind=interval_type,
        evaluate=add_interval,
        monotonicity=_interval_directions,
    ),
    Function(
        name="make_date",
        signature="make_date(year, month, day)",
        summary="The date; an invalid date is an error.",
        bind=fixed_parameters(INTEGER, INTEGER, INTEGER, result=DATE),
        evaluate=_make_date,
    ),
    Macro(
        name="to_date",
        signature="to_date(s[, 'yyyy-MM-dd'])",
        summary="Equivalent to CAST(s AS DATE).",
        count=(1, 2),
        expand=_to_date,
    ),
    Macro(
        name="to_timestamp",
        signature="to_timestamp(s[, 'yyyy-MM-dd HH:mm:ss'])",
        summary="Equivalent to CAST(s AS TIMESTAMP).",
        count=(1, 2),
        expand=_to_timestamp,
    ),
    Macro(
        name="unix_timestamp",
        signature="unix_timestamp(ts[, 'yyyy-MM-dd HH:mm:ss'])",
        summary="Seconds since 1970, rounded towards zero.",
        count=(1, 2),
        expand=_unix_timestamp,
        aliases=("to_unix_timestamp",),
    ),
    Function(
        name="unix_seconds",
        signature="unix_seconds(ts)",
        summary="Seconds since 1970, rounded down.",
        bind=fixed_parameters(TIMESTAMP, result=LONG),
        evaluate=_epoch(1_000_000),
        monotonicity=_rises_with_first,
    ),
    Function(
        name="unix_millis",
        signature="unix_millis(ts)",
        summary="Milliseconds since 1970, rounded down.",
        bind=fixed_parameters(TIMESTAMP, result=LONG),
        evaluate=_epoch(1_000),
        monotonicity=_rises_with_first,
    ),
    Function(
        name="unix_micros",
        signature="unix_micros(ts)",
        summary="Microseconds since 1970.",
        bind=fixed_parameters(TIMESTAMP, result=LONG),
        evaluate=_epoch(1),
        monotonicity=_rises_with_first,
    ),
    Function(
        name="unix_date",
        signature="unix_date(d)",
        summary="Days since 1970.",
        bind=fixed_parameters(DATE, result=INTEGER),
        evaluate=_days,
        monotonicity=_rises_with_first,
    ),
    Function(
        name="timestamp_seconds",
        signature="timestamp_seconds(n)",
        summary="The timestamp for seconds since 1970.",
        bind=fixed_parameters(LONG, result=TIMESTAMP),
        evaluate=_from_epoch(1_000_000, "timestamp_seconds"),
        monotonicity=_rises_with_first,
    ),
    Function(
        name="timestamp_millis",
        signature="timestamp_millis(n)",
        summary="The timestamp for milliseconds since 1970.",
        bind=fixed_parameters(LONG, result=TIMESTAMP),
        evaluate=_from_epoch(1_000, "timestamp_millis"),
        monotonicity=_rises_with_first,
    ),
    Function(
        name="timestamp_micros",
        signature="timestamp_micros(n)",
        summary="The timestamp for microseconds since 1970.",
        bind=fixed_parameters(LONG, result=TIMESTAMP),
        evaluate=_from_epoch(1, "timestamp_micros"),
        monotonicity=_rises_with_first,
    ),
)
