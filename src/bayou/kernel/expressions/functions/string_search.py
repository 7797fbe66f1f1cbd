"""Functions that search strings, by substring or by regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    constant_of,
    fixed_parameters,
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


def _checked(
    bind: Callable[[Call], Binding], check: Callable[[Call], None]
) -> Callable[[Call], Binding]:
    def checked_bind(call: Call) -> Binding:
        binding = bind(call)
        check(call)
        return binding

    return checked_bind


def _pattern(call: Call) -> GroupedPattern:
    pattern = constant_of(call, 1)
    if not isinstance(pattern, str):
        raise call.error("the pattern must be a constant string")
    return grouped_pattern(pattern)


def _matches_empty(pattern: GroupedPattern) -> bool:
    matches: bool = pc.match_substring_regex(pa.scalar(""), pattern.pattern).as_py()
    return matches


def _find_in_set(string: str, comma_separated: str) -> int:
    parts = comma_separated.split(",")
    return 0 if "," in string or string not in parts else parts.index(string) + 1


def _position(values: Sequence[Datum], result: Any) -> Datum:
    def find(part: str, string: str, start: int = 1) -> int:
        return 0 if start < 1 else string.find(part, start - 1) + 1 if part else 1

    return rowwise(find, result, *values)


def _check_position(call: Call) -> None:
    if len(call.types) == 3 and not isinstance(constant_of(call, 2), int):
        raise call.error("the position must be a constant integer")


def _instr(string: Expression, part: Expression) -> Expression:
    return call("locate", part, string)


def _substring_index(values: Sequence[Datum], result: Any) -> Datum:
    def substring(string: str, delimiter: str, count: int) -> str:
        if not delimiter or count == 0:
            return ""
        index = -1 if count > 0 else len(string) - len(delimiter) + 1
        for _ in range(abs(count)):
            if count > 0:
                index = string.find(delimiter, index + 1)
            else:
                end = index - 1 + len(delimiter)
                index = string.rfind(delimiter, 0, end) if index > 0 else -1
            if index < 0:
                return string
        return string[:index] if count > 0 else string[index + len(delimiter) :]

    return rowwise(substring, result, *values)


def _check_split(call: Call) -> None:
    pattern = _pattern(call)
    if _matches_empty(pattern):
        raise call.error("the pattern must not match the empty string")
    if pattern.starts or pattern.ends:
        raise call.error("the pattern must not contain ^ or $")
    if len(call.types) == 3 and not isinstance(constant_of(call, 2), int):
        raise call.error("the limit must be a constant integer")


def _split(values: Sequence[Datum], result: Any) -> Datum:
    pattern = to_re2(values[1].as_py())
    limit = values[2].as_py() if len(values) == 3 else -1
    if limit == 1:  # in Arrow, max_splits=0 means no limit
        pattern = _NOTHING
    max_splits = limit - 1 if limit > 1 else None
    parts = pc.split_pattern_regex(values[0], f"(?:{pattern})", max_splits=max_splits)
    return parts if parts.type == result else pc.cast(parts, result)


def _check_extract(call: Call) -> None:
    pattern = _pattern(call)
    group = constant_of(call, 2) if len(call.types) == 3 else 1
    if not isinstance(group, int) or not 0 <= group <= pattern.groups:
        raise call.error(f"group {group} doesn't exist; the pattern has {pattern.groups} groups")


def _extract(values: Sequence[Datum], result: Any) -> Datum:
    strings = values[0]
    pattern = grouped_pattern(values[1].as_py())
    group = values[2].as_py() if len(values) == 3 else 1
    matches = pc.extract_regex(strings, f"(?P<g0>{pattern.pattern})")
    extracted = pc.struct_field(matches, [f"g{group}"])
    for name, containing_groups in pattern.ends.items():
        if group == 0 or group in containing_groups:
            extracted = _without_end(extracted, pc.struct_field(matches, [name]))
    extracted = pc.if_else(
        pc.is_valid(strings), pc.coalesce(extracted, ""), pa.scalar(None, pa.string())
    )
    return extracted if extracted.type == result else pc.cast(extracted, result)


def _without_end(strings: Any, ends: Any) -> Any:
    for end in LINE_ENDS:
        matched = pc.equal(ends, end)
        if pc.any(matched).as_py():
            without_end = pc.replace_substring_regex(strings, rf"{_quoted(end)}\z", "")
            strings = pc.if_else(pc.coalesce(matched, False), without_end, strings)
    return strings


def _quoted(end: str) -> str:
    return "".join(rf"\x{{{ord(character):x}}}" for character in end)


def _check_replace(call: Call) -> None:
    pattern = _pattern(call)
    replacement = constant_of(call, 2)
    if not isinstance(replacement, str):
        raise call.error("the replacement must be a constant string")
    parts = _parse_replacement(call, pattern, replacement)
    if _matches_empty(pattern):
        source = str(constant_of(call, 1))
        anchored = (source[:1] == "^" or source[-1:] == "$") and "|" not in source
        if not anchored:
            # Java also matches between the surrogates of a character.
            raise call.error("the pattern must not match the empty string")
        if pattern.ends and parts:
            # Java matches the empty string again after the match at the end.
            raise call.error(
                "the pattern contains $ and can match the empty string. Use the replacement '', or "
                "a pattern that can't match the empty string"
            )
    used = {part for part in parts if isinstance(part, int)}
    for containing_groups in pattern.ends.values():
        if with_end := used & (containing_groups | {0}):
            group = min(with_end)
            raise call.error(
                f"the replacement can't use group {group}, because this group contains $"
            )
    if max((pattern.numbers[f"g{number}"] for number in used if number), default=0) > _MAX_GROUPS:
        raise call.error(f"the replacement can't use a group number above {_MAX_GROUPS}")
    if len(pattern.numbers) > _MAX_GROUPS and pattern.ends:
        raise call.error(
            f"a pattern with $ can have at most {_MAX_GROUPS} groups, and each $ counts as a group"
        )


_MAX_GROUPS = 9
"""Maximum number of groups: in RE2's replacements, a group number has one digit."""
_NOTHING = r"[^\x{0}-\x{10FFFF}]"


