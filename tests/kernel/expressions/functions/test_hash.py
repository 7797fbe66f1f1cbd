"""Hashes of strings of every length, in batches of mixed lengths, with seeds from other columns."""

from __future__ import annotations

import struct

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.kernel.expressions.evaluation import evaluate
from bayou.kernel.expressions.model import call, col
from support.examples import examples

_WORD = 0xFFFFFFFF


def rotated(word, bits):
    return (word << bits | word >> (32 - bits)) & _WORD


def murmur3(data, seed):
    """The loop of Spark's Murmur3_x86_32: words, then each other byte as a signed word."""
    words = struct.unpack(f"<{len(data) // 4}i{len(data) % 4}b", data)
    h = seed
    for word in words:
        k = rotated(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
        h = (rotated(h ^ k, 13) * 5 + 0xE6546B64) & _WORD
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _WORD
    h = (h ^ h >> 13) * 0xC2B2AE35 & _WORD
    return h ^ h >> 16


ROWS = st.lists(
    st.tuples(st.none() | st.binary(max_size=40), st.none() | st.integers(-(2**63), 2**63 - 1)),
    max_size=20,
)


@settings(max_examples=examples(100))
@given(ROWS, st.integers(0, 3))
def test_strings_of_mixed_lengths_have_the_hash_of_each(rows, start):
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in rows], pa.binary()),
            pa.array([row[1] for row in rows], pa.int64()),
        ],
        ["data", "number"],
    ).slice(start)
    expected = []
    for data, number in rows[start:]:
        seed = 42
        if number is not None:
            seed = murmur3(struct.pack("<q", number), seed)
        if data is not None:
            seed = murmur3(data, seed)
        expected.append(seed - (1 << 32) if seed >= 1 << 31 else seed)
    assert evaluate(call("hash", col("number"), col("data")), batch).to_pylist() == expected
