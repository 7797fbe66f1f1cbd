"""Casts of Arrow columns as in Spark's ANSI mode, with the time zone UTC."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.calendar import date_strings, timestamp_strings
from bayou.kernel.expressions.literals import parse_timestamp
from bayou.kernel.expressions.types import INTEGRAL, kind_of
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
)

_CONTEXT = Context(prec=80)


def java_double(value: float) -> str:
    """Format a double as Java does: `1.0`, `1.0E10`, `NaN`, `Infinity`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _java_digits(value, repr(value))


def java_float(value: float) -> str:
    """Format a 32-bit float as Java does: with the fewest digits that identify the value."""
    if not math.isfinite(value):
        return java_double(value)
    for digits in range(1, 10):
        representation = f"{value:.{digits}g}"
        if _as_single(float(representation)) == value:
            return _java_digits(value, representation)
    return _java_digits(value, repr(value))


def _as_single(value: float) -> float:
    single: float = to_scalar(value, pa.float32()).as_py()
    return single


def _java_digits(value: float, representation: str) -> str:
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(representation).normalize(_CONTEXT).as_tuple()
    assert isinstance(exponent, int)
    digit_string = "".join(map(str, digits))
    point = len(digit_string) + exponent  # digits before the decimal point
    if 1e-3 <= abs(value) < 1e7:
        whole = digit_string[:point].ljust(point, "0") if point > 0 else "0"
        rest = digit_string[max(point, 0) :].rjust(-exponent if point <= 0 else 0, "0") or "0"
        body = f"{whole}.{rest}"
    else:
        body = f"{digit_string[0]}.{digit_string[1:] or '0'}E{point - 1}"
    return f"-{body}" if sign else body


# A pyarrow array or scalar. pyarrow's functions accept both, but their type hints don't.
Datum: TypeAlias = Any
_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
_MICROS = 1_000_000
# Spark trims spaces and control characters before it parses a string.
_BLANKS = "".join(map(chr, range(33))) + "\x7f"


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether a cast between two types is supported."""
    if source in (target, VOID):
        return True
    one, other = kind_of(source), kind_of(target)
    if one is None or other is None:
        return False
    return other in _TARGETS[one] or one == other


def cast(values: Datum, source: DataType, target: DataType, *, safe: bool = False) -> Datum:
    """Cast values. A value that can't be cast is an error; if `safe` is True, it becomes null."""
    if source == target:
        return values
    if source == VOID:
        return pc.cast(values, to_arrow_type(target))
    if not can_cast(source, target):
        raise PredicateError(
            f"CAST(... AS {target}): type {source} can't be cast to {target}. Use an expression of "
            "another type.",
            expression=f"CAST(... AS {target})",
        )
    scalar = isinstance(values, pa.Scalar)
    column = pa.repeat(values, 1) if scalar else values
    result: Datum = _converted(column, source, target)
    if not safe:
        failed = pc.and_(pc.is_null(result), pc.is_valid(column))
        raise_if_failed(failed, column, lambda value: f"{value!r} can't be cast to {target}")
    return result[0] if scalar else result


def raise_if_failed(failed: Datum, values: Datum, reason: Callable[[Any], str]) -> None:
    """Raise an `EvaluationError` for the first row with an error; do nothing if there is none.

    Args:
        failed: a mask that is true for the rows with an error. Null counts as false.
        values: the values that the message can name, one for each row.
        reason: function that returns the message for the row's value in `values`.
    """
    if not isinstance(failed, pa.Scalar):
        if not pc.any(failed).as_py():
            return
        row = pc.index(failed, True).as_py()
        value = values.as_py() if isinstance(values, pa.Scalar) else values[row].as_py()
    elif failed.as_py():
        value = values.as_py() if isinstance(values, pa.Scalar) else None
    else:
        return
    raise EvaluationError(
        f"{reason(value)}. This is an error in Spark's ANSI mode too. Use try_cast to return NULL, "
        "or exclude the row with a condition (CASE WHEN, AND).",
        expression=str(value),
    )


def decimals_to_floats(values: Datum, float_type: pa.DataType) -> Datum:
    """Convert decimals to the nearest floats; Arrow's own cast may return a neighboring float.

    Data skipping needs equal rounding: if bounds in the statistics were rounded in another way than
    the values in the rows, a file with matching rows could be skipped.
    """
    return pc.cast(pc.cast(values, pa.string()), float_type)


