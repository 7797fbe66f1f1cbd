"""Escaping of control characters in text from records and errors, for terminals."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape_control_characters(text: str) -> str:
    """Escape control characters, except tabs and line breaks."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
