from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bayou.kernel.arrow.joined_batches import joined_batches


@given(st.lists(st.integers(0, 100_000), max_size=12), st.booleans())
def test_joined_batches_have_the_same_rows_in_their_order(lengths, gradual):
    rows = pa.table({"n": pa.array(range(sum(lengths)), pa.int64())})
    batches, start = [], 0
    for length in lengths:
        piece = rows.slice(start, length).combine_chunks()
        batches.extend(piece.to_batches() or [pa.record_batch({"n": pa.array([], pa.int64())})])
        start += length
    found = list(joined_batches(batches, gradual=gradual))
    assert pa.Table.from_batches(found, rows.schema).combine_chunks() == rows.combine_chunks()


def test_small_batches_become_one():
    small = pa.record_batch({"n": pa.array(range(100))})
    assert [batch.num_rows for batch in joined_batches([small] * 1000)] == [65_500, 34_500]


def test_a_reader_of_few_rows_reads_few_batches():
    read = []

    def batches():
        for number in range(1000):
            read.append(number)
            yield pa.record_batch({"n": pa.array(range(600))})

    with joined_batches(batches(), gradual=True) as found:
        assert next(found).num_rows == 600
        assert len(read) == 1
        assert [batch.num_rows for batch in found][:4] == [1200, 2400, 4800, 9600]


def test_batches_of_long_strings_are_not_joined_beyond_a_limit():
    long = pa.record_batch({"s": ["x" * (1 << 20)] * 6})
    assert [batch.num_rows for batch in joined_batches([long] * 7)] == [12, 12, 12, 6]


def test_batches_of_other_columns_are_not_joined():
    one, other = pa.record_batch({"a": [1], "b": [2]}), pa.record_batch({"b": [3], "a": [4]})
    assert list(joined_batches([one, one, other, one])) == [
        pa.record_batch({"a": [1, 1], "b": [2, 2]}),
        other,
        one,
    ]
