"""Metadata of a Kafka cluster: partitions, offsets and topic ids."""

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
from bayou.spark.kafka.offsets import TopicPartition
from bayou.spark.kafka.options import TopicSelection

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as ClientError
    from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata


_NO_OFFSET = -1
"""Offset that Kafka returns for a timestamp if all records are older than the timestamp."""


def topic_identity(
    bootstrap_servers: str,
    topic: str,
    properties: Mapping[str, str] | None = None,
    *,
    timeout: float = 30.0,
) -> tuple[str | None, str | None]:
    """Return the cluster id and the topic id; None for an id that the brokers don't report.

    If a topic is deleted and created again, the new topic has a different topic id.

    Args:
        bootstrap_servers: brokers as host:port, separated by commas.
        topic: the topic's name.
        properties: client properties, with or without the prefix `kafka.`.
        timeout: seconds to wait for the brokers.

    Raises:
        KafkaError: the brokers don't answer, or the topic doesn't exist.

    Examples:
        >>> with EmbeddedBroker({"orders": 2}) as broker:
        ...     cluster_id, topic_id = topic_identity(broker.bootstrap_servers, "orders")
    """
    client = {name.removeprefix(PREFIX): value for name, value in (properties or {}).items()}
    parsed = parse_properties({**client, "bootstrap.servers": bootstrap_servers})
    return KafkaCluster(parsed, timeout).identity(topic)