def map_distinct(values: Datum, function: Callable[[Any], Any], arrow_type: Any) -> Datum:
    """Apply a Python function once to each distinct value.

    The result is null for a null value, and for a value for which the function raises a ValueError
    or ArithmeticError.
    """
    encoded = values.dictionary_encode()
    results: list[Any] = []
    for value in encoded.dictionary.to_pylist():
        try:
            results.append(None if value is None else function(value))
        except (ValueError, ArithmeticError):
            results.append(None)
    return to_array(results, arrow_type).take(encoded.indices)


def _converted(values: Datum, source: DataType, target: DataType) -> Datum:
    """Cast an array; a value that can't be cast becomes null."""
    if target == STRING:
        return _to_string(values, source)
    if target == BOOLEAN:
        return _to_boolean(values, source)
    if target == BINARY:
        return pc.cast(values, pa.binary())
    if target in INTEGRAL:
        return _to_integer(values, source, target)
    if target in (FLOAT, DOUBLE):
        return _to_float(values, source, to_arrow_type(target))
    if isinstance(target, DecimalType):
        return _to_decimal(values, source, target)
    return _to_time(values, source, target)


def _to_boolean(values: Datum, source: DataType) -> Datum:
    if source != STRING:
        return pc.not_equal(values, to_scalar(0, values.type))
    strings = pc.utf8_lower(pc.utf8_trim(values, characters=_BLANKS))
    yes = pc.is_in(strings, value_set=pa.array(["t", "true", "y", "yes", "1"]))
    no = pc.is_in(strings, value_set=pa.array(["f", "false", "n", "no", "0"]))
    return pc.if_else(yes, True, pc.if_else(no, False, to_scalar(None, pa.bool_())))


def _to_integer(values: Datum, source: DataType, target: DataType) -> Datum:
    kind = kind_of(source)
    if kind == "boolean":
        return pc.cast(pc.cast(values, pa.int8()), to_arrow_type(target))
    if kind == "string":
        values = _parse_integers(values)
    elif kind == "timestamp":
        values = _floor_divide(pc.cast(values, pa.int64()), _MICROS)
    elif kind == "float":
        values = _truncated(values)
    bits = _BITS[target]
    minimum, maximum = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if pa.types.is_decimal(values.type):
        wide = pc.cast(values, pa.decimal256(76, values.type.scale))
        values = pc.cast(pc.trunc(wide), pa.decimal256(76, 0))
        values = _null_out_of_range(values, Decimal(minimum), Decimal(maximum))
        return pc.cast(values, to_arrow_type(target))
    if values.type.bit_width <= bits:
        return pc.cast(values, to_arrow_type(target))
    return pc.cast(_null_out_of_range(values, minimum, maximum), to_arrow_type(target))


def _truncated(values: Datum) -> Datum:
    """Truncate floats to int64; NaN and values out of range become null."""
    whole = pc.trunc(pc.cast(values, pa.float64()))
    fits = pc.and_(pc.greater_equal(whole, -(2.0**63)), pc.less_equal(whole, 2.0**63))
    top = pc.equal(whole, 2.0**63)  # Java converts 2**63 to the maximum long, 2**63 - 1
    inner = pc.if_else(pc.and_(fits, pc.invert(top)), whole, to_scalar(None, pa.float64()))
    return pc.if_else(top, pa.scalar((1 << 63) - 1), pc.cast(inner, pa.int64()))


def _parse_integers(strings: Datum) -> Datum:
    """Parse strings as integers, and return them as decimal(38,0).

    A string becomes null if it isn't an integer, or if it has more than 38 digits (leading zeros
    aren't counted).
    """
    trimmed = pc.utf8_trim(strings, characters=_BLANKS)
    valid = pc.match_substring_regex(trimmed, r"\A[+-]?0*[0-9]{1,38}\z")
    plain = pc.replace_substring_regex(trimmed, r"\A\+?(-?)0*([0-9])", r"\1\2")
    return pc.cast(pc.if_else(valid, plain, to_scalar(None, pa.string())), pa.decimal128(38, 0))


