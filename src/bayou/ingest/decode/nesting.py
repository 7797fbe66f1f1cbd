"""Limits the nesting depth of a record: one limit for all formats, far below any parser's limit.

Parsers are recursive. Beyond some depth they raise `RecursionError` or overflow the stack of the
process, depending on the parser, the thread and its call stack.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["MAX_NESTING", "RecordTooDeepError", "check_json_nesting", "check_nesting"]

MAX_NESTING = 100
"""Maximum number of nested objects and arrays, including the record; the same as in Protobuf."""


class RecordTooDeepError(ValueError):
    """A record is nested more deeply than `MAX_NESTING`."""

    def __init__(self) -> None:
        super().__init__(f"nested too deeply: more than {MAX_NESTING} levels")


def check_nesting(value: Any, limit: int = MAX_NESTING) -> None:
    """Check the depth of a decoded value of dicts, lists and tuples.

    Raises:
        RecordTooDeepError: the value is nested too deeply.
    """
    level = [value]
    for _ in range(limit + 1):
        level = [outer for outer in level if isinstance(outer, dict | list | tuple)]
        if not level:
            return
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    raise RecordTooDeepError


def check_json_nesting(text: bytes, limit: int = MAX_NESTING) -> None:
    """Check the depth of JSON; invalid JSON is left to the parser.

    Raises:
        RecordTooDeepError: the JSON is nested too deeply.
    """
    if text.count(b"[") + text.count(b"{") <= limit:
        return
    try:
        value = msgspec.json.decode(text)
    except RecursionError as error:
        raise RecordTooDeepError from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    check_nesting(value, limit)
