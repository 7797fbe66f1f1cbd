"""Functions of dates and timestamps, in the proleptic Gregorian calendar and the time zone UTC."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.expressions.functions.date_arithmetic import (
    add_interval,
    add_months,
    difference,
    floored,
    interval_type,
    last_day,
    quotient,
    remainder_of_day,
    shift,
    shifting,
    truncate_date,
    truncate_timestamp,
    truncating_date,
    truncating_timestamp,
)
from bayou.kernel.expressions.functions.date_format import (
    LETTERS,
    formatted,
    formatting,
    is_ordered_format,
)
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    parameters,
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

__all__ = ["FUNCTIONS"]

pc: Any = pyarrow.compute


def _field(kernel: Callable[[Any], Any]) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        return pc.cast(kernel(values[0]), result)

    return evaluate


def _clock(call: Call) -> Binding:
    """Timestamps with or without zone are taken as they are, which in UTC is the same."""
    if call.types == (TIMESTAMP_NTZ,):
        return Binding(arguments=(TIMESTAMP_NTZ,), result=INTEGER)
    return parameters(TIMESTAMP, result=INTEGER)(call)


def _make_date(values: Sequence[Datum], result: Any) -> Datum:
    def made(year: int, month: int, day: int) -> dt.date:
        try:
            return dt.date(year, month, day)
        except ValueError as error:
            raise EvaluationError(
                f"make_date({year}, {month}, {day}): there is no such day.",
                expression="make_date",
            ) from error

    return rowwise(made, result, *values)


def _epoch(divisor: int) -> Any:
    def evaluate(values: Sequence[Datum], _result: Any) -> Datum:
        return quotient(pc.cast(values[0], pa.int64()), divisor)

    return evaluate


def _moment(factor: int, name: str) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        try:
            return pc.cast(pc.multiply_checked(values[0], factor), result)
        except pa.ArrowInvalid as error:
            raise EvaluationError(
                f"A value of {name} is beyond the last timestamp.", expression=name
            ) from error

    return evaluate


def _days(values: Sequence[Datum], _result: Any) -> Datum:
    return pc.cast(values[0], pa.int32())


def _to_date(*arguments: Expression) -> Expression:
    return _parsed("to_date", DATE, "yyyy-MM-dd", *arguments)


def _to_timestamp(*arguments: Expression) -> Expression:
    return _parsed("to_timestamp", TIMESTAMP, "yyyy-MM-dd HH:mm:ss", *arguments)


def _unix_timestamp(*arguments: Expression) -> Expression:
    moment = _parsed("unix_timestamp", TIMESTAMP, "yyyy-MM-dd HH:mm:ss", *arguments)
    # Towards zero, other than unix_seconds.
    return call("div", call("unix_micros", moment), Literal(1_000_000, LONG))


def _parsed(name: str, target: DataType, form: str, *arguments: Expression) -> Expression:
    if len(arguments) == 2:
        given = arguments[1]
        if not isinstance(given, Literal) or given.value != form:
            raise PredicateError(
                f"{name} with a format takes {form!r} only. Cast the text instead: CAST(... AS "
                f"{str(target).upper()}).",
                expression=name,
            )
    return Cast(arguments[0], target)


def _format_directions(
    constants: Sequence[Any], _types: Sequence[DataType]
) -> Sequence[int] | None:
    form = constants[1]
    return (1, 0) if isinstance(form, str) and is_ordered_format(form) else None


def _first_rises(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    if any(constant is None for constant in constants[1:]):
        return None
    return (1, *(0 for _ in constants[1:]))


def _second_rises(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    return None if constants[0] is None else (0, 1)


def _both_rise(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    return tuple(1 if constant is None else 0 for constant in constants)


def _apart(constants: Sequence[Any], _types: Sequence[DataType]) -> Sequence[int] | None:
    return tuple(
        s if constant is None else 0 for s, constant in zip((1, -1), constants, strict=True)
    )


def _calendar(name: str, summary: str, kernel: Any, *aliases: str, rises: bool = False) -> Function:
    names = ", ".join(f"{n}(d)" for n in (name, *aliases))
    return Function(
        name=name,
        signature=names,
        summary=summary,
        bind=parameters(DATE, result=INTEGER),
        evaluate=_field(kernel),
        directions=_first_rises if rises else None,
        aliases=aliases,
    )


def _of_day(name: str, summary: str, step: int, modulo: int) -> Function:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        count = pc.divide(remainder_of_day(values[0]), step)
        return pc.cast(pc.subtract(count, floored(count, modulo)), result)

    return Function(
        name=name, signature=f"{name}(ts)", summary=summary, bind=_clock, evaluate=evaluate
    )


FUNCTIONS: tuple[Function | Macro, ...] = (
    _calendar("year", "The year.", pc.year, rises=True),
    _calendar("quarter", "1 to 4.", pc.quarter),
    _calendar("month", "1 to 12.", pc.month),
    _calendar("day", "Day of the month.", pc.day, "dayofmonth"),
    _calendar("dayofyear", "Day of the year, from 1.", pc.day_of_year),
    _calendar(
        "dayofweek",
        "1 for Sunday to 7.",
        lambda v: pc.day_of_week(v, count_from_zero=False, week_start=7),
    ),
    _calendar("weekday", "0 for Monday to 6.", pc.day_of_week),
    _calendar("weekofyear", "Week by ISO 8601.", pc.iso_week),
    _of_day("hour", "0 to 23, in UTC.", 3_600_000_000, 24),
    _of_day("minute", "0 to 59.", 60_000_000, 60),
    _of_day("second", "0 to 59.", 1_000_000, 60),
    Function(
        name="date_format",
        constants=(1,),
        signature="date_format(ts, format)",
        summary=(
            "Text by a constant format of " + ", ".join(f"`{name}`" for name in LETTERS) + ", `S` "
            "(fractions), 'quoted' and other text."
        ),
        bind=formatting,
        evaluate=formatted,
        directions=_format_directions,
    ),
    Function(
        name="date_trunc",
        constants=(0,),
        signature="date_trunc(unit, ts)",
        summary=(
            "The timestamp at which a year, quarter, month, week, day, hour, minute, second, "
            "millisecond or microsecond begins; NULL for another unit, which is a constant."
        ),
        bind=truncating_timestamp,
        evaluate=truncate_timestamp,
        nulls="more",
        directions=_second_rises,
    ),
    Function(
        name="trunc",
        constants=(1,),
        signature="trunc(d, unit)",
        summary="The date at which a year, quarter, month or week begins; NULL for another unit.",
        bind=truncating_date,
        evaluate=truncate_date,
        nulls="more",
        directions=_first_rises,
    ),
    Function(
        name="date_add",
        signature="date_add(d, days), d + days",
        summary="The date so many days later.",
        bind=shifting,
        evaluate=shift(1),
        directions=_both_rise,
        aliases=("dateadd",),
    ),
    Function(
        name="date_sub",
        signature="date_sub(d, days), d - days",
        summary="The date so many days earlier.",
        bind=shifting,
        evaluate=shift(-1),
        directions=_apart,
    ),
    Function(
        name="datediff",
        signature="datediff(end, start), date_diff",
        summary="Days from start to end.",
        bind=parameters(DATE, DATE, result=INTEGER),
        evaluate=difference,
        directions=_apart,
        aliases=("date_diff",),
    ),
    Function(
        name="add_months",
        signature="add_months(d, months)",
        summary="The same day so many months later, or the month's last.",
        bind=parameters(DATE, INTEGER, result=DATE),
        evaluate=add_months,
        directions=_first_rises,
    ),
    Function(
        name="last_day",
        signature="last_day(d)",
        summary="The last day of the date's month.",
        bind=parameters(DATE, result=DATE),
        evaluate=last_day,
        directions=_first_rises,
    ),
    Function(
        name="add_interval",
        constants=(1, 2),
        signature="ts + INTERVAL ..., ts - INTERVAL ...",
        summary=(
            "A constant interval of years, months, weeks, days, hours, minutes or seconds later or "
            "earlier. Intervals stand here only."
        ),
        bind=interval_type,
        evaluate=add_interval,
        directions=_first_rises,
    ),
    Function(
        name="make_date",
        signature="make_date(year, month, day)",
        summary="The date; one that isn't there is an error.",
        bind=parameters(INTEGER, INTEGER, INTEGER, result=DATE),
        evaluate=_make_date,
    ),
    Macro(
        name="to_date",
        signature="to_date(s[, 'yyyy-MM-dd'])",
        summary="The same as CAST(s AS DATE).",
        count=(1, 2),
        expand=_to_date,
    ),
    Macro(
        name="to_timestamp",
        signature="to_timestamp(s[, 'yyyy-MM-dd HH:mm:ss'])",
        summary="The same as CAST(s AS TIMESTAMP).",
        count=(1, 2),
        expand=_to_timestamp,
    ),
    Macro(
        name="unix_timestamp",
        signature="unix_timestamp(ts[, 'yyyy-MM-dd HH:mm:ss'])",
        summary="Seconds since 1970, rounded towards it.",
        count=(1, 2),
        expand=_unix_timestamp,
        aliases=("to_unix_timestamp",),
    ),
    Function(
        name="unix_seconds",
        signature="unix_seconds(ts)",
        summary="Seconds since 1970, rounded down.",
        bind=parameters(TIMESTAMP, result=LONG),
        evaluate=_epoch(1_000_000),
        directions=_first_rises,
    ),
    Function(
        name="unix_millis",
        signature="unix_millis(ts)",
        summary="Milliseconds since 1970, rounded down.",
        bind=parameters(TIMESTAMP, result=LONG),
        evaluate=_epoch(1_000),
        directions=_first_rises,
    ),
    Function(
        name="unix_micros",
        signature="unix_micros(ts)",
        summary="Microseconds since 1970.",
        bind=parameters(TIMESTAMP, result=LONG),
        evaluate=_epoch(1),
        directions=_first_rises,
    ),
    Function(
        name="unix_date",
        signature="unix_date(d)",
        summary="Days since 1970.",
        bind=parameters(DATE, result=INTEGER),
        evaluate=_days,
        directions=_first_rises,
    ),
    Function(
        name="timestamp_seconds",
        signature="timestamp_seconds(n)",
        summary="The timestamp so many seconds after 1970.",
        bind=parameters(LONG, result=TIMESTAMP),
        evaluate=_moment(1_000_000, "timestamp_seconds"),
        directions=_first_rises,
    ),
    Function(
        name="timestamp_millis",
        signature="timestamp_millis(n)",
        summary="The timestamp so many milliseconds after 1970.",
        bind=parameters(LONG, result=TIMESTAMP),
        evaluate=_moment(1_000, "timestamp_millis"),
        directions=_first_rises,
    ),
    Function(
        name="timestamp_micros",
        signature="timestamp_micros(n)",
        summary="The timestamp so many microseconds after 1970.",
        bind=parameters(LONG, result=TIMESTAMP),
        evaluate=_moment(1, "timestamp_micros"),
        directions=_first_rises,
    ),
)
