"""Offsets of Kafka partitions, and the JSON that Spark's Kafka source writes them in.

An offset names the next record to read: with records 0 to 5 in a partition, the end is 6. The JSON
is `{"topic": {"0": 23, "1": 5}}`, in options (`startingOffsets`, `endingOffsets`) as in
checkpoints.

Arithmetic of offset ranges: how much a micro-batch takes, and how tasks share it.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bayou.errors import ArgumentError

__all__ = []


EARLIEST_OFFSET = -2
"""In `startingOffsets`: from the first record that is there."""

LATEST_OFFSET = -1
"""In `startingOffsets` and `endingOffsets`: behind the last record that is there."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r} partition {self.partition}"


class OffsetRange(NamedTuple):
    """Records of one partition with `start` <= offset < `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets, which is at least the number of records: offsets have gaps."""
        return self.end - self.start


def parse_offsets(text: str, option: str = "startingOffsets") -> dict[TopicPartition, int]:
    """Reads offsets as JSON text.

    Raises:
        ArgumentError: the text isn't offsets; names `option`.
    """
    return offsets_from_json(_load(text, option), option)


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Writes offsets as JSON text, in order, so that equal offsets are equal text."""
    return json.dumps(offsets_to_json(offsets))


def offsets_from_json(data: Any, option: str = "offsets") -> dict[TopicPartition, int]:
    """Reads offsets from decoded JSON.

    Raises:
        ArgumentError: these aren't offsets; names `option`.
    """
    if not isinstance(data, dict):
        raise _malformed(option)
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in data.items():
        if not isinstance(partitions, dict):
            raise _malformed(option)
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST_OFFSET:
                raise _malformed(option)
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The JSON object of offsets, topics and partitions in order."""
    data: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        data.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return data


def parse_partitions(text: str, option: str = "assign") -> tuple[TopicPartition, ...]:
    """Reads partitions as JSON text, such as `{"topic": [0, 1]}`.

    Raises:
        ArgumentError: the text isn't partitions; names `option`.
    """
    data = _load(text, option)
    shape = f'Option {option} must be JSON such as {{"topic": [0, 1]}}.'
    if not isinstance(data, dict):
        raise ArgumentError(shape, argument=option)
    partitions: set[TopicPartition] = set()
    for topic, numbers in data.items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ArgumentError(shape, argument=option)
        partitions.update(TopicPartition(topic, number) for number in numbers)
    if not partitions:
        raise ArgumentError(f"Option {option} names no partition. {shape}", argument=option)
    return tuple(sorted(partitions))


def _load(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentError(
            f"Option {option} isn't valid JSON: {error}.", argument=option
        ) from None


def _malformed(option: str) -> ArgumentError:
    return ArgumentError(
        f'Option {option} must be JSON such as {{"topic": {{"0": 23, "1": -2}}}}: an offset for '
        "each "
        "partition, -2 for earliest, -1 for latest.",
        argument=option,
    )


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
