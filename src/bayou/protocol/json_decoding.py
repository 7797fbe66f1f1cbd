"""JSON that others wrote: whatever is wrong with it is a `msgspec.DecodeError`.

msgspec lets other errors through: nesting deeper than the interpreter's stack, bytes that aren't
UTF-8, and numbers that a `float_hook` refuses.
"""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar

import msgspec

__all__ = ["JsonDecoder", "decode_json", "without_lone_surrogates"]

T = TypeVar("T")


class JsonDecoder(Generic[T]):
    """A decoder of one type; takes the options of `msgspec.json.Decoder`."""

    def __init__(self, wire_type: type[T], **options: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(wire_type, **options)

    def decode(self, data: bytes | str) -> T:
        """The value.

        Raises:
            msgspec.DecodeError: not JSON, nested too deeply, or not of the type.
        """
        try:
            return self._decoder.decode(data)
        except RecursionError as error:
            raise msgspec.DecodeError("JSON is nested too deeply") from error
        except (UnicodeError, ArithmeticError) as error:
            raise msgspec.DecodeError(f"JSON has a value that can't be read: {error}") from error


def decode_json(data: bytes | str, wire_type: type[T]) -> T:
    """Decode one value; raises as `JsonDecoder.decode`."""
    return JsonDecoder(wire_type).decode(data)


_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(u[dD][89abAB][0-9a-fA-F]{2}|u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)


def without_lone_surrogates(data: bytes) -> bytes:
    """JSON text with U+FFFD for each escape of half a character, which no UTF-8 has.

    Writers that count in UTF-16 cut strings there.
    """
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], data)
