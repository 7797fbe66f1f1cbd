"""String functions. A character is a code point; case conversion uses Unicode's full mapping."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.casts import map_distinct
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
    argument_type,
    constant_of,
    fixed_parameters,
    rowwise,
)
from bayou.kernel.expressions.functions.regular_expressions import to_re2
from bayou.kernel.expressions.model import Expression, Literal, call
from bayou.protocol.schema import BINARY, BOOLEAN, INTEGER, LONG, STRING, DataType

_LONGEST = 1 << 24  # characters of a result that is longer than its argument


def _by_row(function: Callable[..., Any]) -> Any:
    return lambda values, result: rowwise(function, result, *values)


def _length(values: Sequence[Datum], result: Any) -> Datum:
    kernel = pc.binary_length if pa.types.is_binary(values[0].type) else pc.utf8_length
    return pc.cast(kernel(values[0]), result)


def _string_or_binary(result: DataType) -> Callable[[Call], Binding]:
    def bind(call: Call) -> Binding:
        if call.types == (BINARY,):
            return Binding(arguments=(BINARY,), result=result)
        return fixed_parameters(STRING, result=result)(call)

    return bind


def _cased(kernel: Any, full: Callable[[str], str]) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        strings = values[0]
        if pc.all(pc.string_is_ascii(strings)).as_py() is not False:
            return kernel(strings)
        return map_distinct(strings, full, result)

    return evaluate


def _trimmed(kernel: Any) -> Any:
    def evaluate(values: Sequence[Datum], _result: Any) -> Datum:
        if len(values) == 1:
            return kernel(values[0], characters=" ")
        characters, strings = values
        trimmed = kernel(strings, characters=characters.as_py())
        return pc.if_else(pc.is_valid(strings), trimmed, strings)

    return evaluate


def _trimming(call: Call) -> Binding:
    if len(call.types) == 2:
        if not isinstance(constant_of(call, 0), str) or not constant_of(call, 0):
            raise call.error("the characters must be a constant string")
        return Binding(
            arguments=(STRING, argument_type(call, call.types[1], STRING)), result=STRING
        )
    return fixed_parameters(STRING, result=STRING)(call)


def _substring(values: Sequence[Datum], result: Any) -> Datum:
    strings, start = values[0], values[1]
    length = values[2] if len(values) == 3 else None
    constant = isinstance(start, pa.Scalar) and (length is None or isinstance(length, pa.Scalar))
    if constant and start.as_py() is not None and start.as_py() >= 0:
        first = max(start.as_py() - 1, 0)
        if length is None:
            return pc.utf8_slice_codeunits(strings, first)
        if length.as_py() is not None:
            stop = first + max(length.as_py(), 0)
            return pc.utf8_slice_codeunits(strings, first, min(stop, (1 << 31) - 1))
    return rowwise(_slice, result, strings, start, *([] if length is None else [length]))


def _slice(string: str, start: int, length: int | None = None) -> str:
    first = start - 1 if start > 0 else len(string) + start if start < 0 else 0
    stop = len(string) if length is None else first + length
    return string[max(first, 0) : max(stop, 0)] if stop > first else ""


def _of_string(*types: DataType | str) -> Callable[[Call], Binding]:
    """Return a function that determines the types of a call whose first argument is a string.

    The returned function raises an error if the first argument is a binary.

    Args:
        types: types of the other arguments. The last argument is optional.
    """
    bind = fixed_parameters(STRING, *types, result=STRING, optional=1)

    def check(call: Call) -> Binding:
        if call.types and call.types[0] == BINARY:
            raise call.error(
                "the function takes a string, not a binary. Cast the binary to a string"
            )
        return bind(call)

    return check


def _left(string: Expression, length: Expression) -> Expression:
    return call("substring", string, Literal(1, INTEGER), length)


def _btrim(string: Expression, *characters: Expression) -> Expression:
    return call("trim", *characters, string)


def _joining(call: Call) -> Binding:
    if not call.types:
        raise call.error("the function takes 1 argument or more")
    result = BINARY if set(call.types) == {BINARY} else STRING
    arguments = tuple(argument_type(call, t, result) for t in call.types)
    return Binding(arguments=arguments, result=result)


def _concat(values: Sequence[Datum], result: Any) -> Datum:
    empty = pa.scalar(b"" if pa.types.is_binary(result) else "", result)
    return pc.binary_join_element_wise(*values, empty, null_handling="emit_null")


def _concat_with(values: Sequence[Datum], result: Any) -> Datum:
    separator, *strings = values
    if not strings:
        return pc.if_else(pc.is_valid(separator), pa.scalar("", result), separator)
    # Arrow omits rows in which the separator or all strings are null from the result.
    empty = pa.scalar(b"" if pa.types.is_binary(result) else "", result)
    all_null = functools.reduce(pc.and_, map(pc.is_null, strings))
    first, *others = strings
    first = pc.if_else(all_null, empty, first)
    filled = pc.fill_null(separator, empty)
    joined = pc.binary_join_element_wise(first, *others, filled, null_handling="skip")
    return pc.if_else(pc.is_valid(separator), joined, pa.scalar(None, joined.type))


def _pair(kernel: Any, function: Callable[[str, str], bool]) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        strings, part = values
        if isinstance(part, pa.Scalar) and part.is_valid:
            return kernel(strings, part.as_py())
        return rowwise(function, result, strings, part)

    return evaluate


def _replace(string: str, search: str, replacement: str = "") -> str:
    if not search:
        return string
    growth = len(replacement) - len(search)
    if growth > 0:
        _check_length("replace", len(string) + growth * string.count(search), string)
    return string.replace(search, replacement)


def _repeated(string: str, n: int) -> str:
    _check_length("repeat", len(string) * n, string)
    return string * n


def _spaces(n: int) -> str:
    _check_length("space", n)
    return " " * n


def _check_length(name: str, length: int, string: str = "") -> None:
    """Raise an error if the result is too long; a result as long as the argument is never too long.

    Args:
        name: name of the SQL function.
        length: length of the result.
        string: the argument.
    """
    if length > max(_LONGEST, len(string)):
        raise EvaluationError(
            f"{name}: the result would have {length:,} characters, the limit is {_LONGEST:,}. Use "
            "a smaller argument, or exclude the row with a condition (CASE WHEN, AND).",
            expression=name,
        )


def _padded(name: str, *, left: bool) -> Any:
    def pad(string: str, length: int, filler: str = " ") -> str:
        if len(string) >= length or not filler:
            return string[: max(length, 0)]
        _check_length(name, length, string)
        missing = length - len(string)
        padding = (filler * (missing // len(filler) + 1))[:missing]
        return padding + string if left else string + padding

    return _by_row(pad)


def _matching(call: Call) -> Binding:
    binding = fixed_parameters(STRING, STRING, result=BOOLEAN)(call)
    pattern = constant_of(call, 1)
    if isinstance(pattern, str):
        to_re2(pattern)
    return binding


def _matches(values: Sequence[Datum], result: Any) -> Datum:
    strings, pattern = values
    if not pattern.is_valid:
        return pa.nulls(len(strings), result)
    try:
        return pc.match_substring_regex(strings, to_re2(pattern.as_py()))
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"{pattern.as_py()!r} isn't a valid regular expression: {error}. "
            "Correct the expression.",
            expression="rlike",
        ) from error


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


def _size_binding(call: Call) -> Binding:
    if len(call.types) != 1:
        raise call.error("the function takes 1 argument")
    kind = BINARY if call.types == (BINARY,) else argument_type(call, call.types[0], STRING)
    return Binding(arguments=(kind,), result=INTEGER)


def _size(value: str | bytes) -> int:
    return len(value.encode() if isinstance(value, str) else value)


def _prefix_directions(
    constants: Sequence[Any], _types: Sequence[DataType]
) -> Sequence[int] | None:
    """`Function.monotonicity` of `substring`.

    A prefix of constant length never decreases as the string increases in sort order. For all other
    substrings, the result is None.
    """
    if len(constants) != 3 or constants[1] not in (0, 1) or constants[2] is None:
        return None
    return (1, 0, 0)


FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="length",
        signature="length(s), char_length(s), character_length(s), len(s)",
        summary="The number of characters of a string, or of bytes of a binary.",
        bind=_string_or_binary(INTEGER),
        evaluate=_length,
        aliases=("char_length", "character_length", "len"),
    ),
    Function(
        name="lower",
        signature="lower(s), lcase(s)",
        summary="The string in lower case.",
        bind=fixed_parameters(STRING, result=STRING),
        evaluate=_cased(pc.utf8_lower, str.lower),
        aliases=("lcase",),
    ),
    Function(
        name="upper",
        signature="upper(s), ucase(s)",
        summary="The string in upper case.",
        bind=fixed_parameters(STRING, result=STRING),
        evaluate=_cased(pc.utf8_upper, str.upper),
        aliases=("ucase",),
    ),
    Function(
        name="trim",
        constants=(0,),
        signature="trim(s), trim(BOTH c FROM s)",
        summary="Removes spaces (or the characters in the constant `c`) at both ends.",
        bind=_trimming,
        evaluate=_trimmed(pc.utf8_trim),
    ),
    Macro(
        name="btrim",
        signature="btrim(s[, c])",
        summary="Equivalent to trim(BOTH c FROM s).",
        count=(1, 2),
        expand=_btrim,
    ),
    Function(
        name="ltrim",
        constants=(0,),
        signature="ltrim(s), trim(LEADING c FROM s)",
        summary="Removes spaces (or the characters in the constant `c`) at the start.",
        bind=_trimming,
        evaluate=_trimmed(pc.utf8_ltrim),
    ),
    Function(
        name="rtrim",
        constants=(0,),
        signature="rtrim(s), trim(TRAILING c FROM s)",
        summary="Removes spaces (or the characters in the constant `c`) at the end.",
        bind=_trimming,
        evaluate=_trimmed(pc.utf8_rtrim),
    ),
    Function(
        name="substring",
        signature="substring(s, start[, length]), substr, substring(s FROM start [FOR length])",
        summary="A part from a 1-based position, which counts from the end if it is negative.",
        bind=_of_string(INTEGER, INTEGER),
        evaluate=_substring,
        monotonicity=_prefix_directions,
        aliases=("substr", "mid"),
    ),
    Macro(
        name="left",
        signature="left(s, n)",
        summary="The first `n` characters.",
        count=(2, 2),
        expand=_left,
    ),
    Function(
        name="right",
        signature="right(s, n)",
        summary="The last `n` characters.",
        bind=fixed_parameters(STRING, INTEGER, result=STRING),
        evaluate=_by_row(lambda string, n: string[-n:] if n > 0 else ""),
    ),
    Function(
        name="concat",
        signature="concat(a, ...), a || b",
        summary="The concatenation of the values as strings; NULL if a value is NULL.",
        bind=_joining,
        evaluate=_concat,
        aliases=("||",),
    ),
    Function(
        name="concat_ws",
        signature="concat_ws(separator, a, ...)",
        summary="The concatenation of the strings that aren't NULL, with a separator.",
        bind=_joining,
        evaluate=_concat_with,
        null_handling="own",
    ),
    Function(
        name="startswith",
        signature="startswith(s, prefix)",
        summary="Whether a string starts with a prefix; a constant prefix skips files.",
        bind=fixed_parameters(STRING, STRING, result=BOOLEAN),
        evaluate=_pair(pc.starts_with, str.startswith),
    ),
    Function(
        name="endswith",
        signature="endswith(s, suffix)",
        summary="Whether a string ends with a suffix.",
        bind=fixed_parameters(STRING, STRING, result=BOOLEAN),
        evaluate=_pair(pc.ends_with, str.endswith),
    ),
    Function(
        name="contains",
        signature="contains(s, part)",
        summary="Whether a string contains a part.",
        bind=fixed_parameters(STRING, STRING, result=BOOLEAN),
        evaluate=_pair(pc.match_substring, lambda string, part: part in string),
    ),
    Function(
        name="replace",
        signature="replace(s, search[, replacement])",
        summary="The string with all occurrences of `search` replaced.",
        bind=fixed_parameters(STRING, STRING, STRING, result=STRING, optional=1),
        evaluate=_by_row(_replace),
    ),
    Function(
        name="lpad",
        signature="lpad(s, length[, pad])",
        summary="The string padded on the left, or truncated, to a length.",
        bind=_of_string(INTEGER, STRING),
        evaluate=_padded("lpad", left=True),
    ),
    Function(
        name="rpad",
        signature="rpad(s, length[, pad])",
        summary="The string padded on the right, or truncated, to a length.",
        bind=_of_string(INTEGER, STRING),
        evaluate=_padded("rpad", left=False),
    ),
    Function(
        name="rlike",
        constants=(1,),
        signature="s RLIKE pattern, regexp(s, pattern), regexp_like",
        summary=(
            "Whether a regular expression matches a part of the string. The pattern is a constant. "
            "Only syntax that Java and RE2 share is supported; other patterns are an error."
        ),
        bind=_matching,
        evaluate=_matches,
        aliases=("regexp", "regexp_like"),
    ),
    Function(
        name="repeat",
        signature="repeat(s, n)",
        summary="The string repeated n times.",
        bind=fixed_parameters(STRING, INTEGER, result=STRING),
        evaluate=_by_row(_repeated),
    ),
    Function(
        name="reverse",
        signature="reverse(s)",
        summary="The string with its characters in reverse order.",
        bind=fixed_parameters(STRING, result=STRING),
        evaluate=_by_row(lambda string: string[::-1]),
    ),
    Function(
        name="initcap",
        signature="initcap(s)",
        summary="The first letter of each word in upper case, all others in lower; ASCII only.",
        bind=fixed_parameters(STRING, result=STRING),
        evaluate=_by_row(_capitalized),
    ),
    Function(
        name="translate",
        signature="translate(s, characters, replacements)",
        summary="Each character replaced by the replacement at the same position, or removed.",
        bind=fixed_parameters(STRING, STRING, STRING, result=STRING),
        evaluate=_by_row(_translate),
    ),
    Function(
        name="space",
        signature="space(n)",
        summary="A string of n spaces.",
        bind=fixed_parameters(INTEGER, result=STRING),
        evaluate=_by_row(_spaces),
    ),
    Function(
        name="ascii",
        signature="ascii(s)",
        summary="The code point of the first character; 0 for an empty string.",
        bind=fixed_parameters(STRING, result=INTEGER),
        evaluate=_by_row(lambda string: ord(string[0]) if string else 0),
    ),
    Function(
        name="chr",
        signature="chr(n), char(n)",
        summary="The character with the code in the lower 8 bits of n; '' if n < 0.",
        bind=fixed_parameters(LONG, result=STRING),
        evaluate=_by_row(_character),
        aliases=("char",),
    ),
    Function(
        name="octet_length",
        signature="octet_length(s)",
        summary="The number of bytes of a string or binary.",
        bind=_size_binding,
        evaluate=_by_row(_size),
    ),
    Function(
        name="bit_length",
        signature="bit_length(s)",
        summary="The number of bits of a string or binary.",
        bind=_size_binding,
        evaluate=_by_row(lambda value: 8 * _size(value)),
    ),
)
