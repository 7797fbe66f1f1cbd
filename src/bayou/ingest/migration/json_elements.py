"""Splits a JSON array, or a sequence of JSON objects, into its elements, with constant memory.

The end of an element is found by counting brackets. An element is returned as bytes, which the
caller decodes. If an element has an invalid value, such as an unpaired surrogate, only this element
becomes a dead letter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

LONGEST = 128 << 20
"""Maximum size of an element in bytes. It limits the memory that an unclosed bracket needs."""
_MAX_BRACES = 64
"""Maximum number of closing braces that `_Text._object` looks for."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)
_TO_COMMA = re.compile(rb'(?:[^",\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)
_RAW: msgspec.json.Decoder[msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw)


class ArrayError(Exception):
    """Invalid JSON in an array or in a sequence of objects.

    The elements before the invalid JSON have already been yielded.
    """


def array_elements(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the JSON of each element of an array. The chunks must begin with the array's `[`.

    Raises:
        ArrayError: the JSON after the yielded elements is invalid.
    """
    text = _Text(chunks)
    text.expect(b"[")
    if text.next_byte() == b"]":
        text.expect(b"]")
    else:
        separator = b","
        while separator == b",":
            yield text.element()
            separator = text.expect(b",", b"]")
    text.expect(b"")


def joined_objects(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the JSON of each object of a sequence. An object may span several lines.

    Raises:
        ArrayError: the JSON after the yielded objects is invalid.
    """
    text = _Text(chunks)
    while text.next_byte():
        yield text.element()


class _Text:
    """Reads JSON elements from chunks of bytes, and buffers the bytes that aren't consumed yet."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._read = b""
        self._begin = 0  # bytes before it are consumed
        self._at = 0

    def next_byte(self) -> bytes:
        """Skip white space and return the next byte without consuming it; `b""` at the end."""
        while True:
            match = _SPACE.match(self._read, self._at)
            assert match is not None
            self._begin = self._at = match.end()
            if self._at < len(self._read) or not self._more():
                return self._read[self._at : self._at + 1]

    def expect(self, *allowed: bytes) -> bytes:
        """Skip white space, then consume and return the next byte; `b""` at the end.

        Args:
            allowed: the bytes that may follow. `b""` allows the end.

        Raises:
            ArrayError: the byte isn't one of `allowed`.
        """
        byte = self.next_byte()
        if byte not in allowed:
            expected = " or ".join(repr(a.decode()) if a else "the end" for a in allowed)
            raise ArrayError(f"found {_shown(byte)} instead of {expected}")
        self._at += 1
        return byte

    def element(self) -> bytes:
        first = self.next_byte()
        if first in (b"", b",", b"]", b"}"):
            raise ArrayError(f"an element of the array is expected, but there is {_shown(first)}")
        if first == b"{" and (fast := self._object()) is not None:
            return fast
        nested = first in (b"[", b"{")
        pattern, depth = (_TO_BRACKET if nested else _TO_COMMA), 0
        while True:
            match = pattern.match(self._read, self._at)
            assert match is not None
            self._at = match.end()
            byte = self._read[self._at : self._at + 1]
            if byte in (b"", b'"'):  # a quote is the start of an incomplete string
                if not self._more():
                    raise ArrayError("the file ends in the middle of an element")
                continue
            if not nested:
                break
            self._at += 1
            depth += 1 if byte in (b"[", b"{") else -1
            if depth == 0:
                break
        element = self._read[self._begin : self._at].rstrip()
        if not _is_one(element):
            raise ArrayError(f"an element isn't JSON: {element[:60].decode(errors='replace')!r}")
        return element

    def _object(self) -> bytes | None:
        """Consume and return the next object, whose end is found by counting braces.

        This is three times as fast as the search in `element`, but the count is wrong if a string
        contains braces. Therefore the bytes up to this end are decoded. They are the whole object
        if they are valid JSON. Strings and numbers aren't validated.

        The result is None, and nothing is consumed, in these cases: the count was wrong, the object
        has more than `_MAX_BRACES` closing braces, or the buffer has only a part of the object.
        """
        depth, end = 1, self._at + 1
        for _ in range(_MAX_BRACES):
            close = self._read.find(b"}", end)
            if close < 0:
                return None
            depth += self._read.count(b"{", end, close) - 1
            end = close + 1
            if depth == 0:
                break
        element = self._read[self._at : end]
        try:
            _RAW.decode(element)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        self._at = end
        return element

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        if len(self._read) - self._begin > LONGEST:
            raise ArrayError(f"an element has more than {LONGEST >> 20} MB, or is never closed")
        self._read = self._read[self._begin :] + chunk
        self._at -= self._begin
        self._begin = 0
        return True


def _shown(byte: bytes) -> str:
    return repr(byte.decode("latin-1")) if byte else "the end"


def _is_one(element: bytes) -> bool:
    """Whether bytes are exactly one JSON element. Its strings and numbers aren't validated."""
    try:
        _RAW.decode(element)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        return True
    else:
        return True
    try:  # accepts invalid values; the record is refused later
        text = element.decode(errors="replace")
        json.loads(text, strict=False, parse_int=str, parse_float=str)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
