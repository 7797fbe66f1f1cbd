"""Kafka metadata that the pipeline reads: partitions, their offsets, cluster and topic ids."""

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

__all__ = ["RecreatedTopicCheck", "TopicEndOffsets", "describe_topic", "end_offsets", "topic_names"]


def describe_topic(name: str, properties: Mapping[str, str]) -> KafkaTopic:
    """Describe a Kafka topic.

    Args:
        name: the topic.
        properties: librdkafka's properties, including `bootstrap.servers`.

    Raises:
        KafkaError: no broker answers, the topic doesn't exist, its metadata is incomplete, or a
            property is invalid.
    """
    try:
        cluster = KafkaCluster(parse_properties(properties))
        cluster_id, topic_id = cluster.identity(name)
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka is invalid: {error.message}", topic=name) from error
    if cluster_id is None:
        raise KafkaError(
            f"The brokers {properties['bootstrap.servers']} report no cluster id, which a table "
            "needs to identify the cluster of its offsets. Use Kafka 0.10.1 or newer.",
            topic=name,
        )
    partitions = cluster.partitions(TopicSelection(topics=(name,)))
    earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    missing = [p.partition for p in partitions if p not in earliest or p not in latest]
    if missing or not partitions:  # a starting broker doesn't know every partition yet
        what = f"no offsets of its partition {missing[0]}" if missing else "no partitions"
        raise KafkaError(
            f"Topic {name!r}: the brokers {properties['bootstrap.servers']} know the topic but "
            f"report {what}. Check that all brokers are running.",
            topic=name,
        )
    bounds = {p.partition: OffsetSpan(start=earliest[p], end=latest[p]) for p in partitions}
    return KafkaTopic(name=name, cluster_id=cluster_id, topic_id=topic_id, bounds=bounds)


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


class TopicEndOffsets:
    """Reads the end offsets of topics repeatedly over one connection.

    Args:
        properties: librdkafka's properties, including `bootstrap.servers`.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._cluster = KafkaCluster(parse_properties(properties))
        self._names: frozenset[str] = frozenset()
        self._partitions: list[TopicPartition] = []
        self._known_until = 0.0

    def latest(self, names: Collection[str]) -> dict[str, dict[int, int]]:
        """Return the end offsets as `end_offsets` does; partitions are cached for ten seconds.

        Raises:
            KafkaError: no broker answers.
        """
        if time.monotonic() >= self._known_until or not self._names.issuperset(names):
            self._names = frozenset(names)
            self._partitions = _query_visible(names, self._partitions_of)
            self._known_until = time.monotonic() + _PARTITIONS_TTL
        ends: dict[str, dict[int, int]] = {}
        for partition, end in _query_visible(names, self._ends_of).items():
            ends.setdefault(partition.topic, {})[partition.partition] = end
        return ends

    def _partitions_of(self, names: Collection[str]) -> list[TopicPartition]:
        return self._cluster.partitions(TopicSelection(topics=tuple(sorted(names))))

    def _ends_of(self, names: Collection[str]) -> dict[TopicPartition, int]:
        self._partitions = [p for p in self._partitions if p.topic in names]
        return self._cluster.latest(self._partitions)


Answer = TypeVar("Answer")


def _query_visible(names: Collection[str], ask: Callable[[Collection[str]], Answer]) -> Answer:
    """Query the topics that the brokers report; a topic that the client may not see is skipped."""
    visible = set(names)
    while True:
        try:
            return ask(visible)
        except KafkaError as error:
            if error.topic not in visible:
                raise
            visible.discard(error.topic)


_PARTITIONS_TTL = 10.0
"""Seconds."""


class RecreatedTopicCheck:
    """Detects a topic that was deleted and recreated during a run. Connects on first use.

    Args:
        topic: the topic as described at the start of the run.
        properties: librdkafka's properties, including `bootstrap.servers`.
        key: the topic's key in the configuration, for messages.
    """

    def __init__(self, topic: KafkaTopic, properties: Mapping[str, str], *, key: str) -> None:
        self._topic = topic
        self._properties = properties
        self._key = key
        self._cluster: KafkaCluster | None = None

    def check_not_recreated(self) -> None:
        """Check the topic's id with one request; records read before it are from this topic.

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
