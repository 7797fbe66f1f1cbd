"""Functions such as `repeat`, `reverse` and `translate`, and character codes and byte sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayou.errors import EvaluationError
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Function,
    argument_type,
    fixed_parameters,
    rowwise,
)
from bayou.protocol.schema import BINARY, INTEGER, LONG, STRING


def _of(function: Callable[..., Any]) -> Any:
    return lambda values, result: rowwise(function, result, *values)


def _translate(string: str, characters: str, replacements: str) -> str:
    table: dict[int, str | None] = {}
    for i, character in enumerate(characters):
        table.setdefault(ord(character), replacements[i] if i < len(replacements) else None)
    return string.translate(table)


def _capitalized(string: str) -> str:
    if not string.isascii():
        raise EvaluationError(
            f"initcap: only ASCII strings are supported, not {string[:40]!r}.",
            expression="initcap",
        )
    return " ".join(word[:1].upper() + word[1:].lower() for word in string.split(" "))


def _character(number: int) -> str:
    return "" if number < 0 else chr(number & 0xFF)


def _find_in_set(string: str, comma_separated: str) -> int:
    parts = comma_separated.split(",")
    return 0 if "," in string or string not in parts else parts.index(string) + 1


def _size_binding(call: Call) -> Binding:
    if len(call.types) != 1:
        raise call.error("it takes 1 argument")
    kind = BINARY if call.types == (BINARY,) else argument_type(call, call.types[0], STRING)
    return Binding(arguments=(kind,), result=INTEGER)


def _size(value: str | bytes) -> int:
    return len(value.encode() if isinstance(value, str) else value)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        name="repeat",
        signature="repeat(s, n)",
        summary="The string repeated n times.",
        bind=fixed_parameters(STRING, INTEGER, result=STRING),
        evaluate=_of(lambda string, n: string * n),
    ),
    Function(
        name="reverse",
        signature="reverse(s)",
        summary="The string with its characters in reverse order.",
        bind=fixed_parameters(STRING, result=STRING),
        evaluate=_of(lambda string: string[::-1]),
    ),
    Function(
        name="initcap",
        signature="initcap(s)",
        summary="The first letter of each word in upper case, all others in lower; ASCII only.",
        bind=fixed_parameters(STRING, result=STRING),
        evaluate=_of(_capitalized),
    ),
    Function(
        name="translate",
        signature="translate(s, characters, replacements)",
        summary="Each character replaced by the replacement at the same position, or removed.",
        bind=fixed_parameters(STRING, STRING, STRING, result=STRING),
        evaluate=_of(_translate),
    ),
    Function(
        name="space",
        signature="space(n)",
        summary="A string of n spaces.",
        bind=fixed_parameters(INTEGER, result=STRING),
        evaluate=_of(lambda n: " " * n),
    ),
    Function(
        name="ascii",
        signature="ascii(s)",
        summary="The code point of the first character; 0 for an empty string.",
        bind=fixed_parameters(STRING, result=INTEGER),
        evaluate=_of(lambda string: ord(string[0]) if string else 0),
    ),
    Function(
        name="chr",
        signature="chr(n), char(n)",
        summary="The character with the code in the lower 8 bits of n; '' if n < 0.",
        bind=fixed_parameters(LONG, result=STRING),
        evaluate=_of(_character),
        aliases=("char",),
    ),
    Function(
        name="find_in_set",
        signature="find_in_set(s, list)",
        summary="The 1-based position of a string in a comma-separated list; 0 if it isn't there.",
        bind=fixed_parameters(STRING, STRING, result=INTEGER),
        evaluate=_of(_find_in_set),
    ),
    Function(
        name="octet_length",
        signature="octet_length(s)",
        summary="The number of bytes of a string or binary.",
        bind=_size_binding,
        evaluate=_of(_size),
    ),
    Function(
        name="bit_length",
        signature="bit_length(s)",
        summary="The number of bits of a string or binary.",
        bind=_size_binding,
        evaluate=_of(lambda value: 8 * _size(value)),
    ),
)
