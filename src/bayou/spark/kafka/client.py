"""Making librdkafka's clients, and hearing what they complain about.

confluent-kafka is an optional extra that is imported here when a client is made: Spark looks up all
data sources, this one too, whenever any Python data source is used.

Properties of the Kafka client: what stands behind `kafka.` in an option.

They are librdkafka's. The names that differ in the Java client are translated where one says the
same, and refused with what to write instead where none does. Secrets are in no representation of an
object of this module, and `KafkaProperties.scrub` takes them out of texts that come from elsewhere.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bayou.errors import ArgumentError, KafkaError, PrerequisiteError

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

__all__ = []


PREFIX = "kafka."


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaProperties:
    """Properties in librdkafka's names. Made by `parse_properties`.

    Attributes:
        values: name to value; holds secrets, so it isn't part of the representation.
    """

    values: Mapping[str, str] = field(repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return self.values["bootstrap.servers"]

    def scrub(self, text: str) -> str:
        """The text with every secret among the values replaced by `***`."""
        for name, value in self.values.items():
            if value and _SECRET.search(name):
                text = text.replace(value, "***")
        return text

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.values))
        return f"KafkaProperties(bootstrap.servers={self.bootstrap_servers!r}, set: {names})"


def parse_properties(given: Mapping[str, str]) -> KafkaProperties:
    """Properties as the user gave them, without the prefix `kafka.`, in librdkafka's names.

    Raises:
        ArgumentError: a property that the source sets itself, or that only the Java client knows.
    """
    values: dict[str, str] = {}
    for name, value in given.items():
        values.update(_translate(name.lower(), value, given))
    if not values.get("bootstrap.servers", "").strip():
        raise ArgumentError(
            "Option kafka.bootstrap.servers is missing: the brokers as host:port, comma separated.",
            argument="kafka.bootstrap.servers",
        )
    return KafkaProperties(values=values)


def _translate(name: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    reason = _MANAGED.get(name) or _JAVA_ONLY.get(name)
    if reason:
        raise ArgumentError(
            f"Option kafka.{name} isn't supported: {reason}", argument=PREFIX + name
        )
    if name in _RENAMED:
        return {_RENAMED[name]: value}
    if name == "sasl.jaas.config":
        return _credentials(value)
    if name in ("ssl.truststore.type", "ssl.keystore.type"):
        return {}
    if name == "ssl.truststore.location":
        if given.get("ssl.truststore.type", "JKS").upper() == "PEM":
            return {"ssl.ca.location": value}
        raise ArgumentError(
            "Option kafka.ssl.truststore.location isn't supported: librdkafka reads no Java trust "
            "store. Write kafka.ssl.ca.location with a PEM file (keytool -exportcert -rfc makes "
            "one).",
            argument="kafka.ssl.truststore.location",
        )
    if name == "ssl.keystore.location" and given.get("ssl.keystore.type", "").upper() == "PEM":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if name == "ssl.endpoint.identification.algorithm" and not value.strip():
        return {name: "none"}
    return {name: value}


def _credentials(jaas: str) -> dict[str, str]:
    """User and password of the Java client's `sasl.jaas.config`."""
    fields = dict(re.findall(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"', jaas))
    known = "PlainLoginModule" in jaas or "ScramLoginModule" in jaas
    if not known or "username" not in fields or "password" not in fields:
        raise ArgumentError(
            "Option kafka.sasl.jaas.config is understood for PlainLoginModule and ScramLoginModule "
            "with username and password. Write kafka.sasl.username and kafka.sasl.password, or "
            "librdkafka's sasl.kerberos.* and sasl.oauthbearer.* properties.",
            argument="kafka.sasl.jaas.config",
        )
    unescape = re.compile(r"\\(.)")
    return {
        "sasl.username": unescape.sub(r"\1", fields["username"]),
        "sasl.password": unescape.sub(r"\1", fields["password"]),
    }


_SECRET = re.compile(
    r"password|secret|jaas|token|assertion|oauthbearer\.config|key\.pem|credential"
)

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}

_MANAGED = {
    "auto.offset.reset": "the source keeps the offsets itself. Write startingOffsets.",
    "enable.auto.commit": "the source keeps the offsets itself. Leave it out.",
    "enable.auto.offset.store": "the source keeps the offsets itself. Leave it out.",
    "enable.partition.eof": "the source sets it itself. Leave it out.",
    "interceptor.classes": "interceptors could change records. Leave it out.",
    "key.deserializer": "keys are binary. Cast the column key.",
    "value.deserializer": "values are binary. Cast the column value.",
}

_JAVA_ONLY = {
    "default.api.timeout.ms": "write kafkaConsumer.pollTimeoutMs.",
    "max.poll.records": "the source sizes its batches by itself. Leave it out.",
    "sasl.client.callback.handler.class": "write sasl.oauthbearer.* of librdkafka.",
    "sasl.login.callback.handler.class": "write sasl.oauthbearer.* of librdkafka.",
    "sasl.login.class": "write kafka.sasl.username and kafka.sasl.password.",
    "security.providers": "it names Java classes. Leave it out.",
    "ssl.enabled.protocols": "OpenSSL picks the protocol. Leave it out.",
    "ssl.engine.factory.class": "it names a Java class. Leave it out.",
    "ssl.keymanager.algorithm": "it is Java's. Leave it out.",
    "ssl.protocol": "OpenSSL picks the protocol. Leave it out.",
    "ssl.provider": "it is Java's. Leave it out.",
    "ssl.trustmanager.algorithm": "it is Java's. Leave it out.",
    "ssl.truststore.password": "a PEM file has none. Write kafka.ssl.ca.location and leave it out.",
}


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
