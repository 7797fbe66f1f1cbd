"""Bitwise and hexadecimal functions, and `ByteColumn` for vectorized hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

__all__ = ["FUNCTIONS", "ByteColumn", "rotate_left"]


_LONG = (1 << 64) - 1


def _whole(count: int) -> Callable[[Call], Binding]:
    """The binding of a function of integers, which are cast to their common type."""

    def bind(call: Call) -> Binding:
        if len(call.types) != count:
            raise call.error(f"it takes {count} argument{'' if count == 1 else 's'}")
        not_null = [t for t in call.types if t != VOID]
        both = common_type(not_null) if not_null else INTEGER
        if both is None or not is_integral(both):
            raise call.error("it takes integers")
        return Binding(arguments=(both,) * count, result=both)

    return bind


def _bitwise(kernel: Any) -> Any:
    return lambda values, _result: kernel(*values)


def _shifting(call: Call) -> Binding:
    if len(call.types) != 2:
        raise call.error("it takes 2 arguments")
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
        # In two steps, because Arrow doesn't shift signed numbers by all bits but one.
        half = pc.shift_right(by, pa.scalar(1, pa.int32()))
        for step in (half, pc.subtract(by, half)):
            number = kernel(number, pc.cast(step, kind))
        return pc.cast(number, result, safe=False)

    return evaluate


def _counting(call: Call) -> Binding:
    if len(call.types) != 1 or not (call.types[0] in (BOOLEAN, VOID) or is_integral(call.types[0])):
        raise call.error("it takes an integer or boolean")
    return Binding(arguments=call.types, result=INTEGER)


def _count(values: Sequence[Datum], result: Any) -> Datum:
    return rowwise(lambda number: (int(number) & _LONG).bit_count(), result, *values)


def _digits(call: Call) -> Binding:
    if len(call.types) != 1:
        raise call.error("it takes 1 argument")
    (data_type,) = call.types
    if is_integral(data_type) or data_type == VOID:
        return Binding(arguments=(LONG,), result=STRING)
    if data_type in (STRING, BINARY):
        return Binding(arguments=(BINARY,), result=STRING)
    raise call.error("it takes an integer, a string or binary")


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


class ByteColumn:
    """Strings or byte strings without nulls, sorted by descending length.

    The rows that have a k-th word are therefore the first rows.

    Attributes:
        order: original index of each row, int64.
        lengths: length of each row in bytes, int64.
    """

    def __init__(self, values: Any) -> None:
        lengths = pc.binary_length(values).cast(pa.int64())
        self.order = pc.array_sort_indices(lengths, order="descending").cast(pa.int64())
        self.lengths = lengths.take(self.order)
        offsets, data = values.buffers()[1:]
        starts = pa.Array.from_buffers(
            pa.int32(), len(values) + 1, [None, offsets], offset=values.offset
        )
        self._starts = starts.slice(0, len(values)).cast(pa.int64()).take(self.order)
        size = 0 if data is None else data.size
        self._bytes: Any = pa.Array.from_buffers(pa.uint8(), size, [None, data])

    def steps(self, words: Any) -> Iterator[tuple[int, int]]:
        """The index of each word, and the number of rows that have the word (the first rows).

        Args:
            words: number of words of each row.
        """
        runs = pc.run_end_encode(words)
        counts, ends = runs.values.to_pylist(), runs.run_ends.to_pylist()
        next_index = 0
        for count, end in zip(reversed(counts), reversed(ends), strict=True):
            for index in range(next_index, count):
                yield index, end
            next_index = max(next_index, count)

    def word(self, rows: int, offset: int, width: int) -> Any:
        """The little-endian words at an offset of the first rows, uint64."""
        starts = self._starts.slice(0, rows)
        return self._read(pc.add(starts, offset), width)

    def word_at(self, offsets: Any, width: int, exists: Any) -> Any:
        """The words at one offset for each row; 0 where `exists` is false."""
        positions = pc.if_else(exists, pc.add(self._starts, offsets), pa.scalar(None, pa.int64()))
        return pc.fill_null(self._read(positions, width), 0)

    @staticmethod
    def replaced(column: Any, rows: int, values: Any) -> Any:
        """Replace the values of a column's first rows."""
        return pa.concat_arrays([values, column.slice(rows)])

    def _read(self, positions: Any, width: int) -> Any:
        word: Any = None
        for i in range(width):
            byte = self._bytes.take(pc.add(positions, i)).cast(pa.uint64())
            byte = pc.shift_left(byte, pa.scalar(8 * i, pa.uint64()))
            word = byte if word is None else pc.bit_wise_or(word, byte)
        return word


def rotate_left(values: Any, bits: int) -> Any:
    """Rotate unsigned numbers to the left."""
    width: int = values.type.bit_width
    left = pc.shift_left(values, pa.scalar(bits, values.type))
    right = pc.shift_right(values, pa.scalar(width - bits, values.type))
    return pc.bit_wise_or(left, right)
