"""Translation of Java's regular expressions to RE2, restricted to syntax that both support."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.errors import PredicateError
from bayou.kernel.arrow.compute import pc

LINE_ENDS = ("\r\n", "\n", "\r", "\x85", "\u2028", "\u2029")
"""The line terminators of Java's regular expressions, the longest first."""

# The same characters in the syntax of an RE2 character class. In Java, a dot matches none of them.
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_END = r"(?:\r\n|[" + _LINE_ENDS + r"])?\z"
_NOWHERE = r"[^\x{0}-\x{10FFFF}]"

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
    """Translate a pattern to RE2.

    Raises:
        PredicateError: RE2 doesn't support a part of the pattern, or matches this part differently
            than Java. The message names the part.
    """
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise _unsupported(pattern, pattern[position : position + 8])
        parts.append(_translated(pattern, token))
        position = token.end()
    return "".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedPattern:
    """An RE2 pattern whose capturing groups are named `g1`, `g2`, ...

    In Java, `$` matches before a line terminator at the end of the string. RE2 has no lookahead, so
    each `$` becomes a group `e1`, `e2`, ... that matches the line terminator. The caller removes
    these groups from the match.

    Attributes:
        continued: the same pattern, in which `^` never matches. It is used for a search that
            continues in the middle of a string.
        numbers: mapping from the name of a group (`g1`, `e1`, ...) to its number in the RE2
            pattern.
        groups: number of groups in the Java pattern.
        ends: mapping from each group `e1`, `e2`, ... to the numbers of the Java groups that contain
            its `$`.
        starts: whether the pattern contains `^`.
    """

    pattern: str
    continued: str
    numbers: Mapping[str, int]
    groups: int
    ends: Mapping[str, frozenset[int]]
    starts: bool


@functools.cache
def grouped_pattern(pattern: str) -> GroupedPattern:
    """Translate a Java pattern to RE2, for functions that extract groups or replace matches."""
    to_re2(pattern)
    tokens = list(_TOKEN.finditer(pattern))
    parts: list[str] = []
    names: list[str] = []
    open_groups: list[int | None] = []
    group_starts: list[int] = []
    ends: dict[str, frozenset[int]] = {}
    groups = 0
    for index, token in enumerate(tokens):
        part = _translated(pattern, token)
        if token[0] == "(" and token.lastgroup == "group":
            groups += 1
            names.append(f"g{groups}")
            part = f"(?P<g{groups}>"
            open_groups.append(groups)
            group_starts.append(index)
        elif token[0] == "(?:":
            open_groups.append(None)
            group_starts.append(index)
        elif token[0] == ")" and token.lastgroup == "group" and open_groups:
            open_groups.pop()
            start = group_starts.pop()
            if _is_repetition(tokens, index + 1) and _matches_empty("".join((*parts[start:], ")"))):
                # Java and RE2 match the last iteration of such a repetition differently.
                end = tokens[index + 1].end()
                raise _unsupported(pattern, pattern[tokens[start].start() : end])
        elif token.lastgroup == "end":
            if not _is_last(tokens, index):
                raise _unsupported(pattern, pattern[token.start() :])
            name = f"e{len(ends) + 1}"
            names.append(name)
            ends[name] = frozenset(number for number in open_groups if number is not None)
            part = rf"(?:(?P<{name}>\r\n|[{_LINE_ENDS}]|)\z)"
        parts.append(part)
    translated = "".join(parts)
    starts = any(token.lastgroup == "start" for token in tokens)
    continued = [
        _NOWHERE if token.lastgroup == "start" else part
        for token, part in zip(tokens, parts, strict=True)
    ]
    try:
        pc.match_substring_regex(pa.array([""]), translated)
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"{pattern!r} isn't a valid regular expression: {error}. Correct the expression.",
            expression=pattern,
        ) from error
    return GroupedPattern(
        pattern=translated,
        continued="".join(continued),
        numbers={name: number for number, name in enumerate(names, 1)},
        groups=groups,
        ends=ends,
        starts=starts,
    )


def _is_repetition(tokens: Sequence[re.Match[str]], index: int) -> bool:
    """Whether the token at an index is a repetition that allows more than one iteration."""
    if index >= len(tokens) or tokens[index].lastgroup != "repeat":
        return False
    return tokens[index][0] not in {"?", "??", "{1}", "{0,1}"}


def _matches_empty(pattern: str) -> bool:
    try:
        matches: bool = pc.match_substring_regex(pa.scalar(""), pattern).as_py()
    except pa.ArrowInvalid:
        return False  # the complete pattern is invalid too
    return matches


def _is_last(tokens: Sequence[re.Match[str]], index: int) -> bool:
    """Whether every match of the pattern ends with `tokens[index]`."""
    depth = 0
    skipping = False  # inside another alternative of a group
    for i in range(index + 1, len(tokens)):
        token = tokens[i]
        kind, symbol = token.lastgroup, token[0]
        if kind == "group" and symbol == ")" and depth == 0:
            following = tokens[i + 1] if i + 1 < len(tokens) else None
            if following is not None and following.lastgroup == "repeat":
                return False
            skipping = False
        elif kind == "group" and symbol == "|" and depth == 0:
            skipping = True
        elif not skipping:
            return False
        elif kind == "group":
            depth += {")": -1, "|": 0}.get(symbol, 1)
    return True


def like_to_re2(pattern: str, escape: str) -> str:
    """Translate a LIKE pattern to an anchored RE2 pattern."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None or following not in ("%", "_", escape):
                raise PredicateError(
                    f"The pattern {pattern!r}: the escape character {escape!r} must be followed "
                    f"by %, _ or another {escape}.",
                    expression=pattern,
                )
            parts.append(_quoted(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or _quoted(character))
    return rf"(?s)\A{''.join(parts)}\z"


def string_without_wildcards(pattern: str, escape: str) -> str | None:
    """Return the only string that a valid LIKE pattern matches; None if it has wildcards."""
    string = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:  # the escape character may be a wildcard
            string += next(characters)
        elif character in "%_":
            return None
        else:
            string += character
    return string


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
        f"The regular expression {pattern!r}: {part!r} isn't supported. Use characters, classes, "
        "groups, repetition, |, ^, $, \\d and \\w. The page "
        "Expressions of the documentation describes them.",
        expression=part,
    )
