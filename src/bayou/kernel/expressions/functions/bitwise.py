"""Bitwise and hexadecimal functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    argument_type,
    fixed_parameters,
    rowwise,
)
from bayou.kernel.expressions.types import common_type, is_integral
from bayou.protocol.schema import BINARY, BOOLEAN, INTEGER, LONG, STRING, VOID, DataType

_LONG = (1 << 64) - 1


def _whole(count: int) -> Callable[[Call], Binding]:
    """Return the `Function.bind` of a function that takes `count` integers.

    The integers are cast to their common type.
    """

    def bind(call: Call) -> Binding:
        if len(call.types) != count:
            raise call.error(f"the function takes {count} argument{'' if count == 1 else 's'}")
        not_null = [t for t in call.types if t != VOID]
        both = common_type(not_null) if not_null else INTEGER
        if both is None or not is_integral(both):
            raise call.error("the function takes integers")
        return Binding(arguments=(both,) * count, result=both)

    return bind


def _bitwise(kernel: Any) -> Any:
    return lambda values, _result: kernel(*values)


def _shifting(call: Call) -> Binding:
    if len(call.types) != 2:
        raise call.error("the function takes 2 arguments")
    base: DataType = LONG if call.types[0] == LONG else INTEGER
    return Binding(
        arguments=(
            argument_type(call, call.types[0], base),
            argument_type(call, call.types[1], INTEGER),
        ),
        result=base,
    )


def _shifted(kernel: Any, *, unsigned: bool) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        number, by = values
        by = pc.bit_wise_and(by, pa.scalar(result.bit_width - 1, pa.int32()))  # as Java does
        kind = result
        if unsigned:
            kind = pa.uint64() if result == pa.int64() else pa.uint32()
            number = pc.cast(number, kind, safe=False)
        # In two steps, because Arrow doesn't shift an int by 31 bits or a long by 63 bits.
        half = pc.shift_right(by, pa.scalar(1, pa.int32()))
        for step in (half, pc.subtract(by, half)):
            number = kernel(number, pc.cast(step, kind))
        return pc.cast(number, result, safe=False)

    return evaluate


def _counting(call: Call) -> Binding:
    if len(call.types) != 1 or not (call.types[0] in (BOOLEAN, VOID) or is_integral(call.types[0])):
        raise call.error("the function takes an integer or boolean")
    return Binding(arguments=call.types, result=INTEGER)


def _count(values: Sequence[Datum], result: Any) -> Datum:
    return rowwise(lambda number: (int(number) & _LONG).bit_count(), result, *values)


def _digits(call: Call) -> Binding:
    if len(call.types) != 1:
        raise call.error("the function takes 1 argument")
    (data_type,) = call.types
    if is_integral(data_type) or data_type == VOID:
        return Binding(arguments=(LONG,), result=STRING)
    if data_type in (STRING, BINARY):
        return Binding(arguments=(BINARY,), result=STRING)
    raise call.error("the function takes an integer, a string or binary")


def _hex(values: Sequence[Datum], result: Any) -> Datum:
    def digits(value: int | bytes) -> str:
        return f"{value & _LONG:X}" if isinstance(value, int) else value.hex().upper()

    return rowwise(digits, result, *values)


def _from_hex(digits: str) -> bytes | None:
    if not digits.isascii() or not all(c in "0123456789abcdefABCDEF" for c in digits):
        return None
    return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")


FUNCTIONS: tuple[Function, ...] = (
    Function(
        name="&",
        signature="a & b",
        summary="Bitwise AND of two integers.",
        bind=_whole(2),
        evaluate=_bitwise(pc.bit_wise_and),
    ),
    Function(
        name="|",
        signature="a | b",
        summary="Bitwise OR of two integers.",
        bind=_whole(2),
        evaluate=_bitwise(pc.bit_wise_or),
    ),
    Function(
        name="^",
        signature="a ^ b",
        summary="Bitwise XOR of two integers.",
        bind=_whole(2),
        evaluate=_bitwise(pc.bit_wise_xor),
    ),
    Function(
        name="~",
        signature="~a",
        summary="Bitwise NOT of an integer.",
        bind=_whole(1),
        evaluate=_bitwise(pc.bit_wise_not),
    ),
    Function(
        name="shiftleft",
        signature="shiftleft(a, n), a << n",
        summary="Left shift of an int or long; only the lower 5 or 6 bits of `n` are used.",
        bind=_shifting,
        evaluate=_shifted(pc.shift_left, unsigned=True),
    ),
    Function(
        name="shiftright",
        signature="shiftright(a, n), a >> n",
        summary="Arithmetic right shift, which retains the sign.",
        bind=_shifting,
        evaluate=_shifted(pc.shift_right, unsigned=False),
    ),
    Function(
        name="shiftrightunsigned",
        signature="shiftrightunsigned(a, n)",
        summary="Logical right shift, which fills with zeros.",
        bind=_shifting,
        evaluate=_shifted(pc.shift_right, unsigned=True),
    ),
    Function(
        name="bit_count",
        signature="bit_count(a)",
        summary="The number of bits set in a boolean, or in an integer as a long.",
        bind=_counting,
        evaluate=_count,
    ),
    Function(
        name="bin",
        signature="bin(a)",
        summary="The binary digits of a long.",
        bind=fixed_parameters(LONG, result=STRING),
        evaluate=lambda values, result: rowwise(lambda n: f"{n & _LONG:b}", result, *values),
    ),
    Function(
        name="hex",
        signature="hex(a)",
        summary="The hexadecimal digits of an integer as a long, or of the bytes of a string.",
        bind=_digits,
        evaluate=_hex,
    ),
    Function(
        name="unhex",
        signature="unhex(s)",
        summary="The bytes of hexadecimal digits; NULL for other characters.",
        bind=fixed_parameters(STRING, result=BINARY),
        evaluate=lambda values, result: rowwise(_from_hex, result, *values),
        null_handling="more",
    ),
)
