"""Functions that look for parts of texts, by position or by regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from bayou.kernel.predicates.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    constant_of,
    parameters,
    rowwise,
)
from bayou.kernel.predicates.functions.regular_expressions import to_python
from bayou.kernel.predicates.model import Expression, call
from bayou.protocol.schema import INTEGER, STRING, ArrayType

__all__ = ["FUNCTIONS"]


def _of_constants(
    bind: Callable[[Call], Binding], check: Callable[[Call], None]
) -> Callable[[Call], Binding]:
    def checked(call: Call) -> Binding:
        binding = bind(call)
        check(call)
        return binding

    return checked


def _pattern(call: Call) -> re.Pattern[str]:
    text = constant_of(call, 1)
    if not isinstance(text, str):
        raise call.refuse("the pattern must be a constant text")
    return to_python(text)


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
    if _pattern(call).search(""):
        raise call.refuse("the pattern must not match the empty text")
    if len(call.types) == 3 and not isinstance(constant_of(call, 2), int):
        raise call.refuse("the limit must be a constant integer")


def _split(values: Sequence[Datum], result: Any) -> Datum:
    pattern = to_python(values[1].as_py())
    limit = values[2].as_py() if len(values) == 3 else -1

    def parts(text: str) -> list[str]:
        found: list[str] = []
        start = 0
        for match in pattern.finditer(text):
            if match.end() == 0:
                continue  # nothing before it
            if 0 < limit <= len(found) + 1:
                break
            found.append(text[start : match.start()])
            start = match.end()
        return [*found, text[start:]]

    return rowwise(parts, result, values[0])


def _extracting(call: Call) -> None:
    pattern = _pattern(call)
    group = constant_of(call, 2) if len(call.types) == 3 else 1
    if not isinstance(group, int) or not 0 <= group <= pattern.groups:
        raise call.refuse(f"the pattern has {pattern.groups} groups, and none is {group}")


def _extract(values: Sequence[Datum], result: Any) -> Datum:
    pattern = to_python(values[1].as_py())
    group = values[2].as_py() if len(values) == 3 else 1

    def extract(text: str) -> str:
        match = pattern.search(text)
        return "" if match is None else match[group] or ""

    return rowwise(extract, result, values[0])


def _replacing(call: Call) -> None:
    pattern = _pattern(call)
    source = str(constant_of(call, 1))
    anchored = (source[:1] == "^" or source[-1:] == "$") and "|" not in source
    if pattern.search("") and not anchored:
        # Java finds it also between the halves of a character.
        raise call.refuse("the pattern must not match the empty text")
    text = constant_of(call, 2)
    if not isinstance(text, str):
        raise call.refuse("the replacement must be a constant text")
    _replacement(call, pattern, text)


def _replacement(call: Call | None, pattern: re.Pattern[str], text: str) -> list[str | int]:
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
    pattern = to_python(values[1].as_py())
    parts = _replacement(None, pattern, values[2].as_py())

    def replaced(match: re.Match[str]) -> str:
        return "".join(p if isinstance(p, str) else match[p] or "" for p in parts)

    return rowwise(lambda text: pattern.sub(replaced, text), result, values[0])


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
        summary="An array of the parts between matches of a constant pattern (see `rlike`).",
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
