"""Decodes JSON that other programs may have written. Invalid input raises `msgspec.DecodeError`.

msgspec itself raises other errors in some cases: for JSON that is nested too deeply, for bytes that
aren't UTF-8, and for numbers that a `float_hook` rejects. This module converts these errors.
"""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class JsonDecoder(Generic[T]):
    """A JSON decoder for one type. The options are those of `msgspec.json.Decoder`."""

    def __init__(self, wire_type: type[T], **options: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(wire_type, **options)

    def decode(self, data: bytes | str) -> T:
        """Decode one value.

        Raises:
            msgspec.DecodeError: `data` isn't JSON, is nested too deeply, or doesn't have the type
                `wire_type`.
        """
        try:
            return self._decoder.decode(data)
        except RecursionError as error:
            raise msgspec.DecodeError("JSON is nested too deeply") from error
        except (UnicodeError, ArithmeticError) as error:
            raise msgspec.DecodeError(f"JSON has a value that can't be read: {error}") from error


def decode_json(data: bytes | str, wire_type: type[T]) -> T:
    """Decode one value as the type `wire_type`; see `JsonDecoder.decode` for errors."""
    return JsonDecoder(wire_type).decode(data)


_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(u[dD][89abAB][0-9a-fA-F]{2}|u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)


def without_lone_surrogates(data: bytes) -> bytes:
    """Replace escapes of lone surrogates in JSON by U+FFFD, because UTF-8 can't encode surrogates.

    Writers that truncate strings to a number of UTF-16 code units can split a surrogate pair.
    """
    return _ESCAPES.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)
