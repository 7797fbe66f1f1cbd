"""Functions that look for parts of texts, by position or by regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    constant_of,
    parameters,
    rowwise,
)
from bayou.kernel.expressions.functions.regular_expressions import (
    LINE_ENDS,
    GroupedPattern,
    grouped_pattern,
    to_re2,
)
from bayou.kernel.expressions.model import Expression, call
from bayou.protocol.schema import INTEGER, STRING, ArrayType

__all__ = ["FUNCTIONS"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array


def _of_constants(
    bind: Callable[[Call], Binding], check: Callable[[Call], None]
) -> Callable[[Call], Binding]:
    def checked(call: Call) -> Binding:
        binding = bind(call)
        check(call)
        return binding

    return checked


def _pattern(call: Call) -> GroupedPattern:
    text = constant_of(call, 1)
    if not isinstance(text, str):
        raise call.refuse("the pattern must be a constant text")
    return grouped_pattern(text)


def _matches_empty(pattern: GroupedPattern) -> bool:
    found: bool = pc.match_substring_regex(pa.scalar(""), pattern.pattern).as_py()
    return found


def _position(values: Sequence[Datum], result: Any) -> Datum:
    def find(part: str, text: str, start: int = 1) -> int:
        return 0 if start < 1 else text.find(part, start - 1) + 1 if part else 1

    return rowwise(find, result, *values)


def _starting(call: Call) -> None:
    if len(call.types) == 3 and not isinstance(constant_of(call, 2), int):
        raise call.refuse("the position must be a constant integer")


def _in_text(text: Expression, part: Expression) -> Expression:
    return call("locate", part, text)


def _beside(values: Sequence[Datum], result: Any) -> Datum:
    def cut(text: str, delimiter: str, count: int) -> str:
        if not delimiter or count == 0:
            return ""
        at = -1 if count > 0 else len(text) - len(delimiter) + 1
        for _ in range(abs(count)):
            if count > 0:
                at = text.find(delimiter, at + 1)
            else:
                at = text.rfind(delimiter, 0, at - 1 + len(delimiter)) if at > 0 else -1
            if at < 0:
                return text
        return text[:at] if count > 0 else text[at + len(delimiter) :]

    return rowwise(cut, result, *values)


def _splitting(call: Call) -> None:
    pattern = _pattern(call)
    if _matches_empty(pattern):
        raise call.refuse("the pattern must not match the empty text")
    if pattern.starts or pattern.ends:
        raise call.refuse("the pattern must not have ^ or $")
    if len(call.types) == 3 and not isinstance(constant_of(call, 2), int):
        raise call.refuse("the limit must be a constant integer")


def _split(values: Sequence[Datum], result: Any) -> Datum:
    pattern = to_re2(values[1].as_py())
    limit = values[2].as_py() if len(values) == 3 else -1
    if limit == 1:  # Arrow takes no splits at all for any number of them
        pattern = _NOTHING
    most = limit - 1 if limit > 1 else None
    found = pc.split_pattern_regex(values[0], f"(?:{pattern})", max_splits=most)
    return found if found.type == result else pc.cast(found, result)


def _extracting(call: Call) -> None:
    pattern = _pattern(call)
    group = constant_of(call, 2) if len(call.types) == 3 else 1
    if not isinstance(group, int) or not 0 <= group <= pattern.groups:
        raise call.refuse(f"the pattern has {pattern.groups} groups, and none is {group}")


def _extract(values: Sequence[Datum], result: Any) -> Datum:
    texts = values[0]
    pattern = grouped_pattern(values[1].as_py())
    group = values[2].as_py() if len(values) == 3 else 1
    matches = pc.extract_regex(texts, f"(?P<g0>{pattern.pattern})")
    found = pc.struct_field(matches, [f"g{group}"])
    for name, around in pattern.ends.items():
        if group == 0 or group in around:
            found = _without_end(found, pc.struct_field(matches, [name]))
    found = pc.if_else(pc.is_valid(texts), pc.coalesce(found, ""), pa.scalar(None, pa.string()))
    return found if found.type == result else pc.cast(found, result)


def _without_end(texts: Any, ends: Any) -> Any:
    """Texts without the line terminator that a `$` took."""
    for end in LINE_ENDS:
        taken = pc.equal(ends, end)
        if pc.any(taken).as_py():
            cut = pc.replace_substring_regex(texts, rf"{_quoted(end)}\z", "")
            texts = pc.if_else(pc.coalesce(taken, False), cut, texts)
    return texts


def _quoted(end: str) -> str:
    return "".join(rf"\x{{{ord(character):x}}}" for character in end)


def _replacing(call: Call) -> None:
    pattern = _pattern(call)
    text = constant_of(call, 2)
    if not isinstance(text, str):
        raise call.refuse("the replacement must be a constant text")
    parts = _replacement(call, pattern, text)
    if _matches_empty(pattern):
        source = str(constant_of(call, 1))
        anchored = (source[:1] == "^" or source[-1:] == "$") and "|" not in source
        if not anchored:
            # Java finds it also between the halves of a character.
            raise call.refuse("the pattern must not match the empty text")
        if pattern.ends and parts:
            # Java finds the empty text once more, behind the match at the end.
            raise call.refuse("a pattern with $ that matches the empty text needs '' beside it")
    used = {part for part in parts if isinstance(part, int)}
    for around in pattern.ends.values():
        if shown := used & (around | {0}):
            raise call.refuse(f"the group {min(shown)} of the replacement has a $ in it")
    if max((pattern.numbers[f"g{number}"] for number in used if number), default=0) > _MOST:
        raise call.refuse(f"the replacement has a group behind the {_MOST}th")
    if len(pattern.numbers) > _MOST and pattern.ends:
        raise call.refuse(f"a pattern with $ must have fewer than {_MOST} groups")


_MOST = 9
"""RE2's replacements name groups by one digit."""
_NOTHING = r"[^\x{0}-\x{10FFFF}]"


