"""Splits the raw elements of a JSON array, or a sequence of JSON objects, with constant memory.

Elements are split at their brackets without decoding them, so that each is decoded separately
later, like a line: an invalid number or half of a surrogate pair makes a dead letter of its record
without affecting the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

__all__ = ["LONGEST", "ArrayError", "array_elements", "joined_objects"]

LONGEST = 128 << 20
"""Maximum size of an element in bytes, which limits the memory for an unclosed bracket."""
_MAX_BRACES = 64
"""Maximum number of closing braces of an object that is split by the fast path."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)
_TO_COMMA = re.compile(rb'(?:[^",\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)
_RAW: msgspec.json.Decoder[msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw)


class ArrayError(Exception):
    """The JSON is invalid after some element."""


def array_elements(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the JSON of each element of an array.

    Args:
        chunks: the JSON of the array, starting with its `[`.

    Raises:
        ArrayError: the JSON is invalid after the yielded elements.
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
    """Yield the JSON of each object of a sequence of objects, which may span several lines.

    Raises:
        ArrayError: the JSON is invalid after the yielded objects.
    """
    text = _Text(chunks)
    while text.next_byte():
        yield text.element()


class _Text:
    """A buffer of the bytes that were read but not consumed."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._read = b""
        self._begin = 0  # bytes before it are consumed
        self._at = 0

    def next_byte(self) -> bytes:
        """Return the next byte that isn't white space; empty at the end."""
        while True:
            match = _SPACE.match(self._read, self._at)
            assert match is not None
            self._begin = self._at = match.end()
            if self._at < len(self._read) or not self._more():
                return self._read[self._at : self._at + 1]

    def expect(self, *allowed: bytes) -> bytes:
        """Consume the next byte, which must be one of `allowed`."""
        byte = self.next_byte()
        if byte not in allowed:
            expected = " or ".join(repr(a.decode()) if a else "the end" for a in allowed)
            raise ArrayError(f"found {_shown(byte)} instead of {expected}")
        self._at += 1
        return byte

    def element(self) -> bytes:
        """Consume the next element."""
        first = self.next_byte()
        if first in (b"", b",", b"]", b"}"):
            raise ArrayError(f"found {_shown(first)} instead of an element")
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
                    raise ArrayError("it ends in the middle of an element")
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
        """Consume the next object by counting braces; None if braces in strings are unbalanced.

        This fast path takes a third of the time. No object is a prefix of another object, so a
        valid object is the element.
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
    """Whether an element is JSON, so that its brackets and quotes were split correctly."""
    try:
        _RAW.decode(element)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        return True
    else:
        return True
    try:  # accepts invalid values in valid structure, whose record is refused later
        text = element.decode(errors="replace")
        json.loads(text, strict=False, parse_int=str, parse_float=str)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
