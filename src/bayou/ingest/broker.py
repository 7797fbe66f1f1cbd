"""What the pipeline asks the broker: partitions, their bounds, identities."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from bayou.errors import ArgumentError, KafkaError
from bayou.ingest.offsets import KafkaTopic, OffsetSpan, recreated_error
from bayou.spark.kafka.client import parse_properties
from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.offsets import TopicPartition
from bayou.spark.kafka.options import TopicSelection

__all__ = ["EndsOfTopics", "TopicWatch", "describe_topic", "topic_ends", "topic_names"]


def describe_topic(name: str, properties: Mapping[str, str]) -> KafkaTopic:
    """Describe a topic.

    Args:
        name: the topic.
        properties: librdkafka's properties, `bootstrap.servers` among them.

    Raises:
        KafkaError: no broker answers, there is no such topic, it isn't told whole, or a property
            isn't usable.
    """
    try:
        cluster = KafkaCluster(parse_properties(properties))
        cluster_id, topic_id = cluster.identity(name)
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka isn't usable: {error.message}", topic=name) from error
    if cluster_id is None:
        raise KafkaError(
            f"The brokers {properties['bootstrap.servers']} don't tell a cluster id, by which a "
            "table knows which cluster its offsets belong to; use Kafka 0.10.1 or newer.",
            topic=name,
        )
    partitions = cluster.partitions(TopicSelection(topics=(name,)))
    earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    untold = [p.partition for p in partitions if p not in earliest or p not in latest]
    if untold or not partitions:  # a broker that starts doesn't know each partition yet
        what = f"the offsets of its partition {untold[0]}" if untold else "its partitions"
        raise KafkaError(
            f"Topic {name!r}: the brokers {properties['bootstrap.servers']} know the topic and "
            f"don't tell {what}. Check that all brokers run.",
            topic=name,
        )
    bounds = {p.partition: OffsetSpan(start=earliest[p], end=latest[p]) for p in partitions}
    return KafkaTopic(name=name, cluster_id=cluster_id, topic_id=topic_id, bounds=bounds)


def topic_ends(names: Collection[str], properties: Mapping[str, str]) -> dict[str, dict[int, int]]:
    """For each topic, and each of its partitions, the offset behind the last record.

    A topic that isn't there, or that the brokers don't tell about, is left out.

    Raises:
        KafkaError: no broker answers, or a property isn't usable.
    """
    try:
        ends = EndsOfTopics(properties)
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka isn't usable: {error.message}", topic=None) from error
    return ends.latest(names)


def topic_names(properties: Mapping[str, str]) -> set[str]:
    """Names of all topics that the brokers let this client see.

    Raises:
        KafkaError: no broker answers, or a property isn't usable.
    """
    try:
        cluster = KafkaCluster(parse_properties(properties))
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka isn't usable: {error.message}", topic=None) from error
    return {p.topic for p in cluster.partitions(TopicSelection(pattern=".*"))}


class EndsOfTopics:
    """Where topics end, asked again and again over one connection.

    Args:
        properties: librdkafka's properties, `bootstrap.servers` among them.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._cluster = KafkaCluster(parse_properties(properties))
        self._names: frozenset[str] = frozenset()
        self._partitions: list[TopicPartition] = []
        self._known_until = 0.0

    def latest(self, names: Collection[str]) -> dict[str, dict[int, int]]:
        """As `topic_ends`; new partitions are found out now and then.

        Raises:
            KafkaError: no broker answers.
        """
        if time.monotonic() >= self._known_until or not self._names.issuperset(names):
            self._names = frozenset(names)
            self._partitions = _of_told(names, self._partitions_of)
            self._known_until = time.monotonic() + _PARTITIONS_EVERY
        ends: dict[str, dict[int, int]] = {}
        for partition, end in _of_told(names, self._ends_of).items():
            ends.setdefault(partition.topic, {})[partition.partition] = end
        return ends

    def _partitions_of(self, names: Collection[str]) -> list[TopicPartition]:
        return self._cluster.partitions(TopicSelection(topics=tuple(sorted(names))))

    def _ends_of(self, names: Collection[str]) -> dict[TopicPartition, int]:
        self._partitions = [p for p in self._partitions if p.topic in names]
        return self._cluster.latest(self._partitions)


Answer = TypeVar("Answer")


def _of_told(names: Collection[str], ask: Callable[[Collection[str]], Answer]) -> Answer:
    """An answer about those topics that the brokers tell about: one that this client may not see
    hides no other.
    """
    left = set(names)
    while True:
        try:
            return ask(left)
        except KafkaError as refused:
            if refused.topic not in left:
                raise
            left.discard(refused.topic)


_PARTITIONS_EVERY = 10.0


class TopicWatch:
    """Whether a topic is still the one that a run began with. Connects when first asked.

    Args:
        topic: as the run found it.
        properties: librdkafka's properties, `bootstrap.servers` among them.
        key: the topic's name in the configuration, for messages.
    """

    def __init__(self, topic: KafkaTopic, properties: Mapping[str, str], *, key: str) -> None:
        self._topic = topic
        self._properties = properties
        self._key = key
        self._cluster: KafkaCluster | None = None

    def check_still_there(self) -> None:
        """One request. What was read before it is of that topic, if it doesn't raise.

        Raises:
            PipelineError: the topic was deleted and made again.
            KafkaError: no broker answers, or there is no such topic.
        """
        if self._topic.topic_id is None:
            return  # the broker doesn't tell
        if self._cluster is None:
            self._cluster = KafkaCluster(parse_properties(self._properties))
        now = self._cluster.topic_id(self._topic.name)
        if now is not None and now != self._topic.topic_id:
            raise recreated_error(self._topic.name, self._topic.topic_id, now, key=self._key)