def _null_out_of_range(values: Datum, minimum: Any, maximum: Any) -> Datum:
    low, high = to_scalar(minimum, values.type), to_scalar(maximum, values.type)
    fits = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return pc.if_else(fits, values, to_scalar(None, values.type))


_FLOAT_PATTERN = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?[df]?\z"


def _to_float(values: Datum, source: DataType, float_type: Any) -> Datum:
    match kind_of(source):
        case "boolean":
            return pc.cast(pc.cast(values, pa.int8()), float_type)
        case "decimal":
            return decimals_to_floats(values, float_type)
        case "timestamp":
            micros = pc.cast(pc.cast(values, pa.int64()), pa.float64(), safe=False)
            return pc.cast(pc.divide(micros, float(_MICROS)), float_type, safe=False)
        case "string":
            strings = pc.utf8_lower(pc.utf8_trim(values, characters=_BLANKS))
            numeric = pc.match_substring_regex(strings, _FLOAT_PATTERN)
            special = map_distinct(
                pc.if_else(numeric, to_scalar(None, pa.string()), strings),
                _parse_special_float,
                float_type,
            )
            plain = pc.replace_substring_regex(strings, r"\A\+|[df]\z", "")
            numbers = pc.cast(pc.if_else(numeric, plain, to_scalar(None, pa.string())), float_type)
            return pc.coalesce(numbers, special)
        case _:
            return pc.cast(values, float_type, safe=False)


def _parse_special_float(string: str) -> float:
    if string == "nan":
        return math.nan
    if string.lstrip("+-") not in ("inf", "infinity") or string[:2] in ("++", "--", "+-", "-+"):
        raise ValueError(string)
    return -math.inf if string.startswith("-") else math.inf


def _to_decimal(values: Datum, source: DataType, target: DecimalType) -> Datum:
    match kind_of(source):
        case "boolean":
            values = pc.cast(pc.cast(values, pa.int8()), pa.decimal128(3, 0))
        case "integer":
            values = pc.cast(pc.cast(values, pa.int64()), pa.decimal128(19, 0))
        case "timestamp":
            values = pc.cast(values, pa.int64())
            values = pc.cast(values, pa.decimal256(19 + 6, 6))
            values = pc.multiply(values, to_scalar(Decimal("0.000001"), pa.decimal256(7, 6)))
        case "float":
            # As in Java, the shortest decimal representation is converted.
            return map_distinct(
                values, lambda v: _rounded(_shortest(v), target), to_arrow_type(target)
            )
        case "string":
            return map_distinct(
                pc.utf8_trim(values, characters=_BLANKS),
                lambda string: _rounded(_parse_decimal(string), target),
                to_arrow_type(target),
            )
        case _:
            pass
    return _rescaled(values, target)


_DECIMAL_PATTERN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")


def _parse_decimal(string: str) -> Decimal:
    if _DECIMAL_PATTERN.fullmatch(string) is None:
        raise ValueError(string)
    return Decimal(string)


def _shortest(value: float) -> Decimal:
    if not math.isfinite(value):
        raise ValueError(value)
    return Decimal(repr(value))  # a 32-bit float is converted to double first


def _rounded(number: Decimal, target: DecimalType) -> Decimal:
    digits = number.adjusted() + target.scale + 2 if number else 2
    if digits > 78:
        raise OverflowError
    result = number.quantize(_unit(target.scale), rounding="ROUND_HALF_UP", context=_CONTEXT)
    if result and result.adjusted() >= target.precision - target.scale:
        raise OverflowError
    return result


def _rescaled(values: Datum, target: DecimalType) -> Datum:
    """Round decimals half up to the scale of `target`; values out of its range become null."""
    source = values.type
    scale = max(source.scale, target.scale)
    wide_type = pa.decimal256(min(76, source.precision - source.scale + 1 + scale), scale)
    rounded = pc.round(
        pc.cast(values, wide_type), ndigits=target.scale, round_mode="half_towards_infinity"
    )
    rounded = pc.cast(rounded, pa.decimal256(76, scale))
    limit = Decimal(10**target.precision - 1).scaleb(-target.scale, _CONTEXT)
    in_range = _null_out_of_range(rounded, limit.copy_negate(), limit)
    return pc.cast(in_range, to_arrow_type(target))


