"""Offsets of Kafka partitions, and the JSON that Spark's Kafka source writes them in.

An offset names the next record to read: with records 0 to 5 in a partition, the end is 6. The JSON
is `{"topic": {"0": 23, "1": 5}}`, in options (`startingOffsets`, `endingOffsets`) as in
checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from bayou.errors import ArgumentError

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
