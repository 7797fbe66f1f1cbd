"""Casts over Arrow columns, as Spark's ANSI mode casts, in the time zone UTC.

Floats as Java writes them, which is what a cast to text gives in Spark.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.arrow.types import to_arrow_type
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

__all__ = [
    "can_cast",
    "cast",
    "decimals_to_floats",
    "distinct",
    "fail",
    "java_double",
    "java_float",
]


_CONTEXT = Context(prec=80)


def java_double(value: float) -> str:
    """A double as Java writes it: `1.0`, `1.0E10`, `NaN`, `Infinity`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _java_digits(value, repr(value))


def java_float(value: float) -> str:
    """A float of 32 bits as Java writes it: the fewest digits that tell it from its neighbours."""
    if not math.isfinite(value):
        return java_double(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _as_single(float(text)) == value:
            return _java_digits(value, text)
    return _java_digits(value, repr(value))


def _as_single(value: float) -> float:
    single: float = pa.scalar(value, pa.float32()).as_py()
    return single


def _java_digits(value: float, text: str) -> str:
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(text).normalize(_CONTEXT).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits))
    point = len(written) + exponent  # digits before the point
    if 1e-3 <= abs(value) < 1e7:
        whole = written[:point].ljust(point, "0") if point > 0 else "0"
        rest = written[max(point, 0) :].rjust(-exponent if point <= 0 else 0, "0") or "0"
        body = f"{whole}.{rest}"
    else:
        body = f"{written[0]}.{written[1:] or '0'}E{point - 1}"
    return f"-{body}" if sign else body


# A pyarrow array or scalar. pyarrow's own types don't take both where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute

_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
_MICROS = 1_000_000
# Spark takes off spaces and control characters before it reads a text.
_BLANKS = "".join(map(chr, range(33))) + "\x7f"


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether there is such a cast at all."""
    if source in (target, VOID):
        return True
    one, other = kind_of(source), kind_of(target)
    if one is None or other is None:
        return False
    return other in _TARGETS[one] or one == other


def cast(values: Datum, source: DataType, target: DataType, *, safe: bool = False) -> Datum:
    """Values of one type as another.

    Args:
        values: a column or constant of `source`.
        safe: give null for a value that doesn't go.

    Raises:
        EvaluationError: a value that doesn't go, unless `safe`; names it.
        PredicateError: there is no such cast.
    """
    if source == target:
        return values
    wanted = to_arrow_type(target)
    if source == VOID:
        return pc.cast(values, wanted)
    if not can_cast(source, target):
        raise PredicateError(
            f"A {source} can't be cast to a {target}.", expression=f"CAST(... AS {target})"
        )
    scalar = isinstance(values, pa.Scalar)
    column = pa.array([values.as_py()], values.type) if scalar else values
    result: Datum = _converted(column, source, target)
    if not safe:
        failed = pc.and_(pc.is_null(result), pc.is_valid(column))
        fail(failed, column, lambda value: f"{value!r} can't be cast to a {target}")
    return result[0] if scalar else result


def fail(failed: Datum, values: Datum, reason: Callable[[Any], str]) -> None:
    """Raise where a row failed (null: it didn't), saying why about the first of its values.

    Raises:
        EvaluationError: as told.
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
        f"{reason(value)}. Spark's ANSI mode fails such a query too; try_cast gives NULL, a "
        "condition before it (CASE WHEN, AND) leaves the row out.",
        expression=str(value),
    )


def decimals_to_floats(values: Datum, wanted: pa.DataType) -> Datum:
    """Decimals as the nearest floats: Arrow's own cast may be one off, its parser of texts isn't.

    Rows and bounds go through it alike: a bound that is rounded otherwise loses rows.
    """
    return pc.cast(pc.cast(values, pa.string()), wanted)


def distinct(values: Datum, function: Callable[[Any], Any], arrow_type: Any) -> Datum:
    """A Python function of each distinct value; null where it raises ValueError or OverflowError.

    Nulls stay null.
    """
    encoded = values.dictionary_encode()
    results: list[Any] = []
    for value in encoded.dictionary.to_pylist():
        try:
            results.append(None if value is None else function(value))
        except (ValueError, ArithmeticError):
            results.append(None)
    return pa.array(results, arrow_type).take(encoded.indices)


def _converted(values: Datum, source: DataType, target: DataType) -> Datum:
    """The cast of an array; null where a value doesn't go."""
    if target == STRING:
        return _to_text(values, source)
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
        return pc.not_equal(values, pa.scalar(0, values.type))
    texts = pc.utf8_lower(pc.utf8_trim(values, characters=_BLANKS))
    yes = pc.is_in(texts, value_set=pa.array(["t", "true", "y", "yes", "1"]))
    no = pc.is_in(texts, value_set=pa.array(["f", "false", "n", "no", "0"]))
    return pc.if_else(yes, True, pc.if_else(no, False, pa.scalar(None, pa.bool_())))


