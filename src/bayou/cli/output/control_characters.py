"""Text of records, errors and other machines, as a terminal may have it."""

from __future__ import annotations

import re

__all__ = ["harmless"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """With what a terminal would obey shown as it is written, but for tabs and ends of lines."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
