"""What the pipeline asks the broker before it starts: partitions, their bounds, identities."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient

from bayou.errors import KafkaError
from bayou.ingest.offsets import KafkaTopic, OffsetRange

__all__ = ["describe_topic"]

_SILENT = logging.getLogger("bayou.ingest.broker.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False  # what librdkafka logs, the errors below say in words

_TIMEOUT = 15.0
_MOCK_CLUSTER = "mockCluster"
"""Prefix of the cluster ids of librdkafka's mock cluster, which can't describe topics."""


def describe_topic(name: str, properties: Mapping[str, str]) -> KafkaTopic:
    """Describe a topic.

    Args:
        name: the topic.
        properties: librdkafka's properties, `bootstrap.servers` among them.

    Raises:
        KafkaError: no broker, no such topic, or the broker refuses.
    """
    with _consumer(properties, name) as consumer, _explained(properties, name):
        metadata = consumer.list_topics(name, timeout=_TIMEOUT)
        topic = metadata.topics[name]
        if topic.error is not None:
            raise KafkaException(topic.error)
        bounds = {}
        for partition in sorted(topic.partitions):
            low, high = consumer.get_watermark_offsets(
                TopicPartition(name, partition), timeout=_TIMEOUT
            )
            bounds[partition] = OffsetRange(start=low, end=high)
        cluster_id = metadata.cluster_id or "unknown"
        topic_id = (
            None if cluster_id.startswith(_MOCK_CLUSTER) else _topic_id(name, dict(properties))
        )
    return KafkaTopic(name=name, cluster_id=cluster_id, topic_id=topic_id, bounds=bounds)


def _topic_id(name: str, properties: dict[str, str]) -> str | None:
    """The topic's id, None from a broker too old to have one."""
    client: Any = AdminClient({**properties, "logger": _SILENT})
    try:
        described = client.describe_topics(TopicCollection([name]), request_timeout=_TIMEOUT)
        identity = described[name].result().topic_id
    except KafkaException as error:
        if error.args[0].code() == ClientError._UNSUPPORTED_FEATURE:  # noqa: SLF001  # its name
            return None
        raise
    text = str(identity)
    return None if not text or set(text) <= {"A"} else text


@contextlib.contextmanager
def _consumer(properties: Mapping[str, str], topic: str) -> Iterator[Any]:
    settings: dict[str, Any] = {
        "group.id": "bayou",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        **properties,
        "logger": _SILENT,
    }
    try:
        consumer = Consumer(settings)
    except (KafkaException, ValueError, TypeError) as error:
        raise KafkaError(
            f"topic {topic!r}: the broker's settings aren't usable: {_text(error)}", topic=topic
        ) from error
    try:
        yield consumer
    finally:
        consumer.close()


@contextlib.contextmanager
def _explained(properties: Mapping[str, str], topic: str) -> Iterator[None]:
    servers = properties.get("bootstrap.servers", "")
    try:
        yield
    except KafkaException as error:
        code = error.args[0].code()
        if code in (ClientError.UNKNOWN_TOPIC_OR_PART, ClientError._UNKNOWN_TOPIC):  # noqa: SLF001
            message = f"there is no topic {topic!r} on {servers}; create it or correct kafka-topic"
        elif code in (ClientError._TRANSPORT, ClientError._TIMED_OUT):  # noqa: SLF001
            message = (
                f"no Kafka broker answers at {servers}; start it, or correct "
                "connector.kafka.bootstrap-servers"
            )
        else:
            message = f"topic {topic!r} on {servers}: {_text(error)}"
        raise KafkaError(message, topic=topic) from error


def _text(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str()) if isinstance(first, ClientError) else str(first)
