"""From options and offsets to the ranges that tasks read, with the checks for lost records.

A set of offset ranges that tasks of our own read, each its share, without a data source.

What a Python data source reads goes through the JVM, row by row, before another Python process of
the same task sees it. A task that reads its share itself spares both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from bayou.errors import ArgumentError, KafkaError
from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.columns import packed_schema
from bayou.spark.kafka.consumer import read_range
from bayou.spark.kafka.data_loss import DataLoss
from bayou.spark.kafka.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    OffsetRange,
    TopicPartition,
    format_offsets,
    share_ranges,
    split_ranges,
)
from bayou.spark.kafka.options import KafkaSourceOptions, Position, parse_options

__all__ = ["KafkaShares"]


class KafkaInputPartition(InputPartition):
    """The range that one Spark task reads."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.offsets = offsets

    def __repr__(self) -> str:
        (topic, number), start, end = self.offsets
        return f"KafkaInputPartition({topic}-{number}, {start} to {end})"


def selected_partitions(cluster: KafkaCluster, options: KafkaSourceOptions) -> list[TopicPartition]:
    """The partitions to read.

    Raises:
        KafkaError: a topic or partition that the options name doesn't exist, or none matches.
    """
    selection = options.selection
    partitions = cluster.partitions(selection)
    topics = {p.topic for p in partitions}
    missing = [topic for topic in selection.topics if topic not in topics]
    missing += [str(p) for p in selection.partitions if p not in partitions]
    if missing or not partitions:
        named = ", ".join(missing) if missing else f"no topic for {selection}"
        raise KafkaError(
            f"Not found on the Kafka brokers {options.properties.bootstrap_servers}: {named}. "
            "Check the name, create the topic, or see whether this user may describe it.",
            topic=missing[0] if len(missing) == 1 and selection.topics else None,
        )
    return partitions


def resolve_position(
    position: Position,
    partitions: list[TopicPartition],
    cluster: KafkaCluster,
    options: KafkaSourceOptions,
    option: str,
) -> dict[TopicPartition, int]:
    """Offsets of a position for exactly these partitions.

    Raises:
        ArgumentError: offsets are given for other partitions than these; names `option`.
        KafkaError: an offset is outside of what is there and `failOnDataLoss` holds.
    """
    if position == "earliest":
        return cluster.earliest(partitions)
    if position == "latest":
        return cluster.latest(partitions)
    assert isinstance(position, Mapping)
    if set(position) != set(partitions):
        raise ArgumentError(
            f"Option {option} must name each partition once. It says {format_offsets(position)}, "
            f"but {options.selection} has {_names(partitions)}. Write -2 for earliest, -1 for "
            "latest.",
            argument=option,
        )
    earliest = cluster.earliest(partitions)
    latest = cluster.latest(partitions)
    loss = DataLoss(options.fail_on_data_loss)
    resolved: dict[TopicPartition, int] = {}
    for partition, offset in position.items():
        low, high = earliest[partition], latest[partition]
        if offset == EARLIEST_OFFSET:
            resolved[partition] = low
        elif offset == LATEST_OFFSET:
            resolved[partition] = high
        else:
            if not low <= offset <= high:
                loss.report(
                    f"{option} of {partition} is {offset}, but it has offsets {low} to {high - 1}",
                    partition.topic,
                )
            resolved[partition] = min(max(offset, low), high)
    return resolved


def check_starts(
    ranges: Iterable[OffsetRange], cluster: KafkaCluster, loss: DataLoss
) -> list[OffsetRange]:
    """The ranges as far as Kafka still has their records.

    Raises:
        KafkaError: records are gone and `failOnDataLoss` holds.
    """
    ranges = [r for r in ranges if r.size > 0]
    earliest = cluster.earliest([r.partition for r in ranges])
    checked: list[OffsetRange] = []
    for partition, start, end in ranges:
        low = earliest.get(partition)
        if low is None:
            loss.report(f"{partition} is gone with offsets {start} to {end - 1}", partition.topic)
            continue
        if low > start:
            loss.report(
                f"{partition}: offsets {start} to {min(low, end) - 1} were to be read, but it "
                f"starts at {low}",
                partition.topic,
            )
        checked.append(OffsetRange(partition, max(start, low), end))
    return checked


def input_partitions(
    ranges: Iterable[OffsetRange], options: KafkaSourceOptions
) -> list[InputPartition]:
    """The ranges cut for tasks."""
    pieces = split_ranges(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    return [KafkaInputPartition(piece) for piece in pieces]


def _names(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(f"{p.topic}-{p.partition}" for p in partitions[:20])
    return shown if len(partitions) <= 20 else f"{shown} and {len(partitions) - 20} more"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaShares:
    """What is to be read, by task. Pickles; `of` makes it.

    Attributes:
        shares: the ranges of each task, none of them without any.
        options: how to reach the brokers.
    """

    shares: tuple[tuple[OffsetRange, ...], ...]
    options: KafkaSourceOptions

    @classmethod
    def of(
        cls, options: Mapping[str, str], ranges: Sequence[OffsetRange], *, tasks: int
    ) -> KafkaShares:
        """Cut ranges for tasks, so that each has as many offsets as the others.

        Args:
            options: those of the source `bayou-kafka`.
            ranges: what to read.
            tasks: how many tasks run at once. There are fewer where a share would be tiny, and more
                where one would pass `maxRecordsPerPartition`.

        Raises:
            ArgumentError: an option that the source doesn't have.
        """
        parsed = parse_options(options)
        size = sum(r.size for r in ranges)
        count = max(
            math.ceil(size / parsed.max_records_per_partition),
            min(tasks, math.ceil(size / _LEAST_RECORDS)),
        )
        return cls(shares=share_ranges(ranges, count), options=parsed)

    def read(self, share: int) -> Iterator[pa.RecordBatch]:
        """The records of a share, range by range; to be called in a task.

        Returns:
            Batches of all columns of the source but `timestampType`, headers packed.

        Raises:
            KafkaError: records are gone and `failOnDataLoss` holds, or nothing came in time.
        """
        for offsets in self.shares[share]:
            yield from read_range(offsets, self.options, packed_schema())


_LEAST_RECORDS = 2_000
"""Offsets for which a task of their own isn't worth its start."""
