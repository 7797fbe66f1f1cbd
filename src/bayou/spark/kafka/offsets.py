"""Offsets of Kafka partitions: JSON format, limits for micro-batches, and ranges for tasks.

The position in a partition is given as the offset of the next record to read. For example, the end
offset of a partition with the records 0 to 5 is 6. As in Spark's Kafka source, the JSON is
`{"topic": {"0": 23, "1": 5}}`. Options (`startingOffsets`, `endingOffsets`) and checkpoints contain
this JSON.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bayou.errors import ArgumentError

EARLIEST_OFFSET = -2
"""Value in `startingOffsets` that stands for the first offset of a partition."""

LATEST_OFFSET = -1
"""Value in `startingOffsets` and `endingOffsets` that stands for the end offset of a partition."""


class TopicPartition(NamedTuple):
    """A partition of a topic.

    Examples:
        >>> offsets = {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): 0}
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r} partition {self.partition}"


class OffsetRange(NamedTuple):
    """A range of offsets in a partition: `start` <= offset < `end`.

    Examples:
        >>> records = OffsetRange(TopicPartition("orders", 0), 23, 100)
    """

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets; the number of records can be smaller, because offsets have gaps."""
        return self.end - self.start


def parse_offsets(text: str, option: str = "startingOffsets") -> dict[TopicPartition, int]:
    """Parse offsets from JSON.

    Args:
        option: name of the option that contains the JSON, for errors.

    Raises:
        ArgumentError: the string isn't the JSON of offsets.

    Examples:
        >>> parse_offsets('{"orders": {"0": 23, "1": -2}}')
    """
    return offsets_from_json(_load(text, option), option)


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Format offsets as JSON, sorted by topic and partition; equal offsets give equal strings.

    Examples:
        >>> format_offsets({TopicPartition("orders", 0): 23})
    """
    return json.dumps(offsets_to_json(offsets))


def offsets_from_json(data: Any, option: str = "offsets") -> dict[TopicPartition, int]:
    """Parse offsets from decoded JSON.

    Args:
        option: name of the option that contains the JSON, for errors.
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


def parse_timestamps(text: str, option: str) -> dict[TopicPartition, int]:
    """Parse timestamps from JSON such as `{"topic": {"0": 1735689600000}}`.

    Args:
        option: name of the option that contains the JSON, for errors.

    Raises:
        ArgumentError: the string isn't the JSON of timestamps.
    """
    malformed = ArgumentError(
        f'Option {option} must be JSON such as {{"topic": {{"0": 1735689600000}}}}: milliseconds '
        "since the epoch for each partition.",
        argument=option,
    )
    try:
        timestamps = offsets_from_json(_load(text, option), option)
    except ArgumentError as error:
        raise malformed from error
    if any(millis < 0 for millis in timestamps.values()):
        raise malformed
    return timestamps


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Convert offsets to a JSON object, sorted by topic and partition."""
    data: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        data.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return data


def parse_partitions(text: str, option: str = "assign") -> tuple[TopicPartition, ...]:
    """Parse partitions from JSON such as `{"topic": [0, 1]}`.

    Args:
        option: name of the option that contains the JSON, for errors.
    """
    data = _load(text, option)
    expected = f'Option {option} must be JSON such as {{"topic": [0, 1]}}.'
    if not isinstance(data, dict):
        raise ArgumentError(expected, argument=option)
    partitions: set[TopicPartition] = set()
    for topic, numbers in data.items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ArgumentError(expected, argument=option)
        partitions.update(TopicPartition(topic, number) for number in numbers)
    if not partitions:
        raise ArgumentError(f"Option {option} contains no partition. {expected}", argument=option)
    return tuple(sorted(partitions))


def _load(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentError(
            f"Option {option} isn't valid JSON: {error}. Correct the JSON.", argument=option
        ) from None


def _malformed(option: str) -> ArgumentError:
    return ArgumentError(
        f'Option {option} must be JSON such as {{"topic": {{"0": 23, "1": -2}}}}: an offset for '
        "each partition, -2 for earliest, -1 for latest.",
        argument=option,
    )


def limit_offsets(
    limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the end offset of each partition for a micro-batch of at most `limit` offsets.

    The limit is divided among the partitions in proportion to their available offsets. As in
    Spark's Kafka source, each partition with available offsets advances by at least one offset. The
    micro-batch therefore exceeds `limit` only if more than `limit` partitions have available
    offsets.

    Args:
        start: the first available offset of each partition.
        end: the end of the available offsets of each partition.
    """
    sizes = {partition: max(0, end[partition] - start[partition]) for partition in end}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    # Integer division is exact; a float has no exact values above 2^53.
    counts = {p: max(1, limit * size // total) for p, size in sizes.items() if size}
    excess = sum(counts.values()) - limit
    for partition in sorted(counts, key=lambda p: -counts[p]):
        if excess <= 0:
            break
        reduction = min(excess, counts[partition] - 1)
        counts[partition] -= reduction
        excess -= reduction
    return {p: start[p] + counts[p] if p in counts else end[p] for p in end}


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records: int
) -> list[OffsetRange]:
    """Split ranges so that each range has at most `max_records` offsets; empty ranges are omitted.

    If the result has fewer than `min_partitions` ranges, the largest ranges are split further.
    """
    non_empty = [r for r in ranges if r.size > 0]
    counts = [math.ceil(r.size / max_records) for r in non_empty]
    if min_partitions is not None:
        while sum(counts) < min_partitions:
            largest = max(
                range(len(non_empty)), key=lambda i: non_empty[i].size / counts[i], default=None
            )
            if largest is None or non_empty[largest].size <= counts[largest]:
                break
            counts[largest] += 1
    return [part for r, count in zip(non_empty, counts, strict=True) for part in _split(r, count)]


def divide_ranges(ranges: Iterable[OffsetRange], count: int) -> tuple[tuple[OffsetRange, ...], ...]:
    """Divide ranges among at most `count` tasks with about the same number of offsets each.

    Returns:
        The ranges of each task.
    """
    non_empty = [r for r in ranges if r.size > 0]
    total = sum(r.size for r in non_empty)
    boundaries = [total * i // count for i in range(1, count)]
    tasks: list[list[OffsetRange]] = [[] for _ in range(count)]
    position = 0  # number of offsets in all earlier ranges
    for partition, start, end in non_empty:
        inside = {b - position + start for b in boundaries if start < b - position + start < end}
        for first, last in itertools.pairwise(sorted({start, *inside, end})):
            task = bisect.bisect_right(boundaries, position + first - start)
            tasks[task].append(OffsetRange(partition, first, last))
        position += end - start
    return tuple(tuple(task) for task in tasks if task)


def _split(offset_range: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [offset_range.start + offset_range.size * i // count for i in range(count + 1)]
    return [
        OffsetRange(offset_range.partition, start, end) for start, end in itertools.pairwise(bounds)
    ]
