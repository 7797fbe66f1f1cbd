"""32-bit Murmur3 as in Spark's `hash`.

Unlike in standard Murmur3, each byte after the last complete word is hashed as a signed word.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions.bitwise import ByteColumn, rotate_left

__all__ = ["hashed_bytes", "hashed_ints", "hashed_longs"]

Column = Any
"""An array of uint32, without nulls."""

_TYPE = pa.uint32()


def hashed_ints(values: Column, seeds: Column) -> Column:
    """Hashes of uint32 values."""
    return _finished(_mixed(seeds, values), pa.scalar(4, _TYPE))


def hashed_longs(values: Any, seeds: Column) -> Column:
    """Hashes of uint64 values."""
    low = pc.bit_wise_and(values, pa.scalar(0xFFFFFFFF, pa.uint64())).cast(_TYPE)
    high = pc.shift_right(values, pa.scalar(32, pa.uint64())).cast(_TYPE)
    return _finished(_mixed(_mixed(seeds, low), high), pa.scalar(8, _TYPE))


def hashed_bytes(values: ByteColumn, seeds: Column) -> Column:
    """Hashes of byte strings. Seeds and hashes are in the order of `values`."""
    hashes = seeds
    words = pc.divide(values.lengths, 4)
    for first, rows in values.steps(words):
        word = values.word(rows, first * 4, 4).cast(_TYPE)
        hashes = values.replaced(hashes, rows, _mixed(hashes.slice(0, rows), word))
    whole = pc.multiply(words, 4)
    rest = pc.subtract(values.lengths, whole)
    for i in range(3):
        exists = pc.greater(rest, i)
        byte = values.word_at(pc.add(whole, i), 1, exists)
        signed = byte.cast(pa.uint8()).view(pa.int8()).cast(pa.int32()).view(_TYPE)
        hashes = pc.if_else(exists, _mixed(hashes, signed), hashes)
    return _finished(hashes, values.lengths.cast(_TYPE))


def _number(value: int) -> pa.Scalar[Any]:
    return pa.scalar(value, _TYPE)


def _mixed(hashes: Column, words: Column) -> Column:
    words = pc.multiply(words, _number(0xCC9E2D51))
    words = pc.multiply(rotate_left(words, 15), _number(0x1B873593))
    hashes = rotate_left(pc.bit_wise_xor(hashes, words), 13)
    return pc.add(pc.multiply(hashes, _number(5)), _number(0xE6546B64))


def _finished(hashes: Column, lengths: Any) -> Column:
    hashes = pc.bit_wise_xor(hashes, lengths)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = pc.bit_wise_xor(hashes, pc.shift_right(hashes, _number(shift)))
        hashes = pc.multiply(hashes, _number(factor))
    return pc.bit_wise_xor(hashes, pc.shift_right(hashes, _number(16)))
