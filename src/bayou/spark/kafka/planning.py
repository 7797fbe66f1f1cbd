"""Planning of reads: determines offset ranges and distributes them over tasks.

`KafkaTasks` lets Python code in tasks read Kafka directly. With the data source, the rows would
pass from the Python process of the source through the JVM to a second Python process.
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
    divide_ranges,
    format_offsets,
    split_ranges,
)
from bayou.spark.kafka.options import (
    KafkaSourceOptions,
    Position,
    TimestampPosition,
    parse_options,
)


class KafkaInputPartition(InputPartition):
    """The offset range that a Spark task reads."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.offsets = offsets

    def __repr__(self) -> str:
        (topic, number), start, end = self.offsets
        return f"KafkaInputPartition({topic}-{number}, {start} to {end})"


def selected_partitions(cluster: KafkaCluster, options: KafkaSourceOptions) -> list[TopicPartition]:
    """Return the partitions to read.

    Raises:
        KafkaError: a selected topic or partition doesn't exist.
    """
    selection = options.selection
    partitions = cluster.partitions(selection)
    topics = {p.topic for p in partitions}
    missing = [topic for topic in selection.topics if topic not in topics]
    missing += [str(p) for p in selection.partitions if p not in partitions]
    if missing or not partitions:
        problem = f"not found: {', '.join(missing)}" if missing else f"no topic matches {selection}"
        raise KafkaError(
            f"Kafka brokers {options.properties.bootstrap_servers}: {problem}. Check the name, "
            "create the topic, or check that the user may describe it (ACL).",
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
    """Convert the start or end of a read to an offset of each partition.

    Args:
        option: name of the option that contains the position, for errors.
    """
    if position == "earliest":
        return cluster.require_offsets(cluster.earliest(partitions), partitions)
    if position == "latest":
        return cluster.require_offsets(cluster.latest(partitions), partitions)
    if isinstance(position, TimestampPosition):
        return _at_timestamps(position, partitions, cluster, options)
    assert isinstance(position, Mapping)
    if set(position) != set(partitions):
        raise ArgumentError(
            f"Option {option} must contain each partition once. It is {format_offsets(position)}, "
            f"but {options.selection} has {_names(partitions)}. Add an offset for each partition: "
            "-2 for earliest, -1 for latest.",
            argument=option,
        )
    earliest = cluster.require_offsets(cluster.earliest(partitions), partitions)
    latest = cluster.require_offsets(cluster.latest(partitions), partitions)
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
                    f"{partition}: {option} is {offset}, but the partition has offsets {low} to "
                    f"{high - 1}",
                    partition.topic,
                )
            resolved[partition] = min(max(offset, low), high)
    return resolved


def _at_timestamps(
    position: TimestampPosition,
    partitions: list[TopicPartition],
    cluster: KafkaCluster,
    options: KafkaSourceOptions,
) -> dict[TopicPartition, int]:
    timestamps, option = position.timestamps, position.option
    if isinstance(timestamps, int):
        timestamps = dict.fromkeys(partitions, timestamps)
    elif set(timestamps) != set(partitions):
        raise ArgumentError(
            f"Option {option} must contain each partition once. It has {_names(list(timestamps))}, "
            f"but {options.selection} has {_names(partitions)}. Set a timestamp for each "
            "partition.",
            argument=option,
        )
    offsets = cluster.at(timestamps)
    without_record = sorted(p for p, offset in offsets.items() if offset is None)
    if without_record and not position.or_latest:
        raise ArgumentError(
            f"Option {option}: {without_record[0]} has no record at or after "
            f"{timestamps[without_record[0]]}. Set an earlier timestamp, or set "
            "startingOffsetsByTimestampStrategy to latest.",
            argument=option,
        )
    ends = (
        cluster.require_offsets(cluster.latest(without_record), without_record)
        if without_record
        else {}
    )
    return {p: ends[p] if offset is None else offset for p, offset in offsets.items()}


def check_starts(
    ranges: Iterable[OffsetRange], cluster: KafkaCluster, loss: DataLoss
) -> list[OffsetRange]:
    """Report missing offsets at the start of ranges, and return the ranges without these offsets.

    If a partition no longer exists, all offsets of its ranges are missing.
    """
    ranges = [r for r in ranges if r.size > 0]
    earliest = cluster.earliest([r.partition for r in ranges])
    checked: list[OffsetRange] = []
    for partition, start, end in ranges:
        low = earliest.get(partition)
        if low is None:
            loss.report(
                f"{partition}: the partition doesn't exist any more, and offsets {start} to "
                f"{end - 1} are missing",
                partition.topic,
            )
            continue
        if low > start:
            loss.report(
                f"{partition}: offsets {start} to {min(low, end) - 1} are missing, the partition "
                f"starts at {low}",
                partition.topic,
            )
        checked.append(OffsetRange(partition, max(start, low), end))
    return checked


def input_partitions(
    ranges: Iterable[OffsetRange], options: KafkaSourceOptions
) -> list[InputPartition]:
    """Split offset ranges into input partitions, one for each task."""
    splits = split_ranges(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    return [KafkaInputPartition(split) for split in splits]


def _names(partitions: list[TopicPartition]) -> str:
    names = ", ".join(f"{p.topic}-{p.partition}" for p in partitions[:20])
    return names if len(partitions) <= 20 else f"{names} and {len(partitions) - 20} more"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTasks:
    """The offset ranges of each task of a read; created by `KafkaTasks.of`, can be pickled.

    Attributes:
        tasks: the ranges of each task, by index of the task. Each task has at least one range.
        options: the options of the source `bayou-kafka`.
    """

    tasks: tuple[tuple[OffsetRange, ...], ...]
    options: KafkaSourceOptions

    @classmethod
    def of(
        cls, options: Mapping[str, str], ranges: Sequence[OffsetRange], *, tasks: int
    ) -> KafkaTasks:
        """Divide ranges among tasks that read about the same number of offsets each.

        Args:
            options: options of the source `bayou-kafka`.
            tasks: target number of tasks, such as the number of tasks that run at once. For few
                offsets, there are fewer tasks. If a task would exceed `maxRecordsPerPartition`,
                there are more tasks.

        Raises:
            ArgumentError: an option is unknown or invalid.
        """
        parsed = parse_options(options)
        size = sum(r.size for r in ranges)
        count = max(
            math.ceil(size / parsed.max_records_per_partition),
            min(tasks, math.ceil(size / _MIN_TASK_RECORDS)),
        )
        return cls(tasks=divide_ranges(ranges, count), options=parsed)

    def read(self, task: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's ranges as batches with the columns of `packed_schema`.

        Called in the task.

        Args:
            task: the index of the task.

        Raises:
            KafkaError: records are missing and `failOnDataLoss` is set, or no record arrives within
                the timeout.
        """
        for offsets in self.tasks[task]:
            yield from read_range(offsets, self.options, packed_schema())


_MIN_TASK_RECORDS = 2_000
"""Minimum number of offsets of a task, unless the whole read has fewer offsets."""
