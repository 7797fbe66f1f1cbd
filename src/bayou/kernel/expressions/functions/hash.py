"""Hash functions and digests."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from decimal import Context
from typing import Any, TypeAlias

import pyarrow as pa
import xxhash

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    argument_type,
    rowwise,
)
from bayou.kernel.expressions.types import kind_of
from bayou.protocol.schema import BINARY, INTEGER, LONG, STRING, VOID, DataType

_repeated: Any = pa.repeat

_SEED = 42
_MAX_LONG_DIGITS = 18
_CONTEXT = Context(prec=40)


def _of_bytes(result: DataType) -> Callable[[Call], Binding]:
    def bind(call: Call) -> Binding:
        if len(call.types) != 1:
            raise call.error("the function takes 1 argument")
        return Binding(arguments=(_bytes(call),), result=result)

    return bind


def _bytes(call: Call) -> DataType:
    if call.types[0] not in (STRING, BINARY, VOID):
        raise call.error("the function takes a string or binary")
    return BINARY


def _digest(function: Callable[..., str | int | None]) -> Any:
    return lambda values, result: rowwise(function, result, *values)


def _sized_digest(call: Call) -> Binding:
    if len(call.types) != 2:
        raise call.error("the function takes 2 arguments")
    bits = argument_type(call, call.types[1], INTEGER)
    return Binding(arguments=(_bytes(call), bits), result=STRING)


def _sha2(data: bytes, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, data).hexdigest()


def _hashing(result: DataType) -> Callable[[Call], Binding]:
    def bind(call: Call) -> Binding:
        if not call.types:
            raise call.error("the function takes 1 argument or more")
        if any(t != VOID and kind_of(t) is None for t in call.types):
            raise call.error("hashes of arrays, maps, structs and variants aren't supported")
        return Binding(arguments=call.types, result=result)

    return bind


_BytesHash: TypeAlias = Callable[[Any, Any], Any]
"""Function that hashes non-null byte strings. Parameters: the byte strings, and their seeds."""


def _hash(bytes_hash: _BytesHash, unsigned: Any) -> Any:
    """Return a function that computes one hash for each row, from the row's values.

    The hash of a value is the seed for the next non-null value in the row.

    Args:
        unsigned: the unsigned Arrow type of the hashes and seeds.
    """

    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        length = next(len(v) for v in values if not isinstance(v, pa.Scalar))
        hashes: Any = _repeated(pa.scalar(_SEED, unsigned), length)
        for value in values:
            column: Any = _repeated(value, length) if isinstance(value, pa.Scalar) else value
            if column.null_count == length:
                continue
            is_valid = pc.is_valid(column)
            updated = bytes_hash(_hashed_bytes(column.drop_null()), hashes.filter(is_valid))
            hashes = pc.replace_with_mask(hashes, is_valid, updated)
        return hashes.view(result)

    return evaluate


def _hashed_bytes(column: Any) -> Any:
    """Return the bytes that Spark hashes for each value.

    Numbers, dates and timestamps become little-endian words. A decimal of more than 18 digits
    becomes the big-endian bytes of its unscaled value.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_decimal(kind):
        unscaled = [int(v.scaleb(kind.scale, _CONTEXT)) for v in column.to_pylist()]
        if kind.precision > _MAX_LONG_DIGITS:
            byte_strings = [
                n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
                for n in unscaled
            ]
            return pa.array(byte_strings, pa.binary())
        column = pa.array(unscaled, pa.int64())
    elif pa.types.is_floating(kind):
        column = _normalized(column)
    elif pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind.bit_width < 32):
        column = column.cast(pa.int32())
    return column.view(pa.binary(column.type.bit_width // 8)).cast(pa.binary())


def _xxhash64(values: Any, seeds: Any) -> Any:
    pairs = zip(values.to_pylist(), seeds.to_pylist(), strict=True)
    return pa.array([xxhash.xxh64_intdigest(data, seed) for data, seed in pairs], pa.uint64())


def _murmur3(values: Any, seeds: Any) -> Any:
    """Compute 32-bit Murmur3 in Spark's variant, which no package implements.

    Spark hashes each of the bytes after the last complete word as a signed word; standard Murmur3
    combines these bytes before it hashes them.
    """
    # Rows are sorted by descending length, so the rows with a k-th word come first.
    order = pc.array_sort_indices(pc.binary_length(values), order="descending")
    values, hashes = values.take(order), seeds.take(order)
    lengths = pc.binary_length(values)
    counts, rows = pc.divide(lengths, 4).to_pylist(), len(values)
    complete = []
    for index in range(counts[0] + 1):
        while rows and counts[rows - 1] <= index:
            rows -= 1
        complete.append(hashes.slice(rows))
        words = pc.binary_slice(values.slice(0, rows), 4 * index, 4 * index + 4)
        hashes = _mixed(hashes.slice(0, rows), words.cast(pa.binary(4)).view(pa.uint32()))
    hashes = pa.concat_arrays(complete[::-1])
    for size in (1, 2, 3):
        has_rest = pc.equal(pc.bit_wise_and(lengths, 3), size)
        rests, updated = values.filter(has_rest), hashes.filter(has_rest)
        for position in range(-size, 0):
            byte = pc.binary_slice(rests, position, position + 1 or None)
            word = byte.cast(pa.binary(1)).view(pa.int8()).cast(pa.int32()).view(pa.uint32())
            updated = _mixed(updated, word)
        hashes = pc.replace_with_mask(hashes, has_rest, updated)
    hashes = pc.bit_wise_xor(hashes, lengths.view(pa.uint32()))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashes = pc.bit_wise_xor(hashes, pc.shift_right(hashes, _uint32(shift)))
        hashes = pc.multiply(hashes, _uint32(factor))
    return hashes.take(pc.array_sort_indices(order))


def _mixed(hashes: Any, words: Any) -> Any:
    words = _rotated(pc.multiply(words, _uint32(0xCC9E2D51)), 15)
    words = pc.multiply(words, _uint32(0x1B873593))
    hashes = _rotated(pc.bit_wise_xor(hashes, words), 13)
    return pc.add(pc.multiply(hashes, _uint32(5)), _uint32(0xE6546B64))


def _rotated(words: Any, bits: int) -> Any:
    left, right = pc.shift_left(words, _uint32(bits)), pc.shift_right(words, _uint32(32 - bits))
    return pc.bit_wise_or(left, right)


def _uint32(value: int) -> Any:
    return pa.scalar(value, pa.uint32())


def _normalized(column: Any) -> Any:
    """Normalize floats: zero and NaN get a single representation, as in Spark's hashes."""
    zero, nan = pa.scalar(0.0, column.type), pa.scalar(float("nan"), column.type)
    column = pc.if_else(pc.equal(column, zero), zero, column)
    return pc.if_else(pc.is_nan(column), nan, column)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        name="hash",
        signature="hash(a, ...)",
        summary="The 32-bit Murmur3 hash of all values, an int; no arrays, maps and structs.",
        bind=_hashing(INTEGER),
        evaluate=_hash(_murmur3, pa.uint32()),
        null_handling="own",
    ),
    Function(
        name="xxhash64",
        signature="xxhash64(a, ...)",
        summary="The XXH64 hash of all values, a long; no arrays, maps and structs.",
        bind=_hashing(LONG),
        evaluate=_hash(_xxhash64, pa.uint64()),
        null_handling="own",
    ),
    Function(
        name="md5",
        signature="md5(s)",
        summary="The MD5 digest of a string or binary as 32 hexadecimal digits.",
        bind=_of_bytes(STRING),
        evaluate=_digest(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest()),
    ),
    Function(
        name="sha1",
        signature="sha1(s), sha(s)",
        summary="The SHA-1 digest of a string or binary as 40 hexadecimal digits.",
        bind=_of_bytes(STRING),
        evaluate=_digest(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest()),
        aliases=("sha",),
    ),
    Function(
        name="sha2",
        signature="sha2(s, bits)",
        summary=(
            "The SHA-2 digest as hexadecimal digits, with 224, 256 (or 0), 384 or 512 bits; NULL "
            "for other numbers of bits."
        ),
        bind=_sized_digest,
        evaluate=_digest(_sha2),
        null_handling="more",
    ),
    Function(
        name="crc32",
        signature="crc32(s)",
        summary="The CRC-32 checksum of a string or binary, a long.",
        bind=_of_bytes(LONG),
        evaluate=_digest(zlib.crc32),
    ),
)
