"""Functions that make texts of characters: repeated, reversed, exchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayou.errors import EvaluationError
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Function,
    argument,
    parameters,
    rowwise,
)
from bayou.protocol.schema import BINARY, INTEGER, LONG, STRING

__all__ = ["FUNCTIONS"]


def _of(function: Callable[..., Any]) -> Any:
    return lambda values, result: rowwise(function, result, *values)


def _translate(text: str, characters: str, others: str) -> str:
    table: dict[int, str | None] = {}
    for i, character in enumerate(characters):
        table.setdefault(ord(character), others[i] if i < len(others) else None)
    return text.translate(table)


def _capitalized(text: str) -> str:
    if not text.isascii():
        raise EvaluationError(
            f"initcap takes letters of ASCII only, not {text[:40]!r}.", expression="initcap"
        )
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def _character(number: int) -> str:
    return "" if number < 0 else chr(number & 0xFF)


def _found_in_list(text: str, listed: str) -> int:
    parts = listed.split(",")
    return 0 if "," in text or text not in parts else parts.index(text) + 1


def _bits(call: Call) -> Binding:
    if len(call.types) != 1:
        raise call.refuse("it takes 1 argument")
    kind = BINARY if call.types == (BINARY,) else argument(call, call.types[0], STRING)
    return Binding(arguments=(kind,), result=INTEGER)


def _size(value: str | bytes) -> int:
    return len(value.encode() if isinstance(value, str) else value)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        name="repeat",
        signature="repeat(s, n)",
        summary="The text n times.",
        bind=parameters(STRING, INTEGER, result=STRING),
        evaluate=_of(lambda text, n: text * n),
    ),
    Function(
        name="reverse",
        signature="reverse(s)",
        summary="The characters of a text from the last to the first.",
        bind=parameters(STRING, result=STRING),
        evaluate=_of(lambda text: text[::-1]),
    ),
    Function(
        name="initcap",
        signature="initcap(s)",
        summary="Each word with a capital first, the rest in lower case; letters of ASCII only.",
        bind=parameters(STRING, result=STRING),
        evaluate=_of(_capitalized),
    ),
    Function(
        name="translate",
        signature="translate(s, characters, others)",
        summary="Each of the characters exchanged for the other at its place, or left out.",
        bind=parameters(STRING, STRING, STRING, result=STRING),
        evaluate=_of(_translate),
    ),
    Function(
        name="space",
        signature="space(n)",
        summary="n spaces.",
        bind=parameters(INTEGER, result=STRING),
        evaluate=_of(lambda n: " " * n),
    ),
    Function(
        name="ascii",
        signature="ascii(s)",
        summary="The number of the first character, 0 for none.",
        bind=parameters(STRING, result=INTEGER),
        evaluate=_of(lambda text: ord(text[0]) if text else 0),
    ),
    Function(
        name="chr",
        signature="chr(n), char(n)",
        summary="The character of the lower 8 bits of a number; '' below 0.",
        bind=parameters(LONG, result=STRING),
        evaluate=_of(_character),
        aliases=("char",),
    ),
    Function(
        name="find_in_set",
        signature="find_in_set(s, list)",
        summary="The place of a text in a list with commas, from 1; 0 for none.",
        bind=parameters(STRING, STRING, result=INTEGER),
        evaluate=_of(_found_in_list),
    ),
    Function(
        name="octet_length",
        signature="octet_length(s)",
        summary="Number of bytes of a text or binary.",
        bind=_bits,
        evaluate=_of(_size),
    ),
    Function(
        name="bit_length",
        signature="bit_length(s)",
        summary="Number of bits of a text or binary.",
        bind=_bits,
        evaluate=_of(lambda value: 8 * _size(value)),
    ),
)
