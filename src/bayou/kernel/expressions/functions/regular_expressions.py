"""Regular expressions of Java, where RE2 has the same, rewritten where it says it otherwise."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import PredicateError

__all__ = ["LINE_ENDS", "GroupedPattern", "grouped_pattern", "like_to_re2", "to_re2"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

LINE_ENDS = ("\r\n", "\n", "\r", "\x85", "\u2028", "\u2029")
"""Java's line terminators, the longest first."""

# Java's line terminators; its dot stands for any other character.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedPattern:
    """A pattern for RE2 whose groups have names: `g1`, `g2`, ...

    RE2 can't look ahead, so a `$` takes the line terminator at the end of a text into a group of
    its own, `e1`, `e2`, ...; whoever uses the match leaves that out.

    Attributes:
        pattern: for RE2.
        continued: likewise, for a text that isn't the first part of its row: `^` matches nowhere.
        numbers: the number that RE2 gives to each group.
        groups: how many groups the pattern has.
        ends: for each `$` the groups that are around it.
        starts: whether there is a `^`.
    """

    pattern: str
    continued: str
    numbers: Mapping[str, int]
    groups: int
    ends: Mapping[str, frozenset[int]]
    starts: bool


@functools.cache
def grouped_pattern(pattern: str) -> GroupedPattern:
    """A pattern whose matches and groups are needed.

    Raises:
        PredicateError: a part that RE2 hasn't, or understands otherwise; names it.
    """
    to_re2(pattern)
    tokens = list(_TOKEN.finditer(pattern))
    parts: list[str] = []
    names: list[str] = []
    open_groups: list[int | None] = []
    beginnings: list[int] = []
    ends: dict[str, frozenset[int]] = {}
    groups = 0
    for at, token in enumerate(tokens):
        part = _translated(pattern, token)
        if token[0] == "(" and token.lastgroup == "group":
            groups += 1
            names.append(f"g{groups}")
            part = f"(?P<g{groups}>"
            open_groups.append(groups)
            beginnings.append(at)
        elif token[0] == "(?:":
            open_groups.append(None)
            beginnings.append(at)
        elif token[0] == ")" and token.lastgroup == "group" and open_groups:
            open_groups.pop()
            begin = beginnings.pop()
            if _repeats(tokens, at + 1) and _may_be_empty("".join((*parts[begin:], ")"))):
                # Engines disagree on the last round of such a repetition.
                raise _unsupported(pattern, pattern[tokens[begin].start() : tokens[at + 1].end()])
        elif token.lastgroup == "end":
            if not _is_last(tokens, at):
                raise _unsupported(pattern, pattern[token.start() :])
            name = f"e{len(ends) + 1}"
            names.append(name)
            ends[name] = frozenset(number for number in open_groups if number is not None)
            part = rf"(?:(?P<{name}>\r\n|[{_LINE_ENDS}]|)\z)"
        parts.append(part)
    translated = "".join(parts)
    starts = any(token.lastgroup == "start" for token in tokens)
    never = [
        _NOWHERE if token.lastgroup == "start" else part
        for token, part in zip(tokens, parts, strict=True)
    ]
    try:
        pc.match_substring_regex(pa.array([""]), translated)
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"{pattern!r} isn't a regular expression: {error}.", expression=pattern
        ) from error
    return GroupedPattern(
        pattern=translated,
        continued="".join(never),
        numbers={name: number for number, name in enumerate(names, 1)},
        groups=groups,
        ends=ends,
        starts=starts,
    )


def _repeats(tokens: Sequence[re.Match[str]], at: int) -> bool:
    """Whether a repetition of more than one stands there."""
    if at >= len(tokens) or tokens[at].lastgroup != "repeat":
        return False
    return tokens[at][0] not in {"?", "??", "{1}", "{0,1}"}


def _may_be_empty(pattern: str) -> bool:
    try:
        found: bool = pc.match_substring_regex(pa.scalar(""), pattern).as_py()
    except pa.ArrowInvalid:
        return False  # the whole pattern is an error, too
    return found


def _is_last(tokens: Sequence[re.Match[str]], at: int) -> bool:
    """Whether nothing of a pattern has to match behind a token, and no repetition is around it."""
    depth = 0
    skipping = False  # the other branches of an alternative
    for position in range(at + 1, len(tokens)):
        token = tokens[position]
        kind, text = token.lastgroup, token[0]
        if kind == "group" and text == ")" and depth == 0:
            following = tokens[position + 1] if position + 1 < len(tokens) else None
            if following is not None and following.lastgroup == "repeat":
                return False
            skipping = False
        elif kind == "group" and text == "|" and depth == 0:
            skipping = True
        elif not skipping:
            return False
        elif kind == "group":
            depth += {")": -1, "|": 0}.get(text, 1)
    return True


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
