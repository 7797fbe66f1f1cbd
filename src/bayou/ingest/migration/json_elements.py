"""The elements of a JSON array, or objects one after another, as they stand in a file.

However long it is, memory is flat. They are cut at their brackets and not parsed, so that each is
judged by itself afterwards, as a line of a file is: a number that no column takes, or half of a
surrogate pair, makes a dead letter of its record and nothing of the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

__all__ = ["LONGEST", "ArrayError", "array_elements", "joined_objects"]

LONGEST = 128 << 20
"""Bytes of an element, at most: where a bracket is never closed so much is held in memory."""
_MOST_BRACES = 64
"""An object is looked for by its braces up to so many that close; further ones cost more."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)
_TO_COMMA = re.compile(rb'(?:[^",\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)
_RAW: msgspec.json.Decoder[msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw)


class ArrayError(Exception):
    """The text is no array, from some element on."""


def array_elements(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The text of each element.

    Args:
        chunks: the array's text, from its `[` on.

    Raises:
        ArrayError: it can't be read on behind the elements that came.
    """
    text = _Text(chunks)
    text.expect(b"[")
    if text.next_byte() == b"]":
        text.expect(b"]")
    else:
        found = b","
        while found == b",":
            yield text.element()
            found = text.expect(b",", b"]")
    text.expect(b"")


def joined_objects(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The text of each object of some that follow one another, over several lines each.

    Raises:
        ArrayError: they can't be read on behind those that came.
    """
    text = _Text(chunks)
    while text.next_byte():
        yield text.element()


class _Text:
    """What was read and isn't used yet."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._read = b""
        self._begin = 0  # what stands before isn't needed any more
        self._at = 0

    def next_byte(self) -> bytes:
        """The next one that is no white space; none at the end."""
        while True:
            match = _SPACE.match(self._read, self._at)
            assert match is not None
            self._begin = self._at = match.end()
            if self._at < len(self._read) or not self._more():
                return self._read[self._at : self._at + 1]

    def expect(self, *wanted: bytes) -> bytes:
        """Go behind the next one, which has to be one of these."""
        found = self.next_byte()
        if found not in wanted:
            meant = " or ".join(repr(w.decode()) if w else "the end" for w in wanted)
            raise ArrayError(f"{_shown(found)} stands where {meant} should")
        self._at += 1
        return found

    def element(self) -> bytes:
        """Go behind the next element."""
        first = self.next_byte()
        if first in (b"", b",", b"]", b"}"):
            raise ArrayError(f"{_shown(first)} stands where an element should")
        if first == b"{" and (quick := self._object()) is not None:
            return quick
        nested = first in (b"[", b"{")
        pattern, depth = (_TO_BRACKET if nested else _TO_COMMA), 0
        while True:
            match = pattern.match(self._read, self._at)
            assert match is not None
            self._at = match.end()
            found = self._read[self._at : self._at + 1]
            if found in (b"", b'"'):  # the latter of a text that isn't whole yet
                if not self._more():
                    raise ArrayError("it ends in the middle of an element")
                continue
            if not nested:
                break
            self._at += 1
            depth += 1 if found in (b"[", b"{") else -1
            if depth == 0:
                break
        element = self._read[self._begin : self._at].rstrip()
        if not _is_one(element):
            raise ArrayError(f"an element isn't JSON: {element[:60].decode(errors='replace')!r}")
        return element

    def _object(self) -> bytes | None:
        """The next element by its braces, those in texts too; None where they mislead.

        A third of the time. No object is the beginning of another, so what is one is the element.
        """
        depth, end = 1, self._at + 1
        for _ in range(_MOST_BRACES):
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
    """Whether brackets and quotes have told rightly where it ends."""
    try:
        _RAW.decode(element)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        return True
    else:
        return True
    try:  # what this one takes besides has the shape of JSON, and is judged with the others
        text = element.decode(errors="replace")
        json.loads(text, strict=False, parse_int=str, parse_float=str)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
