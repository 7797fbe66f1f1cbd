"""The fdlibm algorithms of Java's StrictMath, which Spark uses, with results exact to the last bit.

The platform's C library rounds some results differently.
"""

from __future__ import annotations

import math
import struct

__all__ = ["cbrt", "exp", "log", "log10", "pow"]

_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_TWO_54 = 18014398509481984.0


def exp(x: float) -> float:
    """E to the power of x."""
    if math.isnan(x):
        return x
    if x > 7.09782712893383973096e02:
        return math.inf
    if x < -7.45133219101941108420e02:
        return 0.0
    size = _high(x) & 0x7FFFFFFF
    k, high, low = 0, 0.0, 0.0
    if size > 0x3FD62E42:  # |x| > 0.5 ln 2
        if size < 0x3FF0A2B2:  # |x| < 1.5 ln 2
            k = 1 if x > 0 else -1
        else:
            k = int(1.44269504088896338700 * x + (0.5 if x > 0 else -0.5))
        high, low = x - k * _LN2_HIGH, k * _LN2_LOW
        x = high - low
    elif size < 0x3E300000:  # |x| < 2 ** -28
        return 1.0 + x
    c = _exp_term(x)
    if k == 0:
        return 1.0 - ((x * c) / (c - 2.0) - x)
    y = 1.0 - ((low - (x * c) / (2.0 - c)) - high)
    if k >= -1021:
        return _with_high(y, _high(y) + (k << 20))
    return _with_high(y, _high(y) + ((k + 1000) << 20)) * 9.33263618503218878990e-302


