"""Escaping of control characters in text from records and errors, for terminals."""

from __future__ import annotations

import re

__all__ = ["escape_control_characters"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape_control_characters(text: str) -> str:
    """The text with control characters escaped, except tabs and line breaks."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