def _to_integer(values: Datum, source: DataType, target: DataType) -> Datum:
    kind = kind_of(source)
    if kind == "boolean":
        return pc.cast(pc.cast(values, pa.int8()), to_arrow_type(target))
    if kind == "string":
        values = _digits(values)
    elif kind == "timestamp":
        values = _floor_divide(pc.cast(values, pa.int64()), _MICROS)
    elif kind == "float":
        values = _truncated(values)
    bits = _BITS[target]
    least, greatest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if pa.types.is_decimal(values.type):
        wide = pc.cast(values, pa.decimal256(76, values.type.scale))
        values = pc.cast(pc.trunc(wide), pa.decimal256(76, 0))
        values = _within(values, Decimal(least), Decimal(greatest))
        return pc.cast(values, to_arrow_type(target))
    if values.type.bit_width <= bits:
        return pc.cast(values, to_arrow_type(target))
    return pc.cast(_within(values, least, greatest), to_arrow_type(target))


def _truncated(values: Datum) -> Datum:
    """Floats without their fraction, as long; null for NaN and what is too large."""
    whole = pc.trunc(pc.cast(values, pa.float64()))
    fits = pc.and_(pc.greater_equal(whole, -(2.0**63)), pc.less_equal(whole, 2.0**63))
    top = pc.equal(whole, 2.0**63)  # one above the greatest long, which Java makes of it
    inner = pc.if_else(pc.and_(fits, pc.invert(top)), whole, pa.scalar(None, pa.float64()))
    return pc.if_else(top, pa.scalar((1 << 63) - 1), pc.cast(inner, pa.int64()))


def _digits(texts: Datum) -> Datum:
    """Whole numbers out of texts, as decimals; null for what isn't one or has over 38 digits."""
    trimmed = pc.utf8_trim(texts, characters=_BLANKS)
    good = pc.match_substring_regex(trimmed, r"\A[+-]?0*[0-9]{1,38}\z")
    plain = pc.replace_substring_regex(trimmed, r"\A\+?(-?)0*([0-9])", r"\1\2")
    return pc.cast(pc.if_else(good, plain, pa.scalar(None, pa.string())), pa.decimal128(38, 0))


def _within(values: Datum, least: Any, greatest: Any) -> Datum:
    low, high = pa.scalar(least, values.type), pa.scalar(greatest, values.type)
    fits = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return pc.if_else(fits, values, pa.scalar(None, values.type))


_FLOAT_TEXT = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?[df]?\z"


def _to_float(values: Datum, source: DataType, wanted: Any) -> Datum:
    match kind_of(source):
        case "boolean":
            return pc.cast(pc.cast(values, pa.int8()), wanted)
        case "decimal":
            return decimals_to_floats(values, wanted)
        case "timestamp":
            micros = pc.cast(pc.cast(values, pa.int64()), pa.float64(), safe=False)
            return pc.cast(pc.divide(micros, float(_MICROS)), wanted, safe=False)
        case "string":
            texts = pc.utf8_lower(pc.utf8_trim(values, characters=_BLANKS))
            good = pc.match_substring_regex(texts, _FLOAT_TEXT)
            named = distinct(
                pc.if_else(good, pa.scalar(None, pa.string()), texts), _named_float, wanted
            )
            plain = pc.replace_substring_regex(texts, r"\A\+|[df]\z", "")
            numbers = pc.cast(pc.if_else(good, plain, pa.scalar(None, pa.string())), wanted)
            return pc.coalesce(numbers, named)
        case _:
            return pc.cast(values, wanted, safe=False)


def _named_float(text: str) -> float:
    if text == "nan":
        return math.nan
    if text.lstrip("+-") not in ("inf", "infinity") or text[:2] in ("++", "--", "+-", "-+"):
        raise ValueError(text)
    return -math.inf if text.startswith("-") else math.inf


def _to_decimal(values: Datum, source: DataType, target: DecimalType) -> Datum:
    match kind_of(source):
        case "boolean":
            values = pc.cast(pc.cast(values, pa.int8()), pa.decimal128(3, 0))
        case "integer":
            values = pc.cast(pc.cast(values, pa.int64()), pa.decimal128(19, 0))
        case "timestamp":
            values = pc.cast(values, pa.int64())
            values = pc.cast(values, pa.decimal256(19 + 6, 6))
            values = pc.multiply(values, pa.scalar(Decimal("0.000001"), pa.decimal256(7, 6)))
        case "float":
            # The digits that Java would show for it count.
            return distinct(values, lambda v: _rounded(_shortest(v), target), to_arrow_type(target))
        case "string":
            return distinct(
                pc.utf8_trim(values, characters=_BLANKS),
                lambda text: _rounded(_decimal_text(text), target),
                to_arrow_type(target),
            )
        case _:
            pass
    return _rescaled(values, target)


