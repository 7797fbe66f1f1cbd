from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bayou.spark.kafka.offsets import (
    OffsetRange,
    TopicPartition,
    divide_ranges,
    limit_offsets,
    split_ranges,
)

_sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=8)


def _partition(number):
    return TopicPartition("t", number)


def _ends(limit, sizes):
    start = {_partition(i): 100 for i in range(len(sizes))}
    end = {_partition(i): 100 + size for i, size in enumerate(sizes)}
    return [offset - 100 for offset in limit_offsets(limit, start, end).values()]


def test_a_limit_is_shared_in_proportion():
    assert _ends(100, [1000, 500, 500]) == [50, 25, 25]


def test_a_small_partition_is_not_starved():
    assert _ends(10, [100_000, 1, 0]) == [9, 1, 0]


def test_small_partitions_do_not_raise_the_limit():
    assert _ends(50, [70, 1, 1]) == [48, 1, 1]
    assert _ends(2, [9, 9, 9]) == [1, 1, 1]


def test_a_limit_above_what_is_there_takes_all():
    assert _ends(1000, [3, 4]) == [3, 4]


def test_offsets_beyond_the_exactness_of_floats_are_shared_exactly():
    assert _ends(2**60, [2**61, 2**61]) == [2**59, 2**59]


@given(st.integers(1, 10_000), _sizes)
def test_a_limited_batch_goes_on_and_stays_within_the_limit(limit, sizes):
    ends = _ends(limit, sizes)
    assert all(0 <= end <= size for end, size in zip(ends, sizes, strict=True))
    assert all(end > 0 for end, size in zip(ends, sizes, strict=True) if size)
    assert sum(ends) <= max(limit, sum(size > 0 for size in sizes))


@given(_sizes, st.none() | st.integers(1, 50), st.integers(1, 10_000))
def test_pieces_cover_the_ranges_exactly_once(sizes, min_partitions, max_records):
    ranges = [OffsetRange(_partition(i), 7, 7 + size) for i, size in enumerate(sizes)]
    pieces = split_ranges(ranges, min_partitions=min_partitions, max_records=max_records)
    offsets = [(p.partition, o) for p in pieces for o in range(p.start, p.end)]
    assert offsets == [(r.partition, o) for r in ranges for o in range(r.start, r.end)]
    assert all(0 < piece.size <= max_records for piece in pieces)
    if min_partitions is not None:
        assert len(pieces) >= min(min_partitions, sum(sizes))


def test_large_ranges_are_cut_and_small_ones_are_left():
    ranges = [OffsetRange(_partition(0), 0, 900), OffsetRange(_partition(1), 0, 10)]
    pieces = split_ranges(ranges, min_partitions=4, max_records=500_000)
    assert [(p.partition.partition, p.start, p.end) for p in pieces] == [
        (0, 0, 300), (0, 300, 600), (0, 600, 900), (1, 0, 10),
    ]  # fmt: skip


def test_without_wishes_a_partition_is_one_piece():
    ranges = [OffsetRange(_partition(0), 0, 900), OffsetRange(_partition(1), 5, 5)]
    assert split_ranges(ranges, min_partitions=None, max_records=1000) == ranges[:1]


@given(st.integers(1, 20), _sizes)
def test_shares_are_equal_and_cover_every_offset_once_in_order(count, sizes):
    ranges = [OffsetRange(_partition(i), 100, 100 + size) for i, size in enumerate(sizes)]
    shares = divide_ranges(ranges, count)
    offsets = [
        (r.partition.partition, offset)
        for share in shares
        for r in share
        for offset in range(r.start, r.end)
    ]
    assert offsets == [(i, 100 + n) for i, size in enumerate(sizes) for n in range(size)]
    totals = [sum(r.size for r in share) for share in shares]
    if sum(sizes) >= count:
        assert len(shares) == count
        assert max(totals) - min(totals) <= 1