def log(x: float) -> float:
    """The natural logarithm; NaN below 0."""
    if math.isnan(x) or x < 0:
        return math.nan
    if x == 0:
        return -math.inf
    if math.isinf(x):
        return x
    k = 0
    if _high(x) < 0x00100000:
        k, x = -54, x * _TWO_54
    top = _high(x)
    k += (top >> 20) - 1023
    top &= 0x000FFFFF
    i = (top + 0x95F64) & 0x100000
    f = _with_high(x, top | (i ^ 0x3FF00000)) - 1.0
    k += i >> 20
    if 0x000FFFFF & (2 + top) < 3:  # |f| < 2 ** -20
        if f == 0:
            return 0.0 if k == 0 else k * _LN2_HIGH + k * _LN2_LOW
        r = f * f * (0.5 - 0.33333333333333333 * f)
        return f - r if k == 0 else k * _LN2_HIGH - ((r - k * _LN2_LOW) - f)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    t1 = w * (
        3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)
    )
    t2 = z * (
        6.666666666666735130e-01
        + w
        * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    r = t2 + t1
    if (top - 0x6147A) | (0x6B851 - top) > 0:
        half = 0.5 * f * f
        if k == 0:
            return f - (half - s * (half + r))
        return k * _LN2_HIGH - ((half - (s * (half + r) + k * _LN2_LOW)) - f)
    if k == 0:
        return f - s * (f - r)
    return k * _LN2_HIGH - ((s * (f - r) - k * _LN2_LOW) - f)


def log10(x: float) -> float:
    """The logarithm to base 10; NaN below 0."""
    if math.isnan(x) or x < 0:
        return math.nan
    if x == 0:
        return -math.inf
    if math.isinf(x):
        return x
    k = 0
    if _high(x) < 0x00100000:
        k, x = -54, x * _TWO_54
    top = _high(x)
    k += (top >> 20) - 1023
    i = 1 if k < 0 else 0
    x = _with_high(x, (top & 0x000FFFFF) | ((0x3FF - i) << 20))
    y = float(k + i)
    z = y * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(x)
    return z + y * 3.01029995663611771306e-01


def cbrt(x: float) -> float:
    """The cube root."""
    if math.isnan(x) or math.isinf(x) or x == 0:
        return x
    sign, x = math.copysign(1.0, x), abs(x)
    if _high(x) < 0x00100000:
        t = _with_high(0.0, _high(x * _TWO_54) // 3 + 696219795)
    else:
        t = _with_high(0.0, _high(x) // 3 + 715094163)
    r = t * t / x
    s = 5.42857142857142815906e-01 + r * t
    t *= 3.57142857142857150787e-01 + 1.60714285714285720630e00 / (
        s + 1.41428571428571436819e00 + -7.05306122448979611050e-01 / s
    )
    t = _with_high(0.0, _high(t) + 1)
    s = t * t
    r = x / s
    w = t + t
    r = (r - t) / (w + r)
    return sign * (t + t * r)


def pow(x: float, y: float) -> float:  # noqa: A001  # the usual name
    """X to the power of y."""
    if y == 0:
        return 1.0
    if math.isnan(x) or math.isnan(y):
        return math.nan
    size = abs(x)
    if math.isinf(y):
        if size == 1:
            return math.nan
        return abs(y) if (size > 1) == (y > 0) else 0.0
    if y in (1.0, 2.0):
        return x if y == 1 else x * x
    if y == 0.5 and x >= 0:
        return math.sqrt(x)
    is_odd = math.fmod(y, 2.0) in (1.0, -1.0)
    sign = -1.0 if is_odd and math.copysign(1.0, x) < 0 else 1.0
    if x == 0 or math.isinf(x):
        return sign * (math.inf if (size > 1) == (y > 0) else 0.0)
    if x < 0 and not y.is_integer():
        return math.nan
    if y == -1:
        return 1.0 / x
    return sign * (1.0 if size == 1 else _power(size, y))


def _power(x: float, y: float) -> float:
    """X to the power of y, for a finite x > 0 other than 1."""
    if abs(y) > 2.0**64 or (abs(y) > 2.0**31 and not 0x3FEFFFFF <= _high(x) <= 0x3FF00000):
        return math.inf if (x > 1) == (y > 0) else 0.0
    t1, t2 = _log2_near_1(x) if abs(y) > 2.0**31 else _log2(x)
    y1 = _upper(y)
    low = (y - y1) * t1 + y * t2
    high = y1 * t1
    z = low + high
    if z > 1024 or (z == 1024 and low + 8.0085662595372944372e-0017 > z - high):
        return math.inf
    if z < -1075 or (z == -1075 and low <= z - high):
        return 0.0
    top = _high(z)
    size = top & 0x7FFFFFFF
    k = (size >> 20) - 0x3FF
    n = 0
    if size > 0x3FE00000:  # |z| > 0.5: split off 2 to the power of the nearest integer
        n = top + (0x00100000 >> (k + 1))
        k = ((n & 0x7FFFFFFF) >> 20) - 0x3FF
        high -= _with_high(0.0, n & ~(0x000FFFFF >> k))
        n = ((n & 0x000FFFFF) | 0x00100000) >> (20 - k)
        n = -n if top < 0 else n
    t = _upper(low + high)
    u = t * 6.93147182464599609375e-01
    v = (low - (t - high)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09
    z = u + v
    w = v - (z - u)
    t1 = _exp_term(z)
    r = (z * t1) / (t1 - 2.0) - (w + z * w)
    return math.ldexp(1.0 - (r - z), n)


def _log2_near_1(x: float) -> tuple[float, float]:
    """The logarithm to base 2 in two parts, where |x - 1| <= 2 ** -20."""
    t = x - 1.0
    w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
    u = 1.44269502162933349609 * t
    v = t * 1.92596299112661746887e-08 - w * 1.44269504088896338700
    t1 = _upper(u + v)
    return t1, v - (t1 - u)


def _log2(x: float) -> tuple[float, float]:
    """The logarithm to base 2 in two parts."""
    n = 0
    if _high(x) < 0x00100000:
        x *= 9007199254740992.0
        n = -53
    top = _high(x)
    n += (top >> 20) - 0x3FF
    j = top & 0x000FFFFF
    top = j | 0x3FF00000
    k = 0
    if 0x3988E < j < 0xBB67A:
        k = 1
    elif j >= 0xBB67A:
        n += 1
        top -= 0x00100000
    x = _with_high(x, top)
    base = (1.0, 1.5)[k]
    u = x - base
    v = 1.0 / (x + base)
    s = u * v
    s_high = _upper(s)
    t_high = _with_high(0.0, ((top >> 1) | 0x20000000) + 0x00080000 + (k << 18))
    t_low = x - (t_high - base)
    s_low = v * ((u - s_high * t_high) - s_high * t_low)
    s2 = s * s
    r = s2 * s2
    terms = 2.30660745775561754067e-01 + s2 * 2.06975017800338417784e-01
    for term in (
        2.72728123808534006489e-01,
        3.33333329818377432918e-01,
        4.28571428578550184252e-01,
        5.99999999999994648725e-01,
    ):
        terms = term + s2 * terms
    r = r * terms + s_low * (s_high + s)
    s2 = s_high * s_high
    t_high = _upper(3.0 + s2 + r)
    t_low = r - ((t_high - 3.0) - s2)
    u = s_high * t_high
    v = s_low * t_high + t_low * s
    p_high = _upper(u + v)
    p_low = v - (p_high - u)
    z_high = 9.61796700954437255859e-01 * p_high
    low_base = (0.0, 1.35003920212974897128e-08)[k]
    z_low = -7.02846165095275826516e-09 * p_high + p_low * 9.61796693925975554329e-01 + low_base
    high_base = (0.0, 5.84962487220764160156e-01)[k]
    t1 = _upper(((z_high + z_low) + high_base) + n)
    return t1, z_low - (((t1 - n) - high_base) - z_high)


def _exp_term(x: float) -> float:
    t = x * x
    terms = -1.65339022054652515390e-06 + t * 4.13813679705723846039e-08
    for term in (
        6.61375632143793436117e-05,
        -2.77777777770155933842e-03,
        1.66666666666666019037e-01,
    ):
        terms = term + t * terms
    return x - t * terms


def _upper(x: float) -> float:
    """The number with the lower 32 bits set to zero."""
    truncated: float = struct.unpack("<d", struct.pack("<q", _bits(x) & ~0xFFFFFFFF))[0]
    return truncated


def _bits(x: float) -> int:
    found: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return found


def _high(x: float) -> int:
    """The upper 32 bits, with the sign."""
    return _bits(x) >> 32


def _with_high(x: float, high: int) -> float:
    low = _bits(x) & 0xFFFFFFFF
    found: float = struct.unpack("<d", struct.pack("<Q", (high & 0xFFFFFFFF) << 32 | low))[0]
    return found
