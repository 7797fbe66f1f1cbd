"""Regular expressions of Java, where RE2 has the same, rewritten where it says it otherwise."""

from __future__ import annotations

import functools
import re

from bayou.errors import PredicateError

__all__ = ["like_to_re2", "to_python", "to_re2"]

# Java's line terminators; its dot stands for any other character.
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_END = r"(?:\r\n|[" + _LINE_ENDS + r"])?\z"
_PYTHON_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_PYTHON_END = r"(?=(?:\r\n|[" + _PYTHON_LINE_ENDS + r"])?\Z)"

_TOKEN = re.compile(
    r"(?P<class>\[\^?\]?(?:[^\[\]\\&]|&(?!&)|\\.)*\])"
    r"|(?P<escape>\\(?:[dDwW]|[^A-Za-z0-9]|[tnrf]))"
    r"|(?P<repeat>[*+?]\??(?![*+?])|\{[0-9]{1,3}(?:,[0-9]{0,3})?\}\??(?![*+?]))"
    r"|(?P<group>\((?:\?:)?(?!\?)|\)|\|)"
    r"|(?P<dot>\.)|(?P<end>\$)|(?P<start>\^)"
    r"|(?P<plain>[^\\\[\](){}*+?.$^|])",
    re.DOTALL,
)
_CLASS_PART = re.compile(r"\\(?:[dDwW]|[^A-Za-z0-9]|[tnrf])|[^\\]", re.DOTALL)


def to_re2(pattern: str) -> str:
    """The pattern for RE2.

    Raises:
        PredicateError: a part that RE2 hasn't, or understands otherwise; names it.
    """
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise _unsupported(pattern, pattern[at : at + 8])
        parts.append(_translated(pattern, token))
        at = token.end()
    return "".join(parts)


@functools.cache
def to_python(pattern: str) -> re.Pattern[str]:
    """The pattern for Python's `re`, which has the same matches and groups where there are several.

    Raises:
        PredicateError: a part that the three don't have alike; names it.
    """
    to_re2(pattern)
    parts: list[str] = []
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "dot":
                parts.append(f"[^{_PYTHON_LINE_ENDS}]")
            case "end":
                parts.append(_PYTHON_END)
            case "plain":
                parts.append(re.escape(token[0]))
            case _:
                parts.append(token[0])
    try:
        return re.compile("".join(parts), re.ASCII)
    except re.error as error:
        raise PredicateError(
            f"{pattern!r} isn't a regular expression: {error}.", expression=pattern
        ) from error


def like_to_re2(pattern: str, escape: str) -> str:
    """The regular expression, anchored, of a pattern for LIKE.

    Raises:
        PredicateError: the escape character stands before nothing it could escape.
    """
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None or following not in ("%", "_", escape):
                raise PredicateError(
                    f"In the pattern {pattern!r} the escape character {escape!r} must stand "
                    "before %, _ or itself.",
                    expression=pattern,
                )
            parts.append(_quoted(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or _quoted(character))
    return rf"(?s)\A{''.join(parts)}\z"


def _translated(pattern: str, token: re.Match[str]) -> str:
    match token.lastgroup:
        case "dot":
            return f"[^{_LINE_ENDS}]"
        case "end":
            return _END
        case "start":
            return r"\A"
        case "class":
            body = token[0][1:-1].removeprefix("^")
            if body.startswith("]") or _CLASS_PART.sub("", body):
                raise _unsupported(pattern, token[0])
            return token[0]
        case "plain":
            return _quoted(token[0])
        case _:
            return token[0]


def _quoted(character: str) -> str:
    if character.isalnum() or not character.isascii() or character == "_":
        return character
    return rf"\x{{{ord(character):x}}}"


def _unsupported(pattern: str, part: str) -> PredicateError:
    return PredicateError(
        f"The regular expression {pattern!r} has {part!r}, which isn't supported: characters, "
        "classes, groups, repetition, |, ^, $, \\d and \\w are. See docs/reference/expressions.md.",
        expression=part,
    )
