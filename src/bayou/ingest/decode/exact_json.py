"""Reads and writes JSON without changing its numbers.

JSON readers usually read a number with a fraction or an exponent as a double, which has about 16
digits. Columns of decimals, longs or JSON text can store more digits. If the nearest double has
other digits than the number, this module reads the number as a `Decimal`.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import Any

import msgspec

_EXACT_LENGTH = 16
"""Maximum length of a number that a double always stores exactly: 15 digits and a decimal point."""


def decode_exact_json(text: bytes | str) -> Any:
    """Decode JSON without changing numbers.

    An integer becomes an `int`. Any other number becomes a `float` if the float prints as the same
    number, otherwise a `Decimal`.

    Raises:
        msgspec.DecodeError: the JSON is invalid, or a number exceeds the range of doubles.
        UnicodeDecodeError: a string isn't valid UTF-8.
        RecursionError: the JSON is nested too deeply.
    """
    return _DECODER.decode(text)


def encode_exact_json(value: Any) -> bytes:
    """Encode a result of `decode_exact_json` as JSON. A `Decimal` becomes a number."""
    return _ENCODER.encode(value)


def _number(text: str) -> float | Decimal:
    number = float(text)
    if math.isinf(number):
        raise ValueError("Number out of range")  # the message of msgspec, which adds the path
    if len(text) <= _EXACT_LENGTH and "e" not in text and "E" not in text:
        return number
    try:
        exact = Decimal(text)
    except InvalidOperation:  # the exponent has more than 18 digits
        return number
    if exact == Decimal(repr(number)):
        return number
    return exact.normalize(Context(prec=len(text), Emin=MIN_EMIN, Emax=MAX_EMAX))


def exact_decoder(type: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder for `type` that reads values of type `Any` like `decode_exact_json`."""
    return msgspec.json.Decoder(type, float_hook=_number)


_DECODER = exact_decoder(Any)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
