"""String constants of Spark's SQL, whose escapes the parser doesn't know."""

from __future__ import annotations

import re

__all__ = ["STAND_IN", "lift_strings"]

# A quoted name, or a string with its prefix: these are where a quote may stand in SQL.
_QUOTED = re.compile(
    r"`(?:[^`]|``)*`"
    r"|(?P<hex>\b[xX])(?:'[^']*'|\"[^\"]*\")"
    r"|(?P<raw>\b[rR])?(?:'(?P<single>(?:[^'\\]|\\.|'')*)'|\"(?P<double>(?:[^\"\\]|\\.|\"\")*)\")"
    r"|--[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
STAND_IN = re.compile("bayou string ([0-9]+)")
"""What stands in the text for a string: its number."""


def lift_strings(text: str, strings: list[str]) -> str:
    """Put numbered stand-ins for string constants, whose values go to `strings`.

    The parser's own idea of escapes isn't Spark's.
    """

    def lift(match: re.Match[str]) -> str:
        body = match["single"] if match["single"] is not None else match["double"]
        if body is None or match["hex"]:
            return match[0]
        quote = "'" if match["single"] is not None else '"'
        strings.append(body if match["raw"] else _unescape(body, quote))
        return f"'bayou string {len(strings) - 1}'"

    return _QUOTED.sub(lift, text)


_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<one>.))"
    r"|(?P<twice>''|\"\")",
    re.DOTALL,
)
_ONE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unescape(body: str, quote: str) -> str:
    def value(match: re.Match[str]) -> str:
        if code := match["short"] or match["long"]:
            return chr(int(code, 16))
        if octal := match["octal"]:
            return chr(int(octal, 8))
        if twice := match["twice"]:
            return quote if twice == quote * 2 else twice
        return _ONE.get(match["one"], match["one"])

    text = _ESCAPE.sub(value, body)
    # \uXXXX escapes may have spelled a character beyond 16 bits as two.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
