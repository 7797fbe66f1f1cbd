"""Metadata of a Kafka cluster for planning: partitions, their offsets, and topic ids."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from bayou.errors import KafkaError
from bayou.spark.kafka.client import (
    PREFIX,
    ClientErrors,
    KafkaProperties,
    is_transient,
    make_admin,
    parse_properties,
)
from bayou.spark.kafka.offsets import EARLIEST_OFFSET, LATEST_OFFSET, TopicPartition
from bayou.spark.kafka.options import TopicSelection

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as ClientError
    from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata


def topic_identity(
    bootstrap_servers: str,
    topic: str,
    properties: Mapping[str, str] | None = None,
    *,
    timeout: float = 30.0,
) -> tuple[str | None, str | None]:
    """The cluster id and topic id; None for an id that the brokers don't have.

    A recreated topic has another topic id.

    Args:
        bootstrap_servers: brokers as host:port, separated by commas.
        topic: the topic's name.
        properties: client properties, with or without the prefix `kafka.`.
        timeout: seconds to wait for the brokers.

    Raises:
        KafkaError: the brokers don't answer, or the topic doesn't exist.
    """
    client = {name.removeprefix(PREFIX): value for name, value in (properties or {}).items()}
    parsed = parse_properties({**client, "bootstrap.servers": bootstrap_servers})
    return KafkaCluster(parsed, timeout).identity(topic)


class KafkaCluster:
    """A connection to a Kafka cluster. Every call returns or raises within the timeout.

    Args:
        properties: client properties.
        timeout: timeout of each call in seconds.
    """

    def __init__(self, properties: KafkaProperties, timeout: float = 30.0) -> None:
        self._properties = properties
        self._timeout = timeout
        self._complaints = ClientErrors(properties)
        self._admin = make_admin(properties, self._complaints)

    def partitions(self, selection: TopicSelection) -> list[TopicPartition]:
        """The existing partitions of a selection, in order."""
        if selection.pattern is not None:
            pattern = re.compile(selection.pattern)
            topics = self._topics(None)
            return _partitions(t for name, t in topics.items() if pattern.fullmatch(name))
        if selection.topics:
            return _partitions(self._topics(selection.topics).values())
        existing = _partitions(self._topics({p.topic for p in selection.partitions}).values())
        return sorted(set(existing).intersection(selection.partitions))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition; partitions that don't exist are left out."""
        return self._offsets(partitions, EARLIEST_OFFSET)

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition, by the client's isolation level.

        Partitions that don't exist are left out.
        """
        return self._offsets(partitions, LATEST_OFFSET)

    def identity(self, topic: str) -> tuple[str | None, str | None]:
        """The cluster id and topic id; see `topic_identity`."""
        metadata = self._metadata(topic)
        if not _exists(metadata.topics[topic]):
            raise KafkaError(
                f"Kafka topic {topic!r}: it doesn't exist on the brokers "
                f"{self._properties.bootstrap_servers}. Check the name, or create the topic.",
                topic=topic,
            )
        cluster_id = cast("str | None", metadata.cluster_id) or None
        if cluster_id is not None and cluster_id.startswith(_MOCK_CLUSTER):
            return cluster_id, None  # a mock cluster has no topic ids
        return cluster_id, self.topic_id(topic)

    def topic_id(self, topic: str) -> str | None:
        """The topic's id; None if the brokers don't have topic ids.

        Raises:
            KafkaError: the brokers don't answer, or the topic doesn't exist.
        """
        topic_id = self._describe(topic).topic_id
        none = topic_id is None or (
            topic_id.get_most_significant_bits() == 0 == topic_id.get_least_significant_bits()
        )
        return None if none else str(topic_id)

    def _topics(self, names: Collection[str] | None) -> dict[str, TopicMetadata]:
        """Metadata of the existing topics among the names, or of all topics."""
        if names is None or len(names) > _SINGLE_LOOKUPS:
            topics = self._metadata(None).topics
            return {n: t for n, t in topics.items() if _exists(t) and (names is None or n in names)}
        topics = {name: self._metadata(name).topics[name] for name in sorted(names)}
        return {name: topic for name, topic in topics.items() if _exists(topic)}

    def _metadata(self, topic: str | None) -> ClusterMetadata:
        """Metadata of a topic or of all topics, with retries.

        An unknown topic is retried too: a new topic isn't known to all brokers at once.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout
        unknown_until = time.monotonic() + _TOPIC_GRACE
        while True:
            try:
                timeout = max(0.1, min(_METADATA_TIMEOUT, deadline - time.monotonic()))
                metadata = (
                    self._admin.list_topics(timeout=timeout)
                    if topic is None
                    else self._admin.list_topics(topic, timeout=timeout)
                )
            except KafkaException:
                self._wait(deadline)
                continue
            error = None if topic is None else metadata.topics[topic].error
            if error is None:
                return metadata
            if error.name() == "UNKNOWN_TOPIC_OR_PART":
                if time.monotonic() > unknown_until:
                    return metadata
            elif not is_transient(error):
                raise KafkaError(
                    f"Kafka topic {topic!r}: the brokers {self._properties.bootstrap_servers} "
                    f"can't describe it: {self._properties.scrub(error.str())}. Check that the "
                    "user may describe it (ACL).",
                    topic=topic,
                )
            self._wait(deadline)

    def _offsets(
        self, partitions: Collection[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        from confluent_kafka import IsolationLevel, KafkaException
        from confluent_kafka import TopicPartition as ClientPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        specs: Any = OffsetSpec  # it has no type annotations
        spec = specs.earliest() if which == EARLIEST_OFFSET else specs.latest()
        isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if self._properties.values.get("isolation.level") == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        deadline = time.monotonic() + self._timeout
        offsets: dict[TopicPartition, int] = {}
        remaining = set(partitions)
        transient: dict[TopicPartition, ClientError] = {}
        while remaining:
            request = {ClientPartition(p.topic, p.partition): spec for p in sorted(remaining)}
            answers = self._admin.list_offsets(
                request,
                isolation_level=isolation,
                request_timeout=min(_REQUEST_TIMEOUT, self._timeout),
            )
            for key, answer in answers.items():
                partition = TopicPartition(key.topic, key.partition)
                try:
                    offsets[partition] = answer.result().offset
                except KafkaException as failure:
                    error = failure.args[0]
                    if error.name() not in _UNKNOWN:
                        if is_transient(error):
                            transient[partition] = error
                            continue
                        raise self._no_offsets(partition, error) from None
                remaining.discard(partition)
            if remaining:
                if offsets and time.monotonic() > deadline:  # the brokers answer for others only
                    partition = min(remaining)
                    raise self._no_offsets(partition, transient[partition])
                self._wait(deadline)
        return offsets

    def _no_offsets(self, partition: TopicPartition, error: ClientError) -> KafkaError:
        return KafkaError(
            f"Kafka {partition}: the brokers {self._properties.bootstrap_servers} report no "
            f"offsets: {self._properties.scrub(error.str())}. Check that the partition has a "
            "leader, and that the user may describe the topic (ACL).",
            topic=partition.topic,
        )

    def _describe(self, topic: str) -> Any:
        from confluent_kafka import KafkaException, TopicCollection

        deadline = time.monotonic() + self._timeout
        while True:
            answers = self._admin.describe_topics(
                TopicCollection([topic]), request_timeout=min(_REQUEST_TIMEOUT, self._timeout)
            )
            try:
                return answers[topic].result()
            except KafkaException as failure:
                error = failure.args[0]
                if not is_transient(error):
                    self._admin.poll(0)
                    self._complaints.raise_if_permanent()
                    raise KafkaError(
                        f"Kafka topic {topic!r}: the brokers {self._properties.bootstrap_servers} "
                        f"can't describe it: {self._properties.scrub(error.str())}. Check that the "
                        "user may describe it (ACL).",
                        topic=topic,
                    ) from None
            self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        """Pause before a retry; raise if the deadline has passed or a retry can't succeed."""
        self._admin.poll(0.1)
        self._complaints.raise_if_permanent()
        if time.monotonic() > deadline:
            raise self._complaints.unreachable(self._timeout)


def _partitions(topics: Iterable[TopicMetadata]) -> list[TopicPartition]:
    return sorted(TopicPartition(str(t.topic), number) for t in topics for number in t.partitions)


def _exists(topic: TopicMetadata) -> bool:
    return topic.error is None


_METADATA_TIMEOUT = 2.0
_REQUEST_TIMEOUT = 5.0
_TOPIC_GRACE = 1.5
_SINGLE_LOOKUPS = 10
_MOCK_CLUSTER = "mockCluster"
_UNKNOWN = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}
