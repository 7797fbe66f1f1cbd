"""Constant intervals of SQL text, which stand beside a date or timestamp."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

__all__ = ["interval"]

_MONTHS = {"year": 12, "month": 1}
_MICROS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_CLOCK = ("day", "hour", "minute", "second")
_PAIR = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s+([a-z]+)", re.IGNORECASE)


def interval(node: Any, text_of: Callable[[str], str]) -> tuple[int, int] | None:
    """Months and microseconds of an `Interval` of sqlglot's tree.

    Args:
        text_of: the string that a stand-in is for.

    Returns:
        None for an interval that isn't a constant, or has another form.
    """
    value, sign = node.this, 1
    if type(value).__name__ == "Neg":
        value, sign = value.this, -1
    if type(value).__name__ != "Literal":
        return None
    text = text_of(str(value.this)).strip()
    unit = node.args.get("unit")
    match type(unit).__name__:
        case "NoneType":
            found = _pairs(text)
        case "Var":
            found = _one(text, unit.name)
        case "IntervalSpan":
            found = _span(text, unit.this.name.lower(), unit.expression.name.lower())
        case _:
            found = None
    return None if found is None else (sign * found[0], sign * found[1])


def _one(text: str, unit: str) -> tuple[int, int] | None:
    unit = unit.lower()
    if unit not in _MONTHS and unit not in _MICROS:
        unit = unit.removesuffix("s")
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    if unit in _MONTHS and amount == int(amount):
        return int(amount) * _MONTHS[unit], 0
    if unit in _MICROS and (amount == int(amount) or unit == "second"):
        return 0, int(amount * _MICROS[unit])
    return None


def _pairs(text: str) -> tuple[int, int] | None:
    """`1 day 2 hours`."""
    months = micros = at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        found = None if pair is None else _one(pair[1], pair[2])
        if pair is None or found is None:
            return None
        months, micros, at = months + found[0], micros + found[1], pair.end()
    return (months, micros) if at else None


def _span(text: str, first: str, last: str) -> tuple[int, int] | None:
    """`'1-2' YEAR TO MONTH`, `'1 10:30:00.5' DAY TO SECOND` and the like."""
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    if (first, last) == ("year", "month"):
        found = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
        return None if found is None else (sign * (int(found[1]) * 12 + int(found[2])), 0)
    if first not in _CLOCK or last not in _CLOCK:
        return None
    units = _CLOCK[_CLOCK.index(first) : _CLOCK.index(last) + 1]
    amounts = re.split(r"[ :]", text)
    if len(amounts) != len(units) or not all(
        re.fullmatch(r"[0-9]+(\.[0-9]+)?", a) for a in amounts
    ):
        return None
    total = sum((Decimal(a) * _MICROS[u] for a, u in zip(amounts, units, strict=True)), Decimal(0))
    return 0, sign * int(total)
