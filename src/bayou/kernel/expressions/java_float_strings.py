"""Floats as Java writes them, which is what a cast to text gives in Spark."""

from __future__ import annotations

import math
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute

__all__ = ["java_double", "java_float"]

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