class KafkaCluster:
    """A connection to a Kafka cluster.

    Args:
        properties: client properties.
        timeout: maximum time of a request with its retries, in seconds.
    """

    def __init__(self, properties: KafkaProperties, timeout: float = 30.0) -> None:
        self._properties = properties
        self._timeout = timeout
        self._client_errors = ClientErrors(properties)
        self._admin = make_admin(properties, self._client_errors)
        self._created = time.monotonic()
        self._answered = False

    def partitions(self, selection: TopicSelection) -> list[TopicPartition]:
        """Return the existing partitions of a selection, sorted by topic and partition number."""
        if selection.pattern is not None:
            pattern = re.compile(selection.pattern)
            topics = self._topics(None)
            return _partitions(t for name, t in topics.items() if pattern.fullmatch(name))
        if selection.topics:
            return _partitions(self._topics(selection.topics).values())
        existing = _partitions(self._topics({p.topic for p in selection.partitions}).values())
        return sorted(set(existing).intersection(selection.partitions))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition; partitions that don't exist are omitted."""
        return self._offsets(dict.fromkeys(partitions, _specs().earliest()))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition.

        The client's isolation level applies. Partitions that don't exist are omitted.
        """
        return self._offsets(dict.fromkeys(partitions, _specs().latest()))

    def at(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return, for each partition, the offset of the first record at or after a timestamp.

        Args:
            timestamps: milliseconds since the epoch, by partition.

        Returns:
            Offsets by partition. An offset is None if no record is at or after the timestamp.

        Raises:
            KafkaError: the brokers don't know a partition, or don't answer.
        """
        specs = {p: _specs().for_timestamp(millis) for p, millis in timestamps.items()}
        offsets = self.require_offsets(self._offsets(specs, none=_NO_OFFSET), timestamps)
        return {p: None if offset == _NO_OFFSET else offset for p, offset in offsets.items()}

    def require_offsets(
        self, offsets: dict[TopicPartition, int], partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return `offsets` if it has an offset for each of `partitions`.

        A broker that has just become the leader of a partition may not report the partition yet.
        Without this check, a read would omit the partition, or start at a wrong offset.

        Raises:
            KafkaError: an offset is missing.
        """
        missing = sorted(p for p in partitions if p not in offsets)
        if missing:
            raise KafkaError(
                f"Kafka {missing[0]}: the brokers {self._properties.bootstrap_servers} report no "
                "offsets. Check that all brokers are running.",
                topic=missing[0].topic,
            )
        return offsets

    def identity(self, topic: str) -> tuple[str | None, str | None]:
        """Return the cluster id and the topic id; see `topic_identity`."""
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
        """Return the topic's id; None if the brokers don't report topic ids.

        Raises:
            KafkaError: the brokers don't answer, or the topic doesn't exist.
        """
        topic_id = self._describe(topic).topic_id
        none = topic_id is None or (
            topic_id.get_most_significant_bits() == 0 == topic_id.get_least_significant_bits()
        )
        return None if none else str(topic_id)

    def _topics(self, names: Collection[str] | None) -> dict[str, TopicMetadata]:
        """Return the metadata of the existing topics among `names`, by name.

        If `names` is None, the metadata of all topics is returned.
        """
        if names is None or len(names) > _SINGLE_LOOKUPS:
            topics = self._metadata(None).topics
            return {n: t for n, t in topics.items() if _exists(t) and (names is None or n in names)}
        topics = {name: self._metadata(name).topics[name] for name in sorted(names)}
        return {name: topic for name, topic in topics.items() if _exists(topic)}

    def _metadata(self, topic: str | None) -> ClusterMetadata:
        """Return the metadata of a topic, or of all topics if `topic` is None.

        Transient errors are retried. An unknown topic is looked up again for a short time, because
        not all brokers know a new topic at once.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout
        unknown_until = time.monotonic() + _TOPIC_GRACE
        longest = _METADATA_TIMEOUT if self._answered else _REFUSED_GRACE
        while True:
            try:
                timeout = max(0.1, min(longest, deadline - time.monotonic()))
                longest = _METADATA_TIMEOUT
                metadata = (
                    self._admin.list_topics(timeout=timeout)
                    if topic is None
                    else self._admin.list_topics(topic, timeout=timeout)
                )
            except KafkaException:
                self._wait(deadline)
                continue
            self._answered = True
            error = None if topic is None else metadata.topics[topic].error
            if error is None:
                return metadata
            if error.name() == "UNKNOWN_TOPIC_OR_PART":
                if time.monotonic() > unknown_until:
                    return metadata
            elif not is_transient(error):
                raise self._describe_error(topic, error)
            self._wait(deadline)

    def _offsets(
        self, specs: Mapping[TopicPartition, Any], none: int | None = None
    ) -> dict[TopicPartition, int]:
        """Look up an offset of each partition; partitions that don't exist are omitted.

        An unknown partition is looked up again for a short time, because a new leader may not know
        the partition yet.

        Args:
            specs: for each partition, the `OffsetSpec` of confluent-kafka: earliest, latest or a
                timestamp.
            none: negative number that brokers return if there is no offset. This number is a valid
                result. Other negative numbers are errors.
        """
        from confluent_kafka import IsolationLevel, KafkaException
        from confluent_kafka import TopicPartition as ClientPartition

        isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if self._properties.values.get("isolation.level") == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        deadline = time.monotonic() + self._timeout
        unknown_until = time.monotonic() + min(_TOPIC_GRACE, self._timeout)
        offsets: dict[TopicPartition, int] = {}
        remaining = set(specs)
        transient: dict[TopicPartition, ClientError] = {}
        leaderless: dict[TopicPartition, ClientError] = {}
        while remaining:
            # If one partition of a request has no leader, librdkafka returns no offsets at all.
            requested = remaining - leaderless.keys() or remaining
            request = {ClientPartition(p.topic, p.partition): specs[p] for p in sorted(requested)}
            answers = self._admin.list_offsets(
                request,
                isolation_level=isolation,
                request_timeout=min(_REQUEST_TIMEOUT, self._timeout),
            )
            for key, answer in answers.items():
                partition = TopicPartition(key.topic, key.partition)
                try:
                    offset = answer.result().offset
                    if (
                        offset < 0 and offset != none
                    ):  # the connection to the leader was lost; librdkafka's -1001
                        raise KafkaException(ClientErrors.no_leader())
                    offsets[partition] = offset
                except KafkaException as failure:
                    error = failure.args[0]
                    is_unknown = error.name() in _UNKNOWN
                    if not is_unknown or time.monotonic() < unknown_until:
                        if is_unknown or is_transient(error):
                            transient[partition] = error
                            continue
                        raise self._no_offsets(partition, error) from None
                remaining.discard(partition)
            if remaining:
                try:
                    self._wait(deadline)
                except KafkaError:
                    if not offsets or time.monotonic() <= deadline:
                        raise
                    partition = min(remaining)  # brokers have returned offsets of other partitions
                    error = (transient | leaderless)[partition]
                    raise self._no_offsets(partition, error) from None
                leaderless = self._without_leader(remaining)
        return offsets

    def _without_leader(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ClientError]:
        """Return an error for each of `partitions` that has no leader.

        If no broker answers, the result is an empty dict.
        """
        from confluent_kafka import KafkaException

        try:
            topics = self._admin.list_topics(timeout=_METADATA_TIMEOUT).topics
        except KafkaException:
            return {}
        known = {(t, n): p for t in topics for n, p in topics[t].partitions.items()}
        return {
            p: ClientErrors.no_leader()
            for p in partitions
            if (metadata := known.get((p.topic, p.partition))) is not None and metadata.leader < 0
        }

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
                    self._client_errors.raise_if_permanent()
                    raise self._describe_error(topic, error) from None
            self._wait(deadline)

    def _describe_error(self, topic: str | None, error: ClientError) -> KafkaError:
        return KafkaError(
            f"Kafka topic {topic!r}: the brokers {self._properties.bootstrap_servers} can't "
            f"describe it: {self._properties.scrub(error.str())}. Check that the user may describe "
            "the topic (ACL).",
            topic=topic,
        )

    def _wait(self, deadline: float) -> None:
        """Pause before a retry.

        If no broker has answered this client yet, the client doesn't wait for the deadline in two
        cases: all brokers refuse connections, or the host names of all brokers can't be resolved.
        The error is then raised 1 s after the client's creation.

        Raises:
            KafkaError: the deadline has passed, or an error is permanent.
        """
        self._admin.poll(0.1)
        self._client_errors.raise_if_permanent()
        waited = time.monotonic() - self._created
        if not self._answered and self._client_errors.refused and waited > _REFUSED_GRACE:
            raise self._client_errors.unreachable(min(_REFUSED_GRACE, self._timeout))
        if time.monotonic() > deadline:
            raise self._client_errors.unreachable(self._timeout)


def _partitions(topics: Iterable[TopicMetadata]) -> list[TopicPartition]:
    return sorted(TopicPartition(str(t.topic), number) for t in topics for number in t.partitions)


def _exists(topic: TopicMetadata) -> bool:
    return topic.error is None


_METADATA_TIMEOUT = 2.0
_REFUSED_GRACE = 1.0
"""Seconds until refused connections raise an error; also the timeout of a client's first request.
"""
_REQUEST_TIMEOUT = 5.0
_TOPIC_GRACE = 1.5
_SINGLE_LOOKUPS = 10
_MOCK_CLUSTER = "mockCluster"
_UNKNOWN = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}


def _specs() -> Any:
    """Return confluent-kafka's class `OffsetSpec`, which has no type annotations."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return OffsetSpec
