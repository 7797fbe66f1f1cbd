"""Limits the nesting depth of records of all formats.

Parsers are recursive. If a value is nested too deeply, a parser raises `RecursionError` or crashes
the process. The depth at which this happens depends on the parser and the thread. The limit of this
module is far lower.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_NESTING = 100
"""Maximum depth of nested objects and arrays, including the record. Protobuf has the same limit."""


class RecordTooDeepError(ValueError):
    """A record is nested more deeply than `MAX_NESTING`."""

    def __init__(self) -> None:
        super().__init__(f"nested too deeply: more than {MAX_NESTING} levels")


def check_nesting(value: Any, limit: int = MAX_NESTING) -> None:
    """Raise `RecordTooDeepError` if a value of dicts, lists and tuples is nested too deeply."""
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
    """Raise `RecordTooDeepError` if JSON is nested too deeply.

    Other problems of the JSON raise no error.
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
