"""Options of the source, in the names of Spark's own Kafka source."""

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
)

Position: TypeAlias = Literal["earliest", "latest"] | Mapping[TopicPartition, int]
"""Where to start or end: all partitions alike, or an offset for each (-2, -1 as in the JSON)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """Which partitions to read; exactly one of the three is set.

    Attributes:
        topics: option `subscribe`: all partitions of these topics.
        pattern: option `subscribePattern`: all partitions of topics whose whole name matches.
        partitions: option `assign`: these partitions.
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
    """The options, checked. Made by `parse_options`.

    Attributes:
        max_trigger_delay: seconds after which `min_offsets_per_trigger` no longer holds a batch
            back, from the last batch on.
        max_record_delay: the same, from the first record that waits on; it goes before the other.
        min_partitions: least number of Spark partitions to read with.
        max_records_per_partition: most offsets of one Spark partition.
        timeout: seconds that reading waits for a record; planning waits 30 s at most.
        group_id_prefix: what consumer groups are called in the broker's logs and access rules.
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
        """Where a batch query starts and ends.

        Raises:
            ArgumentError: it would start at the end, or end at the start.
        """
        start = self.starting_offsets or "earliest"
        end = self.ending_offsets or "latest"
        if start == "latest" or (isinstance(start, Mapping) and LATEST_OFFSET in start.values()):
            raise ArgumentError(
                "Option startingOffsets can't be latest (-1) in a batch query: it would read "
                "nothing. Write earliest or offsets.",
                argument="startingOffsets",
            )
        if end == "earliest" or (isinstance(end, Mapping) and EARLIEST_OFFSET in end.values()):
            raise ArgumentError(
                "Option endingOffsets can't be earliest (-2): the query would read nothing. "
                "Write latest or offsets.",
                argument="endingOffsets",
            )
        return start, end

    def stream_start(self) -> Position:
        """Where a streaming query without a checkpoint starts.

        Raises:
            ArgumentError: `endingOffsets` is set.
        """
        if self.ending_offsets is not None:
            raise ArgumentError(
                "Option endingOffsets isn't valid in a streaming query. Leave it out; to stop at "
                "the end of what is there, use trigger(availableNow=True).",
                argument="endingOffsets",
            )
        return self.starting_offsets or "latest"


def parse_options(options: Mapping[str, str]) -> KafkaSourceOptions:
    """Reads and checks the options a user gave; names in any case.

    Raises:
        ArgumentError: names the option at fault and what to write.
    """
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    max_offsets = _get(given, "maxOffsetsPerTrigger", _positive)
    min_offsets = _get(given, "minOffsetsPerTrigger", _positive)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise ArgumentError(
            f"Option minOffsetsPerTrigger ({min_offsets}) is higher than maxOffsetsPerTrigger "
            f"({max_offsets}).",
            argument="minOffsetsPerTrigger",
        )
    delay = _get(given, "maxTriggerDelay", _duration)
    data_loss = _get(given, "failOnDataLoss", _flag)
    headers = _get(given, "includeHeaders", _flag)
    timeout = _get(given, "kafkaConsumer.pollTimeoutMs", _positive)
    return KafkaSourceOptions(
        selection=_selection(given),
        properties=parse_properties(
            {name[len(PREFIX) :]: text for name, text in given.items() if name.startswith(PREFIX)}
        ),
        starting_offsets=_get(given, "startingOffsets", _position),
        ending_offsets=_get(given, "endingOffsets", _position),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay=900.0 if delay is None else delay,
        max_record_delay=_get(given, "maxRecordDelay", _duration),
        fail_on_data_loss=True if data_loss is None else data_loss,
        include_headers=bool(headers),
        min_partitions=_get(given, "minPartitions", _positive),
        max_records_per_partition=_get(given, "maxRecordsPerPartition", _positive)
        or _RECORDS_PER_PARTITION,
        timeout=120.0 if timeout is None else timeout / 1000,
        group_id_prefix=given.get("groupidprefix", "bayou-kafka-source"),
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in _KNOWN}
    for name in given:
        if name.startswith(PREFIX) or name in known:
            continue
        if name in _UNSUPPORTED:
            raise ArgumentError(
                f"Option {name} of Spark's Kafka source isn't supported. Write startingOffsets and "
                "endingOffsets.",
                argument=name,
            )
        near = difflib.get_close_matches(name, [*known, "kafka.bootstrap.servers"], n=1)
        hint = f" Did you mean {known.get(near[0], near[0])}?" if near else ""
        raise ArgumentError(
            f"Option {name} isn't one of the Kafka source.{hint} Properties of the Kafka client "
            "start with kafka.",
            argument=name,
        )


def _selection(given: Mapping[str, str]) -> TopicSelection:
    names = [n for n in ("subscribe", "subscribePattern", "assign") if n.lower() in given]
    if len(names) != 1:
        found = f"{' and '.join(names)} are given" if names else "none is given"
        raise ArgumentError(
            "Exactly one of the options subscribe, subscribePattern and assign must be set: "
            f"{found}.",
            argument="subscribe",
        )
    text = given[names[0].lower()].strip()
    if names[0] == "assign":
        return TopicSelection(partitions=parse_partitions(text))
    if names[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise ArgumentError(
                f"Option subscribePattern isn't a regular expression: {error}.",
                argument="subscribePattern",
            ) from None
        return TopicSelection(pattern=text)
    topics = tuple(dict.fromkeys(t.strip() for t in text.split(",") if t.strip()))
    if not topics:
        raise ArgumentError("Option subscribe names no topic.", argument="subscribe")
    return TopicSelection(topics=topics)


_T = TypeVar("_T")


def _get(given: Mapping[str, str], name: str, parse: Callable[[str, str], _T]) -> _T | None:
    text = given.get(name.lower())
    return None if text is None else parse(text.strip(), name)


def _position(text: str, name: str) -> Position:
    match text.lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
    if not text.startswith("{"):
        raise ArgumentError(
            f"Option {name} must be earliest, latest, or JSON such as "
            f'{{"topic": {{"0": 23}}}}, not {text!r}.',
            argument=name,
        )
    return parse_offsets(text, name)


def _positive(text: str, name: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentError(
            f"Option {name} must be a whole number above 0, not {text!r}.", argument=name
        )
    return int(text)


def _flag(text: str, name: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ArgumentError(f"Option {name} must be true or false, not {text!r}.", argument=name)
    return text.lower() == "true"


def _duration(text: str, name: str) -> float:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if match is None or match[2] not in _SECONDS:
        raise ArgumentError(
            f"Option {name} must be a time such as 500ms, 30s, 15m or 1h, not {text!r}.",
            argument=name,
        )
    return int(match[1]) * _SECONDS[match[2]]


_RECORDS_PER_PARTITION = 500_000

_SECONDS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}

_KNOWN = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
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
    # Retries of Spark's own offset look-ups; librdkafka retries by itself.
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)

_UNSUPPORTED = (
    "startingtimestamp",
    "endingtimestamp",
    "startingoffsetsbytimestamp",
    "endingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
)
