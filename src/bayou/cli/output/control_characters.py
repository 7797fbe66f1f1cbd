"""Escaping of control characters in text from records and errors."""

from __future__ import annotations

import re

_TSV_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape_control_characters(text: str) -> str:
    """Escape control characters, except tabs and line breaks."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def escape_tsv(text: str) -> str:
    r"""Escape the control characters and backslashes of a field of a tab-separated line.

    Escapes are `\\`, `\t`, `\n` and `\r`; other control characters become `\xNN`.
    """
    return "".join(
        _TSV_ESCAPES.get(c, c if c >= " " and not "\x7f" <= c <= "\x9f" else f"\\x{ord(c):02x}")
        for c in text
    )
