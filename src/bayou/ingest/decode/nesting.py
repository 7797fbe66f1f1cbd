"""The depth of a record: one limit for all formats, far below that of any parser.

Parsers recurse. Beyond some depth they raise `RecursionError` or overflow the stack of their
process, depending on the parser, the thread and the calls above it.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["MAX_NESTING", "RecordTooDeepError", "check_json_nesting", "check_nesting"]

MAX_NESTING = 100
"""Objects and arrays inside each other, the record included. Protobuf's own limit is the same."""


class RecordTooDeepError(ValueError):
    """A record is nested more deeply than `MAX_NESTING`."""

    def __init__(self) -> None:
        super().__init__(f"nested too deeply: more than {MAX_NESTING} levels")


def check_nesting(value: Any, limit: int = MAX_NESTING) -> None:
    """Check the depth of a decoded value: dicts, lists and tuples are levels.

    Raises:
        RecordTooDeepError: it is too deep.
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
    """Check the depth of JSON text; what isn't JSON is left to its parser.

    Raises:
        RecordTooDeepError: it is too deep.
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
