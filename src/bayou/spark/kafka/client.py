"""Making librdkafka's clients, and hearing what they complain about.

confluent-kafka is an optional extra that is imported here when a client is made: Spark looks up all
data sources, this one too, whenever any Python data source is used.
"""

from __future__ import annotations

import importlib.util
import logging
import uuid
from typing import TYPE_CHECKING, Any

from bayou.errors import ArgumentError, KafkaError, PrerequisiteError
from bayou.spark.kafka.properties import KafkaProperties

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

logger = logging.getLogger("bayou.spark.kafka.librdkafka")
logger.addHandler(logging.NullHandler())


class Complaints:
    """What a client last complained about, to be told when nothing came in time."""

    def __init__(self, properties: KafkaProperties) -> None:
        self._properties = properties
        self._last = ""
        self._refused: str | None = None

    def hear(self, error: confluent_kafka.KafkaError) -> None:
        """The client's `error_cb`; called while the client is polled."""
        name = error.name()
        if name != "_ALL_BROKERS_DOWN" or not self._last:
            self._last = self._properties.scrub(error.str() or name)
        if name in _REFUSALS:
            self._refused = (
                f"refused the credentials: {self._last}. Check kafka.security.protocol and "
                "kafka.sasl.*."
            )
        elif name == "_SSL" and _DISTRUST in self._last:  # others of its errors may pass
            self._refused = (
                f"have a certificate that isn't trusted: {self._last}. Check "
                "kafka.ssl.ca.location, and that the certificate names the host."
            )

    def raise_if_refused(self) -> None:
        """Ends the wait where waiting can't help: one side refused who the other is.

        Raises:
            KafkaError: the credentials or the certificate were refused.
        """
        if self._refused is not None:
            raise KafkaError(
                f"The Kafka brokers {self._properties.bootstrap_servers} {self._refused}"
            )

    def unreachable(self, seconds: float) -> KafkaError:
        """The error for brokers that didn't answer."""
        because = f" ({self._last})" if self._last else ""
        return KafkaError(
            f"No answer from the Kafka brokers {self._properties.bootstrap_servers} within "
            f"{seconds:g} s{because}. Check that they run, kafka.bootstrap.servers, the network, "
            "and kafka.security.protocol."
        )

    def __str__(self) -> str:
        return self._last


def make_consumer(
    properties: KafkaProperties, group_id_prefix: str, complaints: Complaints, prefetch: int
) -> confluent_kafka.Consumer:
    """A consumer for `assign()`: it commits nothing, tells the end of a partition, resets to
    nowhere.

    Args:
        prefetch: how many records may wait in the client; a small range needn't fetch far beyond
            itself.
    """
    require_confluent_kafka()
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, Any] = {
        "client.id": "bayou",
        "group.id": f"{group_id_prefix}-{uuid.uuid4()}",
        "fetch.queue.backoff.ms": "10",
        # Only behind the last record does the broker wait, and there a range ends.
        "fetch.wait.max.ms": "50",
        "queued.min.messages": str(max(1, min(100_000, prefetch))),
        # A fetch for a few records would bring, and unpack, a megabyte of compressed ones.
        "fetch.message.max.bytes": str(max(_LEAST_FETCH, min(_FETCH, prefetch * 256))),
        # A task waits on Spark between two batches for as long as Spark likes.
        "max.poll.interval.ms": "86400000",
        "topic.metadata.propagation.max.ms": "10000",
        **properties.values,
        "allow.auto.create.topics": "false",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
    }
    try:
        return Consumer(settings | {"error_cb": complaints.hear, "logger": logger})
    except (KafkaException, TypeError, ValueError) as error:
        raise _bad_property(error, properties) from None


def make_admin(properties: KafkaProperties, complaints: Complaints) -> AdminClient:
    """A client that asks for topics and offsets; it creates no topic by asking for it."""
    require_confluent_kafka()
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {
        "client.id": "bayou",
        **properties.values,
        "allow.auto.create.topics": "false",
    }
    try:
        return AdminClient(settings | {"error_cb": complaints.hear, "logger": logger})
    except (KafkaException, TypeError, ValueError) as error:
        raise _bad_property(error, properties) from None


def passes(error: confluent_kafka.KafkaError) -> bool:
    """Whether brokers mend it by themselves, so that asking again helps."""
    return bool(error.retriable()) or error.name() in _PASSING


def require_confluent_kafka() -> None:
    """Says what to install.

    Raises:
        PrerequisiteError: confluent-kafka isn't installed.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        raise PrerequisiteError(
            "The Kafka source needs confluent-kafka, which isn't installed where this runs. "
            "Install it there with: pip install 'bayou[kafka]'.",
            what="confluent-kafka",
        )


def _bad_property(error: Exception, properties: KafkaProperties) -> ArgumentError:
    cause = error.args[0] if error.args else error
    text = cause.str() if hasattr(cause, "str") else str(cause)
    return ArgumentError(
        f"The Kafka client refuses its properties: {properties.scrub(text)}. What stands behind "
        "kafka. in an option must be a property of librdkafka (its CONFIGURATION.md lists them).",
        argument="kafka.*",
    )


_LEAST_FETCH = 64 << 10
_FETCH = 1 << 20
_DISTRUST = "certificate verify failed"
_PASSING = {
    "_ALL_BROKERS_DOWN",
    "_NOENT",  # "no leaders found": the broker that led went away a moment ago
    "_RESOLVE",
    "_TIMED_OUT",
    "_TRANSPORT",
    # The Kafka protocol calls these retriable; the client says so of few.
    "BROKER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_CONTROLLER",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_LEADER_EPOCH",
}
_REFUSALS = {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
