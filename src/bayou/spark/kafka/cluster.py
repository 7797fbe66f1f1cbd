"""What planning asks of the brokers: which partitions there are, and where they start and end."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from bayou.errors import KafkaError
from bayou.spark.kafka.client import (
    PREFIX,
    Complaints,
    KafkaProperties,
    make_admin,
    parse_properties,
    passes,
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
    """Cluster id and topic id, each None where the brokers know none.

    A topic that was deleted and created again has another topic id.

    Args:
        bootstrap_servers: brokers as host:port, comma separated.
        topic: its name.
        properties: of the Kafka client, with or without the prefix `kafka.`.
        timeout: seconds to wait for the brokers.

    Raises:
        KafkaError: no answer, or no such topic. Never (None, None) for want of an answer.
    """
    given = {name.removeprefix(PREFIX): value for name, value in (properties or {}).items()}
    parsed = parse_properties({**given, "bootstrap.servers": bootstrap_servers})
    return KafkaCluster(parsed, timeout).identity(topic)


class KafkaCluster:
    """A connection for planning. Every call answers or raises `KafkaError` within the timeout.

    Args:
        properties: of the client.
        timeout: seconds.
    """

    def __init__(self, properties: KafkaProperties, timeout: float = 30.0) -> None:
        self._properties = properties
        self._timeout = timeout
        self._complaints = Complaints(properties)
        self._admin = make_admin(properties, self._complaints)

    def partitions(self, selection: TopicSelection) -> list[TopicPartition]:
        """The partitions of a selection that exist, in order. Topics that don't exist have none."""
        if selection.pattern is not None:
            pattern = re.compile(selection.pattern)
            topics = self._topics(None)
            return _partitions(t for name, t in topics.items() if pattern.fullmatch(name))
        if selection.topics:
            return _partitions(self._topics(selection.topics).values())
        found = _partitions(self._topics({p.topic for p in selection.partitions}).values())
        return sorted(set(found).intersection(selection.partitions))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset of the first record of each; partitions that don't exist are left out."""
        return self._offsets(partitions, EARLIEST_OFFSET)

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset behind the last record of each that this client's isolation level lets it read.

        Partitions that don't exist are left out.
        """
        return self._offsets(partitions, LATEST_OFFSET)

    def identity(self, topic: str) -> tuple[str | None, str | None]:
        """Cluster id and topic id; see `topic_identity`."""
        metadata = self._metadata(topic)
        if not _exists(metadata.topics[topic]):
            raise KafkaError(
                f"Topic {topic!r} doesn't exist on the Kafka brokers "
                f"{self._properties.bootstrap_servers}.",
                topic=topic,
            )
        cluster_id = cast("str | None", metadata.cluster_id) or None
        if cluster_id is not None and cluster_id.startswith(_MOCK_CLUSTER):
            return cluster_id, None  # it has no controller, which alone knows topic ids
        return cluster_id, self.topic_id(topic)

    def topic_id(self, topic: str) -> str | None:
        """The topic's id, None where the brokers know none.

        Raises:
            KafkaError: no answer, or no such topic.
        """
        topic_id = self._described(topic).topic_id
        none = topic_id is None or (
            topic_id.get_most_significant_bits() == 0 == topic_id.get_least_significant_bits()
        )
        return None if none else str(topic_id)

    def _topics(self, names: Collection[str] | None) -> dict[str, TopicMetadata]:
        """Metadata of the topics that exist, of all of them where no names are given."""
        if names is None or len(names) > _SINGLE_LOOKUPS:
            topics = self._metadata(None).topics
            return {n: t for n, t in topics.items() if _exists(t) and (names is None or n in names)}
        found = {name: self._metadata(name).topics[name] for name in sorted(names)}
        return {name: topic for name, topic in found.items() if _exists(topic)}

    def _metadata(self, topic: str | None) -> ClusterMetadata:
        """Asks until the answer is one; a new topic may take a moment to show everywhere."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout
        unknown_until = time.monotonic() + _TOPIC_GRACE
        while True:
            try:
                patience = max(0.1, min(_SLICE, deadline - time.monotonic()))
                metadata = (
                    self._admin.list_topics(timeout=patience)
                    if topic is None
                    else self._admin.list_topics(topic, timeout=patience)
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
            elif not passes(error):
                raise KafkaError(
                    f"The Kafka brokers {self._properties.bootstrap_servers} don't tell about "
                    f"topic {topic!r}: {self._properties.scrub(error.str())}.",
                    topic=topic,
                )
            self._wait(deadline)

    def _offsets(
        self, partitions: Collection[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        from confluent_kafka import IsolationLevel, KafkaException
        from confluent_kafka import TopicPartition as ClientPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        specs: Any = OffsetSpec  # it carries no types
        spec = specs.earliest() if which == EARLIEST_OFFSET else specs.latest()
        isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if self._properties.values.get("isolation.level") == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        deadline = time.monotonic() + self._timeout
        found: dict[TopicPartition, int] = {}
        wanted = set(partitions)
        asked_again: dict[TopicPartition, ClientError] = {}
        while wanted:
            asked = {ClientPartition(p.topic, p.partition): spec for p in sorted(wanted)}
            answers = self._admin.list_offsets(
                asked, isolation_level=isolation, request_timeout=min(_REQUEST, self._timeout)
            )
            for key, answer in answers.items():
                partition = TopicPartition(key.topic, key.partition)
                try:
                    found[partition] = answer.result().offset
                except KafkaException as failure:
                    error = failure.args[0]
                    if error.name() not in _GONE:
                        if passes(error):
                            asked_again[partition] = error
                            continue
                        raise self._untold(partition, error) from None
                wanted.discard(partition)
            if wanted:
                if found and time.monotonic() > deadline:  # brokers answer, but not about these
                    partition = min(wanted)
                    raise self._untold(partition, asked_again[partition])
                self._wait(deadline)
        return found

    def _untold(self, partition: TopicPartition, error: ClientError) -> KafkaError:
        return KafkaError(
            f"The Kafka brokers {self._properties.bootstrap_servers} don't tell the offsets of "
            f"{partition}: {self._properties.scrub(error.str())}.",
            topic=partition.topic,
        )

    def _described(self, topic: str) -> Any:
        from confluent_kafka import KafkaException, TopicCollection

        deadline = time.monotonic() + self._timeout
        while True:
            answers = self._admin.describe_topics(
                TopicCollection([topic]), request_timeout=min(_REQUEST, self._timeout)
            )
            try:
                return answers[topic].result()
            except KafkaException as failure:
                error = failure.args[0]
                if not passes(error):
                    self._admin.poll(0)
                    self._complaints.raise_if_refused()
                    raise KafkaError(
                        f"The Kafka brokers {self._properties.bootstrap_servers} don't describe "
                        f"topic {topic!r}: {self._properties.scrub(error.str())}.",
                        topic=topic,
                    ) from None
            self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        """A short pause before asking again, in which the client's complaints are heard."""
        self._admin.poll(0.1)
        self._complaints.raise_if_refused()
        if time.monotonic() > deadline:
            raise self._complaints.unreachable(self._timeout)


def _partitions(topics: Iterable[TopicMetadata]) -> list[TopicPartition]:
    return sorted(TopicPartition(str(t.topic), number) for t in topics for number in t.partitions)


def _exists(topic: TopicMetadata) -> bool:
    return topic.error is None


_SLICE = 2.0
_REQUEST = 5.0
_TOPIC_GRACE = 1.5
_SINGLE_LOOKUPS = 10
_MOCK_CLUSTER = "mockCluster"
_GONE = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}
