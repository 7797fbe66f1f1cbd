"""Hash functions and digests."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from decimal import Context
from types import ModuleType
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions import murmur3, xxhash64
from bayou.kernel.expressions.functions.bitwise import ByteColumn
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

__all__ = ["FUNCTIONS"]

_repeated: Any = pa.repeat

_SEED = 42
_MAX_LONG_DIGITS = 18
_CONTEXT = Context(prec=40)


def _of_bytes(result: DataType) -> Callable[[Call], Binding]:
    def bind(call: Call) -> Binding:
        if len(call.types) != 1:
            raise call.error("it takes 1 argument")
        return Binding(arguments=(_bytes(call),), result=result)

    return bind


def _bytes(call: Call) -> DataType:
    if call.types[0] not in (STRING, BINARY, VOID):
        raise call.error("it takes a string or binary")
    return BINARY


def _digest(function: Callable[..., str | int | None]) -> Any:
    return lambda values, result: rowwise(function, result, *values)


def _sized_digest(call: Call) -> Binding:
    if len(call.types) != 2:
        raise call.error("it takes 2 arguments")
    bits = argument_type(call, call.types[1], INTEGER)
    return Binding(arguments=(_bytes(call), bits), result=STRING)


def _sha2(data: bytes, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, data).hexdigest()


def _hashing(result: DataType) -> Callable[[Call], Binding]:
    def bind(call: Call) -> Binding:
        if not call.types:
            raise call.error("it takes 1 argument or more")
        if any(t != VOID and kind_of(t) is None for t in call.types):
            raise call.error("hashes of arrays, maps, structs and variants aren't supported")
        return Binding(arguments=call.types, result=result)

    return bind


def _hash(algorithm: ModuleType, unsigned: Any) -> Any:
    """The hash of all values of a row: each hash is the next seed, and nulls are skipped."""

    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        length = next(len(v) for v in values if not isinstance(v, pa.Scalar))
        hashes: Any = _repeated(pa.scalar(_SEED, unsigned), length)
        for value in values:
            column: Any = _repeated(value, length) if isinstance(value, pa.Scalar) else value
            if column.null_count == length:
                continue
            rows = pc.indices_nonzero(pc.is_valid(column)).cast(pa.int64())
            updated = _column_hash(algorithm, column.drop_null(), hashes.take(rows))
            if column.null_count == 0:
                hashes = updated
            else:
                hashes = pc.replace_with_mask(hashes, pc.is_valid(column), updated)
        return hashes.view(result)

    return evaluate


def _column_hash(algorithm: ModuleType, column: Any, seeds: Any) -> Any:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes_hash(algorithm, column, seeds)
    if pa.types.is_decimal(kind):
        unscaled = [int(v.scaleb(kind.scale, _CONTEXT)) for v in column.to_pylist()]
        if kind.precision <= _MAX_LONG_DIGITS:
            longs = pa.array(unscaled, pa.int64()).view(pa.uint64())
            return algorithm.hashed_longs(longs, seeds)
        byte_strings = [
            n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
            for n in unscaled
        ]
        return _bytes_hash(algorithm, pa.array(byte_strings, pa.binary()), seeds)
    if pa.types.is_floating(kind):
        column = _normalized(column)
    elif pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind.bit_width < 32):
        column = column.cast(pa.int32())
    if column.type.bit_width == 32:
        return algorithm.hashed_ints(column.view(pa.uint32()), seeds)
    return algorithm.hashed_longs(column.view(pa.uint64()), seeds)


def _bytes_hash(algorithm: ModuleType, column: Any, seeds: Any) -> Any:
    sorted_bytes = ByteColumn(column)
    hashes = algorithm.hashed_bytes(sorted_bytes, seeds.take(sorted_bytes.order))
    return hashes.take(pc.array_sort_indices(sorted_bytes.order))


def _normalized(column: Any) -> Any:
    """Floats with a single representation of zero and NaN."""
    zero, nan = pa.scalar(0.0, column.type), pa.scalar(float("nan"), column.type)
    column = pc.if_else(pc.equal(column, zero), zero, column)
    return pc.if_else(pc.is_nan(column), nan, column)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        name="hash",
        signature="hash(a, ...)",
        summary="The 32-bit Murmur3 hash of all values, an int; no arrays, maps and structs.",
        bind=_hashing(INTEGER),
        evaluate=_hash(murmur3, pa.uint32()),
        null_handling="own",
    ),
    Function(
        name="xxhash64",
        signature="xxhash64(a, ...)",
        summary="The XXH64 hash of all values, a long; no arrays, maps and structs.",
        bind=_hashing(LONG),
        evaluate=_hash(xxhash64, pa.uint64()),
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
