"""`date_format`: formats timestamps by Java's format patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bayou.errors import PredicateError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.calendar import in_arrow_years, year_of
from bayou.kernel.expressions.casts import cast
from bayou.kernel.expressions.functions.date_arithmetic import (
    floor_to_multiple,
    remainder_of_day,
    without_zone,
)
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    constant_of,
    fixed_parameters,
)
from bayou.protocol.schema import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ

_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")


def date_format_binding(call: Call) -> Binding:
    """Return the types of `date_format`; check that the format is a supported constant."""
    timestamp_type = TIMESTAMP_NTZ if call.types[:1] == (TIMESTAMP_NTZ,) else TIMESTAMP
    binding = fixed_parameters(timestamp_type, STRING, result=STRING)(call)
    pattern = constant_of(call, 1)
    if pattern is not None:
        _pieces(str(pattern))
    return binding


def _pieces(pattern: str) -> list[tuple[str, str]]:
    """Split a format into pairs: ("letters", pattern letters) or ("text", literal text)."""
    pieces: list[tuple[str, str]] = []
    position = 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        letters = match[0] if match is not None and match[2] else ""
        if match is None or (letters and letters not in PATTERNS and letters[0] != "S"):
            raise PredicateError(
                f"date_format: {letters or pattern[position:]!r} in the format {pattern!r} isn't "
                f"supported. Use only the pattern letters {', '.join(PATTERNS)} and S.",
                expression="date_format",
            )
        if letters:
            pieces.append(("letters", letters))
        else:
            text = match[3] if match[3] is not None else (match[1] or "").replace("''", "'")
            pieces.append(("text", text or "'"))
        position = match.end()
    return pieces


def format_dates(values: Sequence[Datum], result: Any) -> Datum:
    """Evaluate `date_format`: format timestamps by a constant pattern."""
    timestamps, pattern = values
    if not pattern.is_valid:
        return pa.nulls(len(timestamps), result)
    local = without_zone(timestamps)
    dates = cast(local, TIMESTAMP_NTZ, DATE)
    of_day = remainder_of_day(timestamps)
    parts: list[Any] = [pa.scalar("")]
    for kind, piece in _pieces(pattern.as_py()):
        if kind == "text":
            parts.append(pa.scalar(piece))
        elif piece[0] == "S":
            fraction = _padded(pc.subtract(of_day, floor_to_multiple(of_day, 1_000_000)), 6)
            digits = pc.utf8_slice_codeunits(fraction, 0, min(len(piece), 6))
            parts.append(pc.utf8_rpad(digits, len(piece), padding="0"))
        else:
            parts.append(PATTERNS[piece](dates, of_day))
    formatted = pc.binary_join_element_wise(*parts, "")
    return pc.if_else(pc.is_valid(timestamps), formatted, pa.scalar(None, result))


def _padded(numbers: Datum, width: int) -> Datum:
    return pc.utf8_lpad(pc.cast(numbers, pa.string()), width, padding="0")


def _year(dates: Datum, width: int) -> Datum:
    years = year_of(dates)
    digits = _padded(years, width)
    if width < 4:
        return digits
    return pc.if_else(pc.greater(years, 9999), pc.binary_join_element_wise("+", digits, ""), digits)


def _day_name(dates: Datum, _: Datum) -> Datum:
    names = pa.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    return names.take(pc.day_of_week(in_arrow_years(dates)))


def _month_name(dates: Datum, _: Datum) -> Datum:
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    return pa.array(names).take(pc.subtract(pc.month(in_arrow_years(dates)), 1))


def _of_clock(step: int, modulo: int, width: int) -> Any:
    def piece(_: Datum, of_day: Datum) -> Datum:
        count = pc.divide(of_day, step)
        return _padded(pc.subtract(count, floor_to_multiple(count, modulo)), width)

    return piece


PATTERNS: dict[str, Callable[[Datum, Datum], Datum]] = {
    "yyyy": lambda dates, _: _year(dates, 4),
    "y": lambda dates, _: _year(dates, 1),
    "yy": lambda dates, _: pc.utf8_slice_codeunits(_padded(year_of(dates), 4), -2),
    "MMM": _month_name,
    "MM": lambda dates, _: _padded(pc.month(in_arrow_years(dates)), 2),
    "M": lambda dates, _: _padded(pc.month(in_arrow_years(dates)), 1),
    "dd": lambda dates, _: _padded(pc.day(in_arrow_years(dates)), 2),
    "d": lambda dates, _: _padded(pc.day(in_arrow_years(dates)), 1),
    "DDD": lambda dates, _: _padded(pc.day_of_year(in_arrow_years(dates)), 3),
    "E": _day_name,
    "HH": _of_clock(3_600_000_000, 24, 2),
    "H": _of_clock(3_600_000_000, 24, 1),
    "mm": _of_clock(60_000_000, 60, 2),
    "m": _of_clock(60_000_000, 60, 1),
    "ss": _of_clock(1_000_000, 60, 2),
    "s": _of_clock(1_000_000, 60, 1),
}
_ORDERED = ("yyyy", "MM", "dd", "HH", "mm", "ss")


def is_ordered_format(pattern: str) -> bool:
    """Whether formatted strings sort in the order of their timestamps, for years up to 9999."""
    try:
        letters = [piece for kind, piece in _pieces(pattern) if kind == "letters"]
    except PredicateError:
        return False
    fields = [piece for piece in letters if piece[0] != "S"]
    fraction = letters[len(fields) :]
    complete = not fraction or (len(fields) == len(_ORDERED) and len(fraction) == 1)
    return bool(fields) and tuple(fields) == _ORDERED[: len(fields)] and complete
