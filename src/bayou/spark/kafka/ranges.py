"""Arithmetic of offset ranges: how much a micro-batch takes, and how tasks share it."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping

from bayou.spark.kafka.offsets import OffsetRange, TopicPartition


def limit_offsets(
    limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Ends of a micro-batch of about `limit` offsets, shared in proportion to what each partition
    has.

    As in Spark's own source each partition that has records advances by at least one, so that a
    small one isn't starved; the total may thus pass the limit by the number of partitions.

    Args:
        start: where the batch starts; has every partition of `end`.
        end: where the records end.
    """
    sizes = {partition: max(0, end[partition] - start[partition]) for partition in end}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    # The quotients are exact: a float loses offsets beyond 2^53.
    return {
        partition: end[partition]
        if size == 0
        else start[partition] + min(size, max(1, limit * size // total))
        for partition, size in sizes.items()
    }


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records: int
) -> list[OffsetRange]:
    """Cuts ranges for tasks; empty ranges are left out.

    No piece is longer than `max_records`. Where there would be fewer than `min_partitions` pieces,
    the large ranges are cut further, each in proportion to its size.
    """
    full = [r for r in ranges if r.size > 0]
    counts = [math.ceil(r.size / max_records) for r in full]
    if min_partitions is not None:
        while sum(counts) < min_partitions:
            largest = max(range(len(full)), key=lambda i: full[i].size / counts[i], default=None)
            if largest is None or full[largest].size <= counts[largest]:
                break
            counts[largest] += 1
    return [piece for r, count in zip(full, counts, strict=True) for piece in _cut(r, count)]


def share_ranges(ranges: Iterable[OffsetRange], count: int) -> tuple[tuple[OffsetRange, ...], ...]:
    """Cuts ranges into `count` shares of equal size, in the order they come; none is empty."""
    full = [r for r in ranges if r.size > 0]
    total = sum(r.size for r in full)
    borders = [total * i // count for i in range(1, count)]
    shares: list[list[OffsetRange]] = [[] for _ in range(count)]
    position = 0  # of a range's first offset, counted over all ranges
    for partition, start, end in full:
        inside = {b - position + start for b in borders if start < b - position + start < end}
        for first, last in itertools.pairwise(sorted({start, *inside, end})):
            share = bisect.bisect_right(borders, position + first - start)
            shares[share].append(OffsetRange(partition, first, last))
        position += end - start
    return tuple(tuple(share) for share in shares if share)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.size * i // count for i in range(count + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in itertools.pairwise(bounds)]