def _to_time(values: Datum, source: DataType, target: DataType) -> Datum:
    arrow_type: Any = to_arrow_type(target)
    if source == STRING:
        return map_distinct(values, lambda string: _parse_time(string, target), arrow_type)
    if target == DATE:
        # Some versions of Arrow round times before 1970 up instead of down.
        days = _floor_divide(pc.cast(values, pa.int64()), 86_400 * _MICROS)
        return pc.cast(pc.cast(days, pa.int32()), pa.date32())
    match kind_of(source):
        case "integer":
            seconds = _null_out_of_range(
                pc.cast(values, pa.int64()), -(1 << 63) // _MICROS + 1, (1 << 63) // _MICROS - 1
            )
            micros = pc.multiply(seconds, _MICROS)
        case "float":
            micros = _truncated(pc.multiply(pc.cast(values, pa.float64()), float(_MICROS)))
        case "decimal":
            wide = pc.cast(values, pa.decimal256(60, values.type.scale))
            product = pc.multiply(wide, to_scalar(Decimal(_MICROS), pa.decimal256(7, 0)))
            return pc.cast(_to_integer(product, DecimalType(38, 0), LONG), arrow_type)
        case _:
            # A date becomes midnight in UTC. Both timestamp types are microseconds since 1970.
            return pc.cast(pc.cast(values, pa.timestamp("us")), arrow_type)
    return pc.cast(micros, arrow_type)


def _parse_time(string: str, target: DataType) -> dt.date:
    if target == DATE:
        # After a day, Spark ignores everything that follows a T or a space.
        date = re.match(r"([0-9]{4,}(?:-[0-9]{1,2}){0,2})([ T].*)?\Z", string.strip(), re.DOTALL)
        if date is None or (date[2] and date[1].count("-") < 2):
            raise ValueError(string)
        return parse_timestamp(date[1]).date()
    timestamp = parse_timestamp(string, strict=True)
    if target == TIMESTAMP_NTZ:
        return timestamp.replace(tzinfo=None)
    if timestamp.tzinfo is None:
        return timestamp.replace(tzinfo=dt.UTC)
    return timestamp.astimezone(dt.UTC)


def _to_string(values: Datum, source: DataType) -> Datum:
    match kind_of(source):
        case "boolean" | "integer":
            return pc.cast(values, pa.string())
        case "date":
            return date_strings(values)
        case "timestamp" | "timestamp_ntz":
            return _without_zeros(timestamp_strings(pc.cast(values, pa.timestamp("us"))))
        case "float" if source == FLOAT:
            return map_distinct(pc.cast(values, pa.float32()), java_float, pa.string())
        case "float":
            return map_distinct(values, java_double, pa.string())
        case "decimal":
            return map_distinct(values, lambda number: f"{number:f}", pa.string())
        case _:  # binary
            return map_distinct(values, lambda raw: raw.decode("utf-8", "replace"), pa.string())


def _without_zeros(strings: Datum) -> Datum:
    return pc.replace_substring_regex(strings, r"(\.[0-9]*[1-9])0+\z|\.0+\z", r"\1")


def _floor_divide(values: Datum, divisor: int) -> Datum:
    quotient = pc.divide(values, divisor)
    below = pc.less(pc.subtract(values, pc.multiply(quotient, divisor)), 0)
    return pc.subtract(quotient, pc.cast(below, pa.int64()))


def _unit(scale: int) -> Decimal:
    return Decimal(1).scaleb(-scale)


_TARGETS: dict[str, tuple[str, ...]] = {
    "void": (),
    "boolean": ("string", "integer", "float", "decimal"),
    "integer": ("string", "boolean", "float", "decimal", "timestamp"),
    "float": ("string", "boolean", "integer", "decimal", "timestamp"),
    "decimal": ("string", "boolean", "integer", "float", "timestamp"),
    "string": (
        "binary",
        "boolean",
        "integer",
        "float",
        "decimal",
        "date",
        "timestamp",
        "timestamp_ntz",
    ),
    "binary": ("string",),
    "date": ("string", "timestamp", "timestamp_ntz"),
    "timestamp": ("string", "integer", "float", "decimal", "date", "timestamp_ntz"),
    "timestamp_ntz": ("string", "date", "timestamp"),
}