def _replacement(call: Call | None, pattern: GroupedPattern, text: str) -> list[str | int]:
    """The parts of a replacement: texts, and numbers of groups."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        token = _REPLACEMENT.match(text, at)
        if token is None:
            assert call is not None  # checked before
            raise call.refuse(
                f"the replacement {text!r} has {text[at : at + 4]!r}: $ stands "
                "before a group's number, \\ before a character"
            )
        at = token.end()
        if token["group"] is None:
            parts.append(token["escaped"] or token["plain"])
            continue
        number = token["group"]
        # As many digits belong to it as make up the number of a group.
        while len(number) > 1 and int(number) > pattern.groups:
            number, at = number[:-1], at - 1
        if int(number) > pattern.groups:
            assert call is not None  # checked before
            raise call.refuse(f"the pattern has {pattern.groups} groups, and none is {number}")
        parts.append(int(number))
    return parts


def _replace(values: Sequence[Datum], result: Any) -> Datum:
    texts = values[0]
    pattern = grouped_pattern(values[1].as_py())
    parts = _replacement(None, pattern, values[2].as_py())
    written = "".join(
        part.replace("\\", "\\\\")
        if isinstance(part, str)
        else rf"\{pattern.numbers[f'g{part}'] if part else 0}"
        for part in parts
    )
    restored = written + "".join(rf"\{pattern.numbers[name]}" for name in pattern.ends)
    found = pc.replace_substring_regex(texts, pattern.pattern, restored)
    if pattern.ends:
        found = _with_matches_of_ends(texts, found, pattern, (written, restored))
    return found if found.type == result else pc.cast(found, result)


def _with_matches_of_ends(
    texts: Any, found: Any, pattern: GroupedPattern, replacements: tuple[str, str]
) -> Any:
    """Replace also in a line terminator that a `$` took; for Java it is still to be searched."""
    written, restored = replacements
    cut = pc.replace_substring_regex(texts, pattern.pattern, written)
    taken = pc.coalesce(pc.not_equal(pc.binary_length(cut), pc.binary_length(found)), False)
    if not pc.any(pa.array([taken.as_py()]) if isinstance(taken, pa.Scalar) else taken).as_py():
        return found
    for end in LINE_ENDS:
        ended = pc.and_(taken, pc.equal(found, pc.binary_join_element_wise(cut, end, "")))
        rest = pc.replace_substring_regex(pa.scalar(end), pattern.continued, restored)
        found = pc.if_else(ended, pc.binary_join_element_wise(cut, rest, ""), found)
        taken = pc.and_not(taken, ended)
    return found


_REPLACEMENT = re.compile(r"\$(?P<group>[0-9]+)|\\(?P<escaped>.)|(?P<plain>[^$\\]+)", re.DOTALL)

FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="locate",
        constants=(2,),
        signature="locate(part, s[, start]), position(part, s[, start]), position(part IN s)",
        summary="Where a part begins, from 1, looked for from a constant position; 0 for nowhere.",
        bind=_of_constants(
            parameters(STRING, STRING, INTEGER, result=INTEGER, optional=1), _starting
        ),
        evaluate=_position,
        aliases=("position",),
    ),
    Macro(
        name="instr",
        signature="instr(s, part)",
        summary="Where a part begins, from 1; 0 for nowhere.",
        count=(2, 2),
        expand=_in_text,
    ),
    Function(
        name="substring_index",
        signature="substring_index(s, delimiter, n)",
        summary="What stands before the n-th delimiter, or behind the n-th from the end if n < 0.",
        bind=parameters(STRING, STRING, INTEGER, result=STRING),
        evaluate=_beside,
    ),
    Function(
        name="split",
        constants=(1, 2),
        signature="split(s, pattern[, limit])",
        summary="The parts between matches of a constant pattern (see `rlike`) without ^ and $.",
        bind=_of_constants(
            parameters(
                STRING,
                STRING,
                INTEGER,
                result=ArrayType(element_type=STRING, contains_null=False),
                optional=1,
            ),
            _splitting,
        ),
        evaluate=_split,
    ),
    Function(
        name="regexp_extract",
        constants=(1, 2),
        signature="regexp_extract(s, pattern[, group])",
        summary="A group, 1 unless said, of a constant pattern's first match; '' for none.",
        bind=_of_constants(
            parameters(STRING, STRING, INTEGER, result=STRING, optional=1), _extracting
        ),
        evaluate=_extract,
    ),
    Function(
        name="regexp_replace",
        constants=(1, 2),
        signature="regexp_replace(s, pattern, replacement)",
        summary="Matches of a constant pattern replaced; `$1` is a group.",
        bind=_of_constants(parameters(STRING, STRING, STRING, result=STRING), _replacing),
        evaluate=_replace,
    ),
)
