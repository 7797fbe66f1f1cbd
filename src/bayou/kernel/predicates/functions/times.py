"""Functions of dates and timestamps, in the proleptic Gregorian calendar and the time zone UTC."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.predicates.casts import cast, fail
from bayou.kernel.predicates.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    constant_of,
    parameters,
    rowwise,
)
from bayou.kernel.predicates.model import Cast, Expression, Literal, call
from bayou.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
)

__all__ = ["FUNCTIONS", "is_ordered_format"]

pc: Any = pyarrow.compute

_DAY = 86_400_000_000  # in microseconds
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
    "day": _DAY,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def _field(kernel: Callable[[Any], Any]) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        return pc.cast(kernel(values[0]), result)

    return evaluate


def _clock(call: Call) -> Binding:
    """Timestamps with or without zone are taken as they are, which in UTC is the same."""
    if call.types == (TIMESTAMP_NTZ,):
        return Binding(arguments=(TIMESTAMP_NTZ,), result=INTEGER)
    return parameters(TIMESTAMP, result=INTEGER)(call)


def _local(values: Datum) -> Datum:
    return pc.cast(values, pa.timestamp("us"))


def _remainder_of_day(values: Datum) -> Datum:
    micros = pc.cast(_local(values), pa.int64())
    return pc.subtract(micros, _floored(micros, _DAY))


def _floored(micros: Datum, step: int) -> Datum:
    quotient = pc.divide(micros, step)
    floor = pc.multiply(quotient, step)
    return pc.if_else(pc.greater(floor, micros), pc.subtract(floor, step), floor)


def _months(dates: Datum) -> Datum:
    """Months since year 0."""
    years = pc.cast(pc.year(dates), pa.int64())
    return pc.add(pc.multiply(years, 12), pc.subtract(pc.month(dates), 1))


def _first_of_month(months: Datum) -> Datum:
    """The date on which a month begins, by the days-from-civil rule."""
    shifted = pc.subtract(months, 2)  # years that begin in March
    years = _quotient(shifted, 12)
    month = pc.subtract(shifted, pc.multiply(years, 12))
    era = _quotient(years, 400)
    year_of_era = pc.subtract(years, pc.multiply(era, 400))
    day_of_year = pc.divide(pc.add(pc.multiply(month, 153), 2), 5)
    leap_days = pc.subtract(pc.divide(year_of_era, 4), pc.divide(year_of_era, 100))
    day_of_era = pc.add(pc.add(pc.multiply(year_of_era, 365), leap_days), day_of_year)
    days = pc.subtract(pc.add(pc.multiply(era, 146_097), day_of_era), 719_468)
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def _quotient(values: Datum, divisor: int) -> Datum:
    return pc.divide(_floored(values, divisor), divisor)


def _floor_date(dates: Datum, unit: str) -> Datum:
    match unit:
        case "week":
            days = pc.cast(pc.cast(dates, pa.int32()), pa.int64())
            monday = pc.subtract(_floored(pc.add(days, 3), 7), 3)
            return pc.cast(pc.cast(monday, pa.int32()), pa.date32())
        case "month":
            return _first_of_month(_months(dates))
        case _:
            return _first_of_month(_floored(_months(dates), 12 if unit == "year" else 3))


def _truncate_date(values: Sequence[Datum], result: Any) -> Datum:
    dates, name = values
    unit = _UNITS.get(str(name.as_py()).lower(), "")
    if unit not in ("year", "quarter", "month", "week"):
        return pa.nulls(len(dates), result)
    return _floor_date(dates, unit)


def _truncate_timestamp(values: Sequence[Datum], result: Any) -> Datum:
    name, moments = values
    unit = _UNITS.get(str(name.as_py()).lower())
    if unit is None:
        return pa.nulls(len(moments), result)
    if unit in _LENGTHS:
        return pc.cast(_floored(pc.cast(moments, pa.int64()), _LENGTHS[unit]), result)
    dates = cast(moments, TIMESTAMP, DATE)
    return pc.cast(_floor_date(dates, unit), result)


def _truncating_date(call: Call) -> Binding:
    binding = parameters(DATE, STRING, result=DATE)(call)
    constant_of(call, 1)
    return binding


def _truncating_timestamp(call: Call) -> Binding:
    binding = parameters(STRING, TIMESTAMP, result=TIMESTAMP)(call)
    constant_of(call, 0)
    return binding


def _shift(sign: int) -> Any:
    def evaluate(values: Sequence[Datum], _result: Any) -> Datum:
        days, more = (pc.cast(pc.cast(v, pa.int32()), pa.int64()) for v in values)
        moved = pc.add(days, pc.multiply(more, sign))
        return _checked_date(moved)

    return evaluate


def _checked_date(days: Datum) -> Datum:
    beyond = pc.or_(pc.greater(days, (1 << 31) - 1), pc.less(days, -(1 << 31)))
    fail(beyond, days, lambda value: f"day {value} since 1970 isn't a date")
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def _shifting(call: Call) -> Binding:
    if len(call.types) == 2 and call.types[1] == LONG:
        raise call.refuse("the number of days is an int; cast it")
    return parameters(DATE, INTEGER, result=DATE)(call)


def _difference(values: Sequence[Datum], result: Any) -> Datum:
    end, start = (pc.cast(pc.cast(v, pa.int32()), pa.int64()) for v in values)
    return pc.cast(pc.subtract(end, start), result)


def _months_later(dates: Datum, months: Datum) -> Datum:
    target = pc.add(_months(dates), pc.cast(months, pa.int64()))
    first = pc.cast(pc.cast(_first_of_month(target), pa.int32()), pa.int64())
    after = pc.cast(pc.cast(_first_of_month(pc.add(target, 1)), pa.int32()), pa.int64())
    day = pc.subtract(pc.day(dates), 1)
    last = pc.subtract(after, 1)
    moved = pc.min_element_wise(pc.add(first, day), last, skip_nulls=False)
    return pc.cast(pc.cast(moved, pa.int32()), pa.date32())


def _add_months(values: Sequence[Datum], _result: Any) -> Datum:
    return _months_later(values[0], values[1])


def _last_day(values: Sequence[Datum], result: Any) -> Datum:
    following = _first_of_month(pc.add(_months(values[0]), 1))
    last = pc.subtract(pc.cast(pc.cast(following, pa.int32()), pa.int64()), 1)
    return pc.cast(pc.cast(last, pa.int32()), result)


def _interval_type(call: Call) -> Binding:
    given = call.types[0]
    if given == STRING:
        given = TIMESTAMP
    micros = constant_of(call, 2)
    if given not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        raise call.refuse("an interval is added to a date or timestamp")
    if given == DATE and micros % _DAY:
        given = TIMESTAMP
    return Binding(arguments=(given, LONG, LONG), result=given)


def _add_interval(values: Sequence[Datum], result: Any) -> Datum:
    moments, months, micros = values
    if pa.types.is_date(result):
        dates = _months_later(moments, months) if months.as_py() else moments
        days = pc.cast(pc.cast(dates, pa.int32()), pa.int64())
        return _checked_date(pc.add(days, micros.as_py() // _DAY))
    local = pc.cast(_local(moments), pa.int64())
    if months.as_py():
        of_day = pc.subtract(local, _floored(local, _DAY))
        dates = _months_later(cast(_local(moments), TIMESTAMP_NTZ, DATE), months)
        local = pc.add(pc.cast(pc.cast(dates, pa.timestamp("us")), pa.int64()), of_day)
    try:
        return pc.cast(pc.add_checked(local, micros), result)
    except pa.ArrowInvalid as error:
        raise EvaluationError(
            "A timestamp plus an interval is beyond the last one.", expression="interval"
        ) from error


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
        return _quotient(pc.cast(values[0], pa.int64()), divisor)

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


# date_format

_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")


def _formatting(call: Call) -> Binding:
    kind = TIMESTAMP_NTZ if call.types[:1] == (TIMESTAMP_NTZ,) else TIMESTAMP
    binding = parameters(kind, STRING, result=STRING)(call)
    form = constant_of(call, 1)
    if form is not None:
        _pieces(str(form))
    return binding


def _pieces(form: str) -> list[tuple[str, str]]:
    """Letters with their number, or text (under the letter '')."""
    pieces: list[tuple[str, str]] = []
    at = 0
    while at < len(form):
        found = _PIECE.match(form, at)
        letters = found[0] if found is not None and found[2] else ""
        if found is None or (letters and letters not in _LETTERS and letters[0] != "S"):
            raise PredicateError(
                f"date_format doesn't know {letters or form[at:]!r} in {form!r}; it knows "
                f"{', '.join(_LETTERS)} and S.",
                expression="date_format",
            )
        if letters:
            pieces.append(("letters", letters))
        else:
            text = found[3] if found[3] is not None else (found[1] or "").replace("''", "'")
            pieces.append(("text", text or "'"))
        at = found.end()
    return pieces


def _format(values: Sequence[Datum], result: Any) -> Datum:
    moments, form = values
    if not form.is_valid:
        return pa.nulls(len(moments), result)
    local = _local(moments)
    dates = cast(local, TIMESTAMP_NTZ, DATE)
    of_day = _remainder_of_day(moments)
    parts: list[Any] = []
    for kind, text in _pieces(form.as_py()):
        if kind == "text":
            parts.append(pa.scalar(text))
        elif text[0] == "S":
            fraction = _padded(pc.subtract(of_day, _floored(of_day, 1_000_000)), 6)
            cut = pc.utf8_slice_codeunits(fraction, 0, min(len(text), 6))
            parts.append(pc.utf8_rpad(cut, len(text), padding="0"))
        else:
            parts.append(_LETTERS[text](dates, of_day))
    return pc.binary_join_element_wise(*parts, "") if parts else pa.repeat("", len(moments))


def _padded(numbers: Datum, width: int) -> Datum:
    return pc.utf8_lpad(pc.cast(numbers, pa.string()), width, padding="0")


def _year_text(dates: Datum, width: int) -> Datum:
    years = pc.year(dates)
    text = _padded(years, width)
    if width < 4:
        return text
    return pc.if_else(pc.greater(years, 9999), pc.binary_join_element_wise("+", text, ""), text)


def _day_name(dates: Datum, _: Datum) -> Datum:
    names = pa.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    return names.take(pc.day_of_week(dates))


def _month_name(dates: Datum, _: Datum) -> Datum:
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    return pa.array(names).take(pc.subtract(pc.month(dates), 1))


def _of_clock(step: int, modulo: int, width: int) -> Any:
    def piece(_: Datum, of_day: Datum) -> Datum:
        count = pc.divide(of_day, step)
        return _padded(pc.subtract(count, _floored(count, modulo)), width)

    return piece


_LETTERS: dict[str, Callable[[Datum, Datum], Datum]] = {
    "yyyy": lambda dates, _: _year_text(dates, 4),
    "y": lambda dates, _: _year_text(dates, 1),
    "yy": lambda dates, _: pc.utf8_slice_codeunits(_padded(pc.year(dates), 4), -2),
    "MMM": _month_name,
    "MM": lambda dates, _: _padded(pc.month(dates), 2),
    "M": lambda dates, _: _padded(pc.month(dates), 1),
    "dd": lambda dates, _: _padded(pc.day(dates), 2),
    "d": lambda dates, _: _padded(pc.day(dates), 1),
    "DDD": lambda dates, _: _padded(pc.day_of_year(dates), 3),
    "E": _day_name,
    "HH": _of_clock(3_600_000_000, 24, 2),
    "H": _of_clock(3_600_000_000, 24, 1),
    "mm": _of_clock(60_000_000, 60, 2),
    "m": _of_clock(60_000_000, 60, 1),
    "ss": _of_clock(1_000_000, 60, 2),
    "s": _of_clock(1_000_000, 60, 1),
}
_ORDERED = ("yyyy", "MM", "dd", "HH", "mm", "ss")


def is_ordered_format(form: str) -> bool:
    """Whether texts of this format are in the order of their times (years up to 9999)."""
    try:
        letters = [text for kind, text in _pieces(form) if kind == "letters"]
    except PredicateError:
        return False
    fields = [text for text in letters if text[0] != "S"]
    fraction = letters[len(fields) :]
    complete = not fraction or (len(fields) == len(_ORDERED) and len(fraction) == 1)
    return bool(fields) and tuple(fields) == _ORDERED[: len(fields)] and complete


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
        count = pc.divide(_remainder_of_day(values[0]), step)
        return pc.cast(pc.subtract(count, _floored(count, modulo)), result)

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
            "Text by a constant format of " + ", ".join(f"`{name}`" for name in _LETTERS) + ", `S` "
            "(fractions), 'quoted' and other text."
        ),
        bind=_formatting,
        evaluate=_format,
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
        bind=_truncating_timestamp,
        evaluate=_truncate_timestamp,
        nulls="more",
        directions=_second_rises,
    ),
    Function(
        name="trunc",
        constants=(1,),
        signature="trunc(d, unit)",
        summary="The date at which a year, quarter, month or week begins; NULL for another unit.",
        bind=_truncating_date,
        evaluate=_truncate_date,
        nulls="more",
        directions=_first_rises,
    ),
    Function(
        name="date_add",
        signature="date_add(d, days), d + days",
        summary="The date so many days later.",
        bind=_shifting,
        evaluate=_shift(1),
        directions=_both_rise,
        aliases=("dateadd",),
    ),
    Function(
        name="date_sub",
        signature="date_sub(d, days), d - days",
        summary="The date so many days earlier.",
        bind=_shifting,
        evaluate=_shift(-1),
        directions=_apart,
    ),
    Function(
        name="datediff",
        signature="datediff(end, start), date_diff",
        summary="Days from start to end.",
        bind=parameters(DATE, DATE, result=INTEGER),
        evaluate=_difference,
        directions=_apart,
        aliases=("date_diff",),
    ),
    Function(
        name="add_months",
        signature="add_months(d, months)",
        summary="The same day so many months later, or the month's last.",
        bind=parameters(DATE, INTEGER, result=DATE),
        evaluate=_add_months,
        directions=_first_rises,
    ),
    Function(
        name="last_day",
        signature="last_day(d)",
        summary="The last day of the date's month.",
        bind=parameters(DATE, result=DATE),
        evaluate=_last_day,
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
        bind=_interval_type,
        evaluate=_add_interval,
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
