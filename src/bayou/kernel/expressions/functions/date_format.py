"""Texts of times by the letters of Java's formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import PredicateError
from bayou.kernel.expressions.casts import cast
from bayou.kernel.expressions.functions.date_arithmetic import (
    floored,
    remainder_of_day,
    without_zone,
)
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    constant_of,
    parameters,
)
from bayou.protocol.schema import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ

__all__ = ["LETTERS", "formatted", "formatting", "is_ordered_format"]

pc: Any = pyarrow.compute

_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")


def formatting(call: Call) -> Binding:
    """Types of `date_format`, whose format must be known."""
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
        if found is None or (letters and letters not in LETTERS and letters[0] != "S"):
            raise PredicateError(
                f"date_format doesn't know {letters or form[at:]!r} in {form!r}; it knows "
                f"{', '.join(LETTERS)} and S.",
                expression="date_format",
            )
        if letters:
            pieces.append(("letters", letters))
        else:
            text = found[3] if found[3] is not None else (found[1] or "").replace("''", "'")
            pieces.append(("text", text or "'"))
        at = found.end()
    return pieces


def formatted(values: Sequence[Datum], result: Any) -> Datum:
    """Values of `date_format`."""
    moments, form = values
    if not form.is_valid:
        return pa.nulls(len(moments), result)
    local = without_zone(moments)
    dates = cast(local, TIMESTAMP_NTZ, DATE)
    of_day = remainder_of_day(moments)
    parts: list[Any] = []
    for kind, text in _pieces(form.as_py()):
        if kind == "text":
            parts.append(pa.scalar(text))
        elif text[0] == "S":
            fraction = _padded(pc.subtract(of_day, floored(of_day, 1_000_000)), 6)
            cut = pc.utf8_slice_codeunits(fraction, 0, min(len(text), 6))
            parts.append(pc.utf8_rpad(cut, len(text), padding="0"))
        else:
            parts.append(LETTERS[text](dates, of_day))
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
        return _padded(pc.subtract(count, floored(count, modulo)), width)

    return piece


LETTERS: dict[str, Callable[[Datum, Datum], Datum]] = {
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
