"""Requests Kafka metadata: partitions, their offsets, cluster ids and topic ids.

Parameters named `properties` hold properties of librdkafka, including `bootstrap.servers`.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bayou.errors import ArgumentError, KafkaError, PipelineError
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.offsets import KafkaTopic, OffsetSpan, recreated_error
from bayou.spark.kafka.client import parse_properties
from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.offsets import TopicPartition
from bayou.spark.kafka.options import TopicSelection


def describe_topic(name: str, properties: Mapping[str, str]) -> KafkaTopic:
    """Request the ids of a Kafka topic and the offsets of its partitions from the brokers.

    Raises:
        KafkaError: no broker answers, the topic doesn't exist, the brokers' metadata of the topic
            is incomplete, or a property is invalid.
    """
    try:
        cluster = KafkaCluster(parse_properties(properties))
        cluster_id, topic_id = cluster.identity(name)
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka is invalid: {error.message}", topic=name) from error
    if cluster_id is None:
        raise KafkaError(
            f"The brokers {properties['bootstrap.servers']} report no cluster id. Bayou stores "
            "the id in the table, to identify the cluster of the recorded offsets. Use Kafka "
            "0.10.1 or newer.",
            topic=name,
        )
    partitions = cluster.partitions(TopicSelection(topics=(name,)))
    earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    missing = [p.partition for p in partitions if p not in earliest or p not in latest]
    if missing or not partitions:  # a broker that starts may not know all partitions yet
        what = f"no offsets of its partition {missing[0]}" if missing else "no partitions"
        raise KafkaError(
            f"Topic {name!r}: the brokers {properties['bootstrap.servers']} know the topic but "
            f"report {what}. Check that all brokers are running.",
            topic=name,
        )
    bounds = {p.partition: OffsetSpan(start=earliest[p], end=latest[p]) for p in partitions}
    return KafkaTopic(name=name, cluster_id=cluster_id, topic_id=topic_id, bounds=bounds)


def first_start(
    topic: Topic,
    kafka: KafkaTopic,
    properties: Mapping[str, str],
    recorded: Mapping[int, int],
) -> Mapping[int, int]:
    """Return the start offsets of a topic's first run, according to `starting-offsets`.

    A partition that isn't in the result starts at its first record. If an interrupted first run
    recorded start offsets, the result depends on the value of `starting-offsets`:

    - `latest`: each partition starts at its recorded offset.
    - A time: each partition starts at its recorded offset, or at the first offset at or after the
      time, whichever is lower.
    - Offsets of partitions: each of these partitions starts at its configured offset. Other
      partitions start as with `earliest`.
    - `earliest`: each partition starts at its recorded offset, or at the first offset that Kafka
      still has, whichever is lower.

    Args:
        recorded: the start offsets that an interrupted first run recorded, by partition; empty if
            there are none.

    Raises:
        PipelineError: `starting-offsets` has an offset or a partition that the topic lacks.
        KafkaError: no broker answers.
    """
    configured = topic.config.starting_offsets
    if recorded and configured in ("latest", recorded):
        return recorded
    starts = _configured_start(topic, kafka, properties)
    if not recorded:
        return starts
    if isinstance(configured, dt.datetime):  # `starts` depends on the records that Kafka has now
        return {p: min(offset, starts.get(p, offset)) for p, offset in recorded.items()}
    first = {p: min(offset, kafka.bounds[p].start) for p, offset in recorded.items()}
    return {**first, **starts}


def _configured_start(
    topic: Topic, kafka: KafkaTopic, properties: Mapping[str, str]
) -> dict[int, int]:
    match topic.config.starting_offsets:
        case "earliest":
            return {}
        case "latest":
            return {p: bounds.end for p, bounds in kafka.bounds.items()}
        case dt.datetime() as start:
            millis = round(start.timestamp() * 1000)
            partitions = {p: TopicPartition(kafka.name, p) for p in kafka.bounds}
            offsets = KafkaCluster(parse_properties(properties)).at(
                dict.fromkeys(partitions.values(), millis)
            )
            starts = {p: offsets.get(partition) for p, partition in partitions.items()}
            return {p: kafka.bounds[p].end if o is None else o for p, o in starts.items()}
        case dict() as configured:
            for partition, offset in configured.items():
                _check_offset(topic.key, kafka, partition, offset)
            return dict(configured)


def _check_offset(key: str, kafka: KafkaTopic, partition: int, offset: int) -> None:
    bounds = kafka.bounds.get(partition)
    if bounds is None:
        problem = f"{kafka.name!r} has no partition {partition}"
    elif not bounds.start <= offset <= bounds.end:
        problem = (
            f"partition {partition} of {kafka.name!r} has offsets {bounds.start} to {bounds.end}, "
            f"not {offset}"
        )
    else:
        return
    raise PipelineError(
        f"topic {key!r}: starting-offsets: {problem}. Correct starting-offsets.", topic=key
    )


def end_offsets(names: Collection[str], properties: Mapping[str, str]) -> dict[str, dict[int, int]]:
    """Return the end offsets of topics, by topic and partition.

    Topics that don't exist, or that the brokers don't report, are omitted.

    Raises:
        KafkaError: no broker answers, or a property is invalid.
    """
    try:
        ends = TopicEndOffsets(properties)
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka is invalid: {error.message}", topic=None) from error
    return ends.latest(names)


def topic_names(properties: Mapping[str, str]) -> set[str]:
    """Return the names of all topics that are visible to this client.

    Raises:
        KafkaError: no broker answers, or a property is invalid.
    """
    try:
        cluster = KafkaCluster(parse_properties(properties))
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka is invalid: {error.message}", topic=None) from error
    return {p.topic for p in cluster.partitions(TopicSelection(pattern=".*"))}


def with_matching_topics(configuration: Configuration) -> Configuration:
    """Add the Kafka topics whose names match the patterns of a configuration.

    Returns:
        The new configuration.

    Raises:
        KafkaError: no broker answers, or a property is invalid.
    """
    if not configuration.patterns:
        return configuration
    configuration.check_runnable()
    properties = configuration.connector.kafka.client_properties()
    return configuration.with_matching(topic_names(properties))


class TopicEndOffsets:
    """Requests the end offsets of topics repeatedly, over one connection to the brokers."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._cluster = KafkaCluster(parse_properties(properties))
        self._names: frozenset[str] = frozenset()
        self._partitions: list[TopicPartition] = []
        self._known_until = 0.0

    def latest(self, names: Collection[str]) -> dict[str, dict[int, int]]:
        """Return the end offsets of topics, by topic and partition.

        Topics that don't exist, or that the brokers don't report, are omitted. The list of a
        topic's partitions is cached for ten seconds.

        Raises:
            KafkaError: no broker answers.
        """
        if time.monotonic() >= self._known_until or not self._names.issuperset(names):
            self._names = frozenset(names)
            self._partitions, _ = _query_visible(names, self._partitions_of)
            self._known_until = time.monotonic() + _PARTITIONS_TTL
        known, refused = _query_visible(names, self._ends_of)
        self._partitions = [p for p in self._partitions if p.topic not in refused]
        ends: dict[str, dict[int, int]] = {}
        for partition, end in known.items():
            ends.setdefault(partition.topic, {})[partition.partition] = end
        return ends

    def reload_partitions(self) -> None:
        """Make the next call of `latest` request the lists of partitions again."""
        self._known_until = 0.0

    def _partitions_of(self, names: Collection[str]) -> list[TopicPartition]:
        return self._cluster.partitions(TopicSelection(topics=tuple(sorted(names))))

    def _ends_of(self, names: Collection[str]) -> dict[TopicPartition, int]:
        return self._cluster.latest([p for p in self._partitions if p.topic in names])


