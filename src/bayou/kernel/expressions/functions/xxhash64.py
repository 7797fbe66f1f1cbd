"""XXH64 as in Spark's `xxhash64`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions.bitwise import ByteColumn, rotate_left

__all__ = ["hashed_bytes", "hashed_ints", "hashed_longs"]

Column = Any
"""An array of uint64, without nulls."""

_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_STRIPE = 32


def hashed_ints(values: Any, seeds: Column) -> Column:
    """Hashes of uint32 values."""
    hashes = pc.add(seeds, _number(_P5 + 4))
    return _finished(_with_half(hashes, values.cast(pa.uint64())))


def hashed_longs(values: Column, seeds: Column) -> Column:
    """Hashes of uint64 values."""
    return _finished(_with_word(pc.add(seeds, _number(_P5 + 8)), values))


def hashed_bytes(values: ByteColumn, seeds: Column) -> Column:
    """Hashes of byte strings. Seeds and hashes are in the order of `values`."""
    stripes = pc.divide(values.lengths, _STRIPE)
    hashes = pc.add(seeds, _number(_P5))
    lanes = [pc.add(seeds, _number(n)) for n in (_P1 + _P2, _P2, 0, -_P1)]
    max_rows = 0
    for first, rows in values.steps(stripes):
        max_rows = max(max_rows, rows)
        for i in range(4):
            word = values.word(rows, first * _STRIPE + 8 * i, 8)
            lane = _round(lanes[i].slice(0, rows), word)
            lanes[i] = values.replaced(lanes[i], rows, lane)
    if max_rows:
        merged = _merged([lane.slice(0, max_rows) for lane in lanes])
        hashes = values.replaced(hashes, max_rows, merged)
    hashes = pc.add(hashes, values.lengths.cast(pa.uint64()))
    offsets = pc.multiply(stripes, _STRIPE)
    for _ in range(3):
        exists = pc.less_equal(pc.add(offsets, 8), values.lengths)
        word = values.word_at(offsets, 8, exists)
        hashes = pc.if_else(exists, _with_word(hashes, word), hashes)
        offsets = pc.if_else(exists, pc.add(offsets, 8), offsets)
    exists = pc.less_equal(pc.add(offsets, 4), values.lengths)
    hashes = pc.if_else(exists, _with_half(hashes, values.word_at(offsets, 4, exists)), hashes)
    offsets = pc.if_else(exists, pc.add(offsets, 4), offsets)
    for _ in range(3):
        exists = pc.less(offsets, values.lengths)
        byte = pc.multiply(values.word_at(offsets, 1, exists), _number(_P5))
        mixed = pc.multiply(rotate_left(pc.bit_wise_xor(hashes, byte), 11), _number(_P1))
        hashes = pc.if_else(exists, mixed, hashes)
        offsets = pc.add(offsets, 1)
    return _finished(hashes)


def _number(value: int) -> pa.Scalar[Any]:
    return pa.scalar(value & 0xFFFFFFFFFFFFFFFF, pa.uint64())


def _round(lane: Column, word: Column) -> Column:
    lane = pc.add(lane, pc.multiply(word, _number(_P2)))
    return pc.multiply(rotate_left(lane, 31), _number(_P1))


def _merged(lanes: list[Column]) -> Column:
    hashes: Any = None
    for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        rotated_lane = rotate_left(lane, bits)
        hashes = rotated_lane if hashes is None else pc.add(hashes, rotated_lane)
    zero = pc.subtract(lanes[0], lanes[0])
    for lane in lanes:
        hashes = pc.bit_wise_xor(hashes, _round(zero, lane))
        hashes = pc.add(pc.multiply(hashes, _number(_P1)), _number(_P4))
    return hashes


def _with_word(hashes: Column, word: Column) -> Column:
    word = pc.multiply(rotate_left(pc.multiply(word, _number(_P2)), 31), _number(_P1))
    hashes = rotate_left(pc.bit_wise_xor(hashes, word), 27)
    return pc.add(pc.multiply(hashes, _number(_P1)), _number(_P4))


def _with_half(hashes: Column, half: Column) -> Column:
    hashes = pc.bit_wise_xor(hashes, pc.multiply(half, _number(_P1)))
    return pc.add(pc.multiply(rotate_left(hashes, 23), _number(_P2)), _number(_P3))


def _finished(hashes: Column) -> Column:
    for shift, factor in ((33, _P2), (29, _P3)):
        hashes = pc.bit_wise_xor(hashes, pc.shift_right(hashes, _number(shift)))
        hashes = pc.multiply(hashes, _number(factor))
    return pc.bit_wise_xor(hashes, pc.shift_right(hashes, _number(32)))