def _parse_replacement(
    call: Call | None, pattern: GroupedPattern, replacement: str
) -> list[str | int]:
    """Split a replacement, such as `$1-$2`, into literal strings and numbers of Java groups.

    Args:
        call: the call for error messages; None if the replacement was already checked.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(replacement):
        token = _REPLACEMENT.match(replacement, position)
        if token is None:
            assert call is not None  # `_check_replace` checked the replacement
            raise call.error(
                f"the replacement {replacement!r} is invalid at "
                f"{replacement[position : position + 4]!r}: "
                "$ must be followed by a group number, and \\ must be followed by a character"
            )
        position = token.end()
        if token["group"] is None:
            parts.append(token["escaped"] or token["plain"])
            continue
        number = token["group"]
        # As in Java, the group number has as many digits as there are groups for.
        while len(number) > 1 and int(number) > pattern.groups:
            number, position = number[:-1], position - 1
        if int(number) > pattern.groups:
            assert call is not None  # `_check_replace` checked the replacement
            raise call.error(
                f"group {number} doesn't exist; the pattern has {pattern.groups} groups"
            )
        parts.append(int(number))
    return parts


def _replace(values: Sequence[Datum], result: Any) -> Datum:
    strings = values[0]
    pattern = grouped_pattern(values[1].as_py())
    parts = _parse_replacement(None, pattern, values[2].as_py())
    replacement = "".join(
        part.replace("\\", "\\\\")
        if isinstance(part, str)
        else rf"\{pattern.numbers[f'g{part}'] if part else 0}"
        for part in parts
    )
    with_ends = replacement + "".join(rf"\{pattern.numbers[name]}" for name in pattern.ends)
    replaced = pc.replace_substring_regex(strings, pattern.pattern, with_ends)
    if pattern.ends:
        replaced = _replace_in_ends(strings, replaced, pattern, (replacement, with_ends))
    return replaced if replaced.type == result else pc.cast(replaced, result)


def _replace_in_ends(
    strings: Any, replaced: Any, pattern: GroupedPattern, replacements: tuple[str, str]
) -> Any:
    """Add the replacements that Java makes inside the line terminator at the end of a string.

    In Java, `$` matches before the line terminator. Java then continues the search inside the line
    terminator, but RE2 doesn't.

    Args:
        strings: the strings before any replacement.
        replaced: the strings after the replacements that RE2 makes.
        replacements: the replacement in two forms. The first form drops the line terminator. The
            second form retains it: it ends with references to the groups `e1`, `e2`, ..., which
            match the line terminator.
    """
    replacement, with_ends = replacements
    without_end = pc.replace_substring_regex(strings, pattern.pattern, replacement)
    has_end = pc.coalesce(
        pc.not_equal(pc.binary_length(without_end), pc.binary_length(replaced)), False
    )
    flags = pa.array([has_end.as_py()]) if isinstance(has_end, pa.Scalar) else has_end
    if not pc.any(flags).as_py():
        return replaced
    for end in LINE_ENDS:
        joined = pc.binary_join_element_wise(without_end, end, "")
        has_this_end = pc.and_(has_end, pc.equal(replaced, joined))
        rest = pc.replace_substring_regex(pa.scalar(end), pattern.continued, with_ends)
        replaced = pc.if_else(
            has_this_end, pc.binary_join_element_wise(without_end, rest, ""), replaced
        )
        has_end = pc.and_not(has_end, has_this_end)
    return replaced


_REPLACEMENT = re.compile(r"\$(?P<group>[0-9]+)|\\(?P<escaped>.)|(?P<plain>[^$\\]+)", re.DOTALL)

FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="locate",
        constants=(2,),
        signature="locate(part, s[, start]), position(part, s[, start]), position(part IN s)",
        summary="The 1-based position of a part from a constant start position; 0 if not found.",
        bind=_checked(
            fixed_parameters(STRING, STRING, INTEGER, result=INTEGER, optional=1), _check_position
        ),
        evaluate=_position,
        aliases=("position",),
    ),
    Macro(
        name="instr",
        signature="instr(s, part)",
        summary="The 1-based position of a part; 0 if not found.",
        count=(2, 2),
        expand=_instr,
    ),
    Function(
        name="substring_index",
        signature="substring_index(s, delimiter, n)",
        summary="The part before the n-th delimiter, or after the n-th from the end if n < 0.",
        bind=fixed_parameters(STRING, STRING, INTEGER, result=STRING),
        evaluate=_substring_index,
    ),
    Function(
        name="split",
        constants=(1, 2),
        signature="split(s, pattern[, limit])",
        summary="The parts between matches of a constant pattern (see `rlike`) without ^ and $.",
        bind=_checked(
            fixed_parameters(
                STRING,
                STRING,
                INTEGER,
                result=ArrayType(element_type=STRING, contains_null=False),
                optional=1,
            ),
            _check_split,
        ),
        evaluate=_split,
    ),
    Function(
        name="regexp_extract",
        constants=(1, 2),
        signature="regexp_extract(s, pattern[, group])",
        summary="A group (1 by default) of the first match of a constant pattern; '' if none.",
        bind=_checked(
            fixed_parameters(STRING, STRING, INTEGER, result=STRING, optional=1), _check_extract
        ),
        evaluate=_extract,
    ),
    Function(
        name="regexp_replace",
        constants=(1, 2),
        signature="regexp_replace(s, pattern, replacement)",
        summary="The string with all matches of a constant pattern replaced; `$1` is a group.",
        bind=_checked(fixed_parameters(STRING, STRING, STRING, result=STRING), _check_replace),
        evaluate=_replace,
    ),
    Function(
        name="find_in_set",
        signature="find_in_set(s, list)",
        summary="The 1-based position of a string in a comma-separated list; 0 if it isn't there.",
        bind=fixed_parameters(STRING, STRING, result=INTEGER),
        evaluate=lambda values, result: rowwise(_find_in_set, result, *values),
    ),
)