Answer = TypeVar("Answer")


def _query_visible(
    names: Collection[str], request: Callable[[Collection[str]], Answer]
) -> tuple[Answer, set[str]]:
    """Call `request` with the names of topics, but leave out topics that cause an error.

    If `request` raises a `KafkaError` for one topic, the call is repeated without this topic. For
    example, the client may lack the permission to describe the topic.

    Returns:
        The result of `request`, and the names of the topics that were left out.
    """
    visible, refused = set(names), set[str]()
    while True:
        try:
            return request(visible), refused
        except KafkaError as error:
            if error.topic not in visible:
                raise
            visible.discard(error.topic)
            refused.add(error.topic)


_PARTITIONS_TTL = 10.0
"""Seconds for which the list of a topic's partitions is cached."""


class RecreatedTopicCheck:
    """Detects that a topic was deleted and recreated during a run. Connects on first use.

    Args:
        topic: the result of `describe_topic` at the start of the run.
        key: the topic's key in the configuration, for error messages.
    """

    def __init__(self, topic: KafkaTopic, properties: Mapping[str, str], *, key: str) -> None:
        self._topic = topic
        self._properties = properties
        self._key = key
        self._cluster: KafkaCluster | None = None

    def check_not_recreated(self) -> None:
        """Check with one request that the topic wasn't recreated.

        If the check passes, all records that were read before the call belong to the original
        topic.

        Raises:
            PipelineError: the topic was deleted and recreated.
            KafkaError: no broker answers, or the topic doesn't exist.
        """
        if self._topic.topic_id is None:
            return  # the broker reports no topic id
        if self._cluster is None:
            self._cluster = KafkaCluster(parse_properties(self._properties))
        now = self._cluster.topic_id(self._topic.name)
        if now is not None and now != self._topic.topic_id:
            raise recreated_error(self._topic.name, self._topic.topic_id, now, key=self._key)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """The Kafka topic that a run reads, with the options of the data source `bayou-kafka`."""

    options: Mapping[str, str]
    recreated: RecreatedTopicCheck

    @classmethod
    def of(cls, topic: KafkaTopic, properties: Mapping[str, str], *, key: str) -> KafkaSource:
        options = {f"kafka.{name}": value for name, value in properties.items()}
        return cls(
            options={"subscribe": topic.name, **options},
            recreated=RecreatedTopicCheck(topic, properties, key=key),
        )
