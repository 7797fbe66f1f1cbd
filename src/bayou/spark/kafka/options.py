"""Options of the Kafka source, with the names of Spark's Kafka source."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from bayou.errors import ArgumentError
from bayou.spark.kafka.client import PREFIX, KafkaProperties, parse_properties
from bayou.spark.kafka.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    TopicPartition,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampPosition:
    """The start or end of a read: in each partition, the first record at or after a timestamp.

    Attributes:
        timestamps: one timestamp for all partitions, or a timestamp for each partition; in
            milliseconds since the epoch.
        option: name of the option that contains the timestamps, for errors.
        or_latest: whether the end of a partition is used if all of its records are older than the
            timestamp. If false, this case is an error.
    """

    timestamps: int | Mapping[TopicPartition, int]
    option: str
    or_latest: bool


Position: TypeAlias = (
    Literal["earliest", "latest"] | Mapping[TopicPartition, int] | TimestampPosition
)
"""The start or end of a read.

A mapping contains the offset of each partition, where -2 means earliest and -1 means latest.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """The selection of partitions to read; exactly one attribute is set.

    Attributes:
        topics: topics to read with all partitions (option `subscribe`).
        pattern: regular expression (option `subscribePattern`). All partitions of a topic are read
            if the expression matches the topic's whole name.
        partitions: the partitions to read (option `assign`).
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern!r}"
        if self.partitions:
            return "assign " + ", ".join(f"{p.topic}-{p.partition}" for p in self.partitions)
        return "subscribe " + ", ".join(self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceOptions:
    """The validated options of the source, as returned by `parse_options`.

    `max_trigger_delay` and `max_record_delay` limit how long a batch waits for
    `min_offsets_per_trigger` offsets. After this time, the batch runs with fewer offsets.

    Attributes:
        max_trigger_delay: maximum time between two batches, in seconds. Ignored if
            `max_record_delay` is set.
        max_record_delay: maximum time that an available record waits for a batch, in seconds.
        max_records_per_partition: maximum number of offsets of a Spark partition.
        timeout: maximum time that a task waits for a record, in seconds. Lookups of offsets during
            planning have the same timeout, but at most 30 s.
    """

    selection: TopicSelection
    properties: KafkaProperties
    starting_offsets: Position | None
    ending_offsets: Position | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    max_record_delay: float | None
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int
    timeout: float
    group_id_prefix: str

    @property
    def planning_timeout(self) -> float:
        return min(self.timeout, 30.0)

    def batch_range(self) -> tuple[Position, Position]:
        """Return the start and the end of a batch query.

        Raises:
            ArgumentError: the start is latest, or the end is earliest.
        """
        start = self.starting_offsets or "earliest"
        end = self.ending_offsets or "latest"
        if start == "latest" or (isinstance(start, Mapping) and LATEST_OFFSET in start.values()):
            raise ArgumentError(
                "Option startingOffsets can't be latest (-1) in a batch query, because the query "
                "would read no records. Set it to earliest, or to offsets.",
                argument="startingOffsets",
            )
        if end == "earliest" or (isinstance(end, Mapping) and EARLIEST_OFFSET in end.values()):
            raise ArgumentError(
                "Option endingOffsets can't be earliest (-2), because the query would read no "
                "records. Set it to latest, or to offsets.",
                argument="endingOffsets",
            )
        return start, end

    def stream_start(self) -> Position:
        """Return the start of a new streaming query.

        Raises:
            ArgumentError: an option sets the end of the read. A streaming query can't have an end.
        """
        if self.ending_offsets is not None:
            position = self.ending_offsets
            name = position.option if isinstance(position, TimestampPosition) else "endingOffsets"
            raise ArgumentError(
                f"Option {name} isn't valid in a streaming query. Remove it; to stop after the "
                "available records, use trigger(availableNow=True).",
                argument=name,
            )
        return self.starting_offsets or "latest"


def parse_options(options: Mapping[str, str]) -> KafkaSourceOptions:
    """Parse and validate the options of the source; names are case-insensitive."""
    values = {name.lower(): value for name, value in options.items()}
    _check_names(values)
    max_offsets = _get(values, "maxOffsetsPerTrigger", _positive)
    min_offsets = _get(values, "minOffsetsPerTrigger", _positive)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise ArgumentError(
            f"Option minOffsetsPerTrigger ({min_offsets}) is higher than maxOffsetsPerTrigger "
            f"({max_offsets}). Lower minOffsetsPerTrigger.",
            argument="minOffsetsPerTrigger",
        )
    delay = _get(values, "maxTriggerDelay", _duration)
    data_loss = _get(values, "failOnDataLoss", _flag)
    headers = _get(values, "includeHeaders", _flag)
    timeout = _get(values, "kafkaConsumer.pollTimeoutMs", _positive)
    return KafkaSourceOptions(
        selection=_selection(values),
        properties=parse_properties(
            {
                name[len(PREFIX) :]: value
                for name, value in values.items()
                if name.startswith(PREFIX)
            }
        ),
        starting_offsets=_timestamps(values, "starting", or_latest=_start_strategy(values))
        or _get(values, "startingOffsets", _position),
        ending_offsets=_timestamps(values, "ending", or_latest=True)
        or _get(values, "endingOffsets", _position),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay=900.0 if delay is None else delay,
        max_record_delay=_get(values, "maxRecordDelay", _duration),
        fail_on_data_loss=True if data_loss is None else data_loss,
        include_headers=bool(headers),
        min_partitions=_get(values, "minPartitions", _positive),
        max_records_per_partition=_get(values, "maxRecordsPerPartition", _positive)
        or _RECORDS_PER_PARTITION,
        timeout=120.0 if timeout is None else timeout / 1000,
        group_id_prefix=values.get("groupidprefix", "bayou-kafka-source"),
    )


def _check_names(values: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in _KNOWN}
    for name in values:
        if name.startswith(PREFIX) or name in known:
            continue
        near = difflib.get_close_matches(name, [*known, "kafka.bootstrap.servers"], n=1)
        hint = f" Did you mean {known.get(near[0], near[0])}?" if near else ""
        raise ArgumentError(
            f"Option {name} isn't an option of the Kafka source.{hint} Client properties start "
            "with the prefix kafka.",
            argument=name,
        )


def _selection(values: Mapping[str, str]) -> TopicSelection:
    names = [n for n in ("subscribe", "subscribePattern", "assign") if n.lower() in values]
    if len(names) != 1:
        count = f"{' and '.join(names)} are set" if names else "none is set"
        raise ArgumentError(
            f"Options subscribe, subscribePattern and assign: {count}. Set exactly one of them.",
            argument="subscribe",
        )
    value = values[names[0].lower()].strip()
    if names[0] == "assign":
        return TopicSelection(partitions=parse_partitions(value))
    if names[0] == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise ArgumentError(
                f"Option subscribePattern isn't a regular expression: {error}.",
                argument="subscribePattern",
            ) from None
        return TopicSelection(pattern=value)
    topics = tuple(dict.fromkeys(t.strip() for t in value.split(",") if t.strip()))
    if not topics:
        raise ArgumentError(
            "Option subscribe contains no topic. Set it to topics, separated by commas.",
            argument="subscribe",
        )
    return TopicSelection(topics=topics)


_T = TypeVar("_T")


def _get(values: Mapping[str, str], name: str, parse: Callable[[str, str], _T]) -> _T | None:
    value = values.get(name.lower())
    return None if value is None else parse(value.strip(), name)


def _position(value: str, name: str) -> Position:
    match value.lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
    if not value.startswith("{"):
        raise _invalid(name, 'earliest, latest, or JSON such as {"topic": {"0": 23}}', value)
    return parse_offsets(value, name)


def _timestamps(
    values: Mapping[str, str], bound: Literal["starting", "ending"], *, or_latest: bool
) -> TimestampPosition | None:
    """Return the start or end that a timestamp option sets; None if no such option is set.

    An option with one timestamp for all partitions takes precedence over an option with timestamps
    by partition.

    Args:
        bound: prefix of the options: `starting` or `ending`.
        or_latest: value of the attribute `or_latest` of the result.
    """
    name = f"{bound}Timestamp"
    timestamps: int | Mapping[TopicPartition, int] | None = _get(values, name, _millis)
    if timestamps is None:
        name = f"{bound}OffsetsByTimestamp"
        timestamps = _get(values, name, parse_timestamps)
    if timestamps is None:
        return None
    return TimestampPosition(timestamps=timestamps, option=name, or_latest=or_latest)


def _start_strategy(values: Mapping[str, str]) -> bool:
    """Whether the option `startingOffsetsByTimestampStrategy` is `latest`, and not `error`.

    The result is the attribute `or_latest` of the `TimestampPosition` at which the read starts.
    """
    name = "startingOffsetsByTimestampStrategy"
    strategy = values.get(name.lower(), "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise _invalid(name, "error or latest", strategy)
    return strategy == "latest"


def _millis(value: str, name: str) -> int:
    if not value.isdecimal():
        raise _invalid(name, "a timestamp in milliseconds since the epoch", value)
    return int(value)


def _positive(value: str, name: str) -> int:
    if not value.isdecimal() or int(value) == 0:
        raise _invalid(name, "a positive integer", value)
    return int(value)


def _flag(value: str, name: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _invalid(name, "true or false", value)
    return value.lower() == "true"


def _duration(value: str, name: str) -> float:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.lower())
    if match is None or match[2] not in _SECONDS:
        raise _invalid(name, "a duration such as 500ms, 30s, 15m or 1h", value)
    return int(match[1]) * _SECONDS[match[2]]


def _invalid(name: str, expected: str, value: str) -> ArgumentError:
    return ArgumentError(f"Option {name} must be {expected}, not {value!r}.", argument=name)


_RECORDS_PER_PARTITION = 500_000

_SECONDS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}

_KNOWN = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordDelay",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
    # Options for retries of offset lookups. They are ignored, because librdkafka retries.
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