_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")


def _decimal_text(text: str) -> Decimal:
    if _DECIMAL_TEXT.fullmatch(text) is None:
        raise ValueError(text)
    return Decimal(text)


def _shortest(value: float) -> Decimal:
    if not math.isfinite(value):
        raise ValueError(value)
    return Decimal(repr(value))  # a float is taken as the double it equals


def _rounded(number: Decimal, target: DecimalType) -> Decimal:
    from_digits = number.adjusted() + target.scale + 2 if number else 2
    if from_digits > 78:
        raise OverflowError
    result = number.quantize(_unit(target.scale), rounding="ROUND_HALF_UP", context=_CONTEXT)
    if result and result.adjusted() >= target.precision - target.scale:
        raise OverflowError
    return result


def _rescaled(values: Datum, target: DecimalType) -> Datum:
    """Decimals rounded half up to another scale; null where too large."""
    given = values.type
    scale = max(given.scale, target.scale)
    room = pa.decimal256(min(76, given.precision - given.scale + 1 + scale), scale)
    rounded = pc.round(
        pc.cast(values, room), ndigits=target.scale, round_mode="half_towards_infinity"
    )
    rounded = pc.cast(rounded, pa.decimal256(76, scale))
    limit = Decimal(10**target.precision - 1).scaleb(-target.scale, _CONTEXT)
    fitting = _within(rounded, limit.copy_negate(), limit)
    return pc.cast(fitting, to_arrow_type(target))


def _to_time(values: Datum, source: DataType, target: DataType) -> Datum:
    wanted: Any = to_arrow_type(target)
    if source == STRING:
        return distinct(values, lambda text: _read_time(text, target), wanted)
    if target == DATE:
        # Arrow's own cast rounds times before 1970 the wrong way in some versions.
        days = _floor_divide(pc.cast(values, pa.int64()), 86_400 * _MICROS)
        return pc.cast(pc.cast(days, pa.int32()), pa.date32())
    match kind_of(source):
        case "integer":
            seconds = _within(
                pc.cast(values, pa.int64()), -(1 << 63) // _MICROS + 1, (1 << 63) // _MICROS - 1
            )
            micros = pc.multiply(seconds, _MICROS)
        case "float":
            micros = _truncated(pc.multiply(pc.cast(values, pa.float64()), float(_MICROS)))
        case "decimal":
            wide = pc.cast(values, pa.decimal256(60, values.type.scale))
            product = pc.multiply(wide, pa.scalar(Decimal(_MICROS), pa.decimal256(7, 0)))
            return pc.cast(_to_integer(product, DecimalType(38, 0), LONG), wanted)
        case _:
            # Dates begin at midnight UTC; the two timestamps differ in the meaning alone.
            return pc.cast(pc.cast(values, pa.timestamp("us")), wanted)
    return pc.cast(micros, wanted)


def _read_time(text: str, target: DataType) -> dt.date:
    if target == DATE:
        # Spark reads a date and passes over what follows a T or a space.
        head = re.match(r"\s*([0-9]{4,}(?:-[0-9]{1,2}){0,2})(?:[ T].*)?\s*\Z", text, re.DOTALL)
        if head is None:
            raise ValueError(text)
        return parse_timestamp(head[1]).date()
    moment = parse_timestamp(text)
    if target == TIMESTAMP_NTZ:
        return moment.replace(tzinfo=None)
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _to_text(values: Datum, source: DataType) -> Datum:
    match kind_of(source):
        case "boolean" | "integer" | "date":
            return pc.cast(values, pa.string())
        case "timestamp" | "timestamp_ntz":
            texts = pc.cast(pc.cast(values, pa.timestamp("us")), pa.string())
            return _without_zeros(texts)
        case "float" if source == FLOAT:
            return distinct(pc.cast(values, pa.float32()), java_float, pa.string())
        case "float":
            return distinct(values, java_double, pa.string())
        case "decimal":
            return distinct(values, lambda number: f"{number:f}", pa.string())
        case _:  # binary
            return distinct(values, lambda raw: raw.decode("utf-8", "replace"), pa.string())


def _without_zeros(texts: Datum) -> Datum:
    """Timestamps without the zeros at the end of the fraction."""
    return pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+\z|\.0+\z", r"\1")


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
