"""Conversion of bounds in statistics.

Inexact bounds are widened, so that data skipping never skips a file with a matching row.
"""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import Datum, pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.casts import decimals_to_floats
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    GeographyType,
    GeometryType,
    PrimitiveType,
)

_MILLISECOND = 1_000  # in microseconds
_EXACT_DIGITS = 12  # bounds with at most this many digits are exact, see docs/design/decisions.md
_MAX_DOUBLE_DIGITS = 17  # in the shortest representation of a double
_DOUBLE_ERROR = 2.0**-50  # relative error of a few roundings
_DECIMAL_CONTEXT = Context(prec=76)


def has_null_count(data_type: DataType) -> bool:
    """Whether null counts of a type are used. Null counts of arrays and maps aren't reliable."""
    return isinstance(data_type, DecimalType | GeometryType | GeographyType) or (
        isinstance(data_type, PrimitiveType) and data_type.name not in ("void", "variant")
    )


def stored_type(data_type: DataType) -> pa.DataType | None:
    """Return the Arrow type in which bounds are read from JSON; None for a type without bounds."""
    if isinstance(data_type, DecimalType):
        return to_arrow_type(data_type)
    if data_type in (BINARY, BOOLEAN) or isinstance(data_type, GeometryType | GeographyType):
        return None
    if data_type in (FLOAT, DOUBLE):
        return pa.float64()
    if data_type in (STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return pa.string()
    return pa.int64()


def cast_bounds(values: Datum, arrow_type: pa.DataType) -> Datum:
    """Cast bounds to the type in which they are compared.

    An integer outside the range of `arrow_type` becomes null, which means unknown.
    """
    if values.type == arrow_type:
        return values
    if pa.types.is_decimal(values.type) and pa.types.is_floating(arrow_type):
        return decimals_to_floats(values, arrow_type)
    if pa.types.is_integer(values.type) and pa.types.is_integer(arrow_type):
        max_value = (1 << (arrow_type.bit_width - 1)) - 1
        fits = pc.and_(pc.less_equal(values, max_value), pc.greater_equal(values, -max_value - 1))
        values = pc.if_else(fits, values, to_scalar(None, values.type))
    return pc.cast(values, arrow_type, safe=not pa.types.is_floating(arrow_type))


def drop_truncated_strings(values: Datum) -> Datum:
    """Replace string bounds that contain U+FFFD by null.

    Writers that truncate a string within a character, in UTF-8 or UTF-16, write U+FFFD instead of
    the character. U+FFFD can sort before or after the original character.
    """
    is_truncated = pc.match_substring(values, "\ufffd")
    return pc.if_else(is_truncated, to_scalar(None, values.type), values)


def widen_float_bounds(values: Datum, *, upper: bool) -> Datum:
    """Widen bounds of a column that was changed from float to double.

    In files that were written before the change, a bound is the shortest decimal representation of
    a float, such as 0.1. Parsed as a double, the representation differs slightly from the float.

    Args:
        upper: True for upper bounds, False for lower bounds.
    """
    as_float = cast_bounds(cast_bounds(values, pa.float32()), pa.float64())
    is_wider = pc.greater(as_float, values) if upper else pc.less(as_float, values)
    return pc.if_else(pc.fill_null(is_wider, False), as_float, values)


def widen_decimal_bounds(values: Datum, data_type: DecimalType, *, upper: bool) -> Datum:
    """Widen bounds of a decimal column, because some writers (`deltalake`) round them to doubles.

    A bound with at most 12 significant digits counts as exact, because a rounded bound rarely has
    so few digits. A bound with more than 17 digits is exact, because a double has at most 17.

    Args:
        upper: True for upper bounds, False for lower bounds.
    """
    precision, scale = data_type.precision, data_type.scale
    wide_type = pa.decimal256(precision + 2, scale)
    error = pc.multiply(pc.abs(pc.cast(values, pa.float64())), _DOUBLE_ERROR)
    # The margin may be truncated to a multiple of 10**-scale, because bounds and values are
    # multiples of 10**-scale.
    margin = pc.cast(error, wide_type, safe=False)
    wide = pc.cast(values, wide_type)
    bounds = pc.add(wide, margin) if upper else pc.subtract(wide, margin)
    max_value = Decimal(10**precision - 1).scaleb(-scale, _DECIMAL_CONTEXT)
    limit = to_scalar(max_value if upper else max_value.copy_negate(), bounds.type)
    beyond = pc.greater(bounds, limit) if upper else pc.less(bounds, limit)
    bounds = pc.if_else(_looks_rounded(values), pc.if_else(beyond, limit, bounds), wide)
    return pc.cast(bounds, to_arrow_type(data_type))


def _looks_rounded(values: Datum) -> Datum:
    """Whether decimals have 13 to 17 digits, like decimals that a writer rounded to doubles."""
    digits = pc.replace_substring_regex(pc.cast(values, pa.string()), "E.*|[-.]", "")
    count = pc.utf8_length(pc.utf8_trim(digits, characters="0"))
    return pc.and_(pc.greater(count, _EXACT_DIGITS), pc.less_equal(count, _MAX_DOUBLE_DIGITS))


def add_millisecond(values: Datum) -> Datum:
    """Add a millisecond to upper bounds, because writers truncate timestamps to milliseconds."""
    micros = pc.cast(values, pa.int64())
    max_value = (1 << 63) - 1
    later = pc.if_else(
        pc.greater(micros, max_value - _MILLISECOND),
        to_scalar(max_value, pa.int64()),
        pc.add(micros, _MILLISECOND),
    )
    return pc.cast(later, values.type)


def parse_times(strings: Datum, arrow_type: Any) -> Datum:
    """Parse strings as dates or timestamps; an invalid string becomes null."""
    if isinstance(strings, pa.Scalar):
        return to_scalar(None, arrow_type)
    if not pa.types.is_string(strings.type):  # `stats_parsed` has typed columns
        return cast_bounds(strings, arrow_type)
    zoneless = pa.timestamp("us") if pa.types.is_timestamp(arrow_type) else arrow_type
    try:
        # `Z` means UTC for a timestamp, and nothing for a timestamp without zone.
        values = pc.cast(pc.utf8_rtrim(strings, characters="Z"), zoneless)
    except pa.ArrowInvalid:
        return _parse_one_by_one(strings, arrow_type)
    return pc.cast(values, arrow_type)


def _parse_one_by_one(strings: Datum, arrow_type: Any) -> Datum:
    """Parse strings in any ISO 8601 format, with or without a UTC offset.

    An invalid string becomes null.
    """
    encoded = strings.dictionary_encode()
    values = [_parse_time(value, arrow_type) for value in encoded.dictionary.to_pylist()]
    return to_array(values, arrow_type).take(encoded.indices)


def _parse_time(string: str, arrow_type: Any) -> dt.date | None:
    try:
        value = dt.datetime.fromisoformat(string)
        if pa.types.is_date(arrow_type):
            return value.date()
        if arrow_type.tz is None:
            return value.replace(tzinfo=None)
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
