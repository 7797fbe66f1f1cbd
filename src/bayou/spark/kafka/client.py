"""Creation, properties and errors of librdkafka clients.

Options with the prefix `kafka.` are client properties with librdkafka's names. Property names of
the Java client are translated. If librdkafka has no equivalent, the property is rejected. Secrets
are never part of a `repr`, and `KafkaProperties.scrub` removes them from messages of the client.

confluent-kafka is an optional extra. It is imported only when a client is created, because Spark
imports this package each time it looks up a Python data source.
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
from bayou.redaction import without_secrets, without_values
from bayou.spark.kafka.authentication import TOKEN_PROVIDER, TokenCallback, check_authentication

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

PREFIX = "kafka."


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaProperties:
    """Client properties with librdkafka's names, as returned by `parse_properties`.

    Attributes:
        values: the properties by name. They aren't part of the `repr`, because they contain
            secrets.
    """

    values: Mapping[str, str] = field(repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return self.values["bootstrap.servers"]

    def scrub(self, text: str) -> str:
        """Replace each secret value of these properties in a text by `***`."""
        return without_values(text, (v for k, v in self.values.items() if _SECRET.search(k)))

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.values))
        return f"KafkaProperties(bootstrap.servers={self.bootstrap_servers!r}, set: {names})"


def parse_properties(properties: Mapping[str, str]) -> KafkaProperties:
    """Translate and check client properties, whose names don't have the prefix `kafka.`."""
    values: dict[str, str] = {}
    for name, value in properties.items():
        values.update(_translate(name.lower(), value, properties))
    servers = values.get("bootstrap.servers", "")
    if "@" in servers:  # error messages contain the servers, so credentials would be shown
        raise ArgumentError(
            "Option kafka.bootstrap.servers contains credentials ('@'). Set it to host:port, and "
            "set kafka.sasl.username and kafka.sasl.password.",
            argument="kafka.bootstrap.servers",
        )
    if not servers.strip():
        raise ArgumentError(
            "Option kafka.bootstrap.servers is missing. Set it to the brokers as host:port, "
            "separated by commas.",
            argument="kafka.bootstrap.servers",
        )
    return KafkaProperties(values=values)


def _translate(name: str, value: str, properties: Mapping[str, str]) -> dict[str, str]:
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
        if properties.get("ssl.truststore.type", "JKS").upper() == "PEM":
            return {"ssl.ca.location": value}
        raise ArgumentError(
            "Option kafka.ssl.truststore.location isn't supported: librdkafka can't read a Java "
            "trust store. Set kafka.ssl.ca.location to a PEM file (keytool -exportcert -rfc "
            "creates one).",
            argument="kafka.ssl.truststore.location",
        )
    if name == "ssl.keystore.location" and properties.get("ssl.keystore.type", "").upper() == "PEM":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if name == "ssl.endpoint.identification.algorithm" and not value.strip():
        return {name: "none"}
    return {name: value}


def _credentials(jaas: str) -> dict[str, str]:
    """Convert `sasl.jaas.config` to librdkafka's `sasl.username` and `sasl.password`."""
    fields = dict(re.findall(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"', jaas))
    known = "PlainLoginModule" in jaas or "ScramLoginModule" in jaas
    if not known or "username" not in fields or "password" not in fields:
        raise ArgumentError(
            "Option kafka.sasl.jaas.config: only PlainLoginModule and ScramLoginModule with "
            "username and password are supported. Set kafka.sasl.username and "
            "kafka.sasl.password, or librdkafka's properties kafka.sasl.kerberos.* or "
            "kafka.sasl.oauthbearer.*.",
            argument="kafka.sasl.jaas.config",
        )
    unescape = re.compile(r"\\(.)")
    return {
        "sasl.username": unescape.sub(r"\1", fields["username"]),
        "sasl.password": unescape.sub(r"\1", fields["password"]),
    }


_SECRET = re.compile(
    r"password|secret|jaas|token(?!\.endpoint)|assertion|oauthbearer\.config|key\.pem|credential"
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
    "auto.offset.reset": "the source manages offsets itself. Set startingOffsets.",
    "enable.auto.commit": "the source manages offsets itself. Remove the option.",
    "enable.auto.offset.store": "the source manages offsets itself. Remove the option.",
    "enable.partition.eof": "the source sets it itself. Remove the option.",
    "interceptor.classes": "interceptors could change records. Remove the option.",
    "key.deserializer": "keys are binary. Cast the column key.",
    "value.deserializer": "values are binary. Cast the column value.",
}

_JAVA_ONLY = {
    "default.api.timeout.ms": "librdkafka has no such property. Set kafkaConsumer.pollTimeoutMs.",
    "max.poll.records": "the source sets the size of its batches itself. Remove the option.",
    "sasl.client.callback.handler.class": "it is a Java class. Set kafka.sasl.oauthbearer.*.",
    "sasl.login.callback.handler.class": "it is a Java class. Set kafka.sasl.oauthbearer.*.",
    "sasl.login.class": "it is a Java class. Set kafka.sasl.username and kafka.sasl.password.",
    "security.providers": "it contains Java classes. Remove the option.",
    "ssl.enabled.protocols": "OpenSSL selects the protocol. Remove the option.",
    "ssl.engine.factory.class": "it is a Java class. Remove the option.",
    "ssl.keymanager.algorithm": "it is only for Java. Remove the option.",
    "ssl.protocol": "OpenSSL selects the protocol. Remove the option.",
    "ssl.provider": "it is only for Java. Remove the option.",
    "ssl.trustmanager.algorithm": "it is only for Java. Remove the option.",
    "ssl.truststore.password": "a PEM file has no password. Set kafka.ssl.ca.location instead.",
}


logger = logging.getLogger("bayou.spark.kafka.librdkafka")
logger.addHandler(logging.NullHandler())


class _ScrubbedLog:
    """Passes a client's messages to `logger` without secrets.

    librdkafka logs responses of token endpoints, which may quote the client secret.
    """

    def __init__(self, properties: KafkaProperties) -> None:
        self._properties = properties

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log a message. The client calls this method in the same way as `logging.Logger.log`."""
        if logger.isEnabledFor(level):
            text = message % arguments if arguments else message
            logger.log(level, "%s", without_secrets(self._properties.scrub(text)))


class ClientErrors:
    """Records the errors that a client reports, so that they can explain a later timeout."""

    def __init__(self, properties: KafkaProperties) -> None:
        self._properties = properties
        self._last = ""
        self._permanent: str | None = None
        self.refused = False
        """Whether all brokers refuse connections, or have host names that can't be resolved."""

    def on_error(self, error: confluent_kafka.KafkaError) -> None:
        """Record an error; called as the client's `error_cb` when the client is polled."""
        name = error.name()
        if name != "_ALL_BROKERS_DOWN" or not self._last:
            self._last = self._properties.scrub(error.str() or name)
        if name == "_ALL_BROKERS_DOWN":
            self.refused = _REFUSED in self._last or _UNRESOLVED in self._last
        if name in _AUTHENTICATION_ERRORS:
            self._permanent = (
                f"authentication failed: {self._last}. Check kafka.security.protocol and "
                "kafka.sasl.*."
            )
        elif name == "_SSL" and _UNTRUSTED in self._last:  # other SSL errors can be transient
            self._permanent = (
                f"their certificate isn't trusted: {self._last}. Check kafka.ssl.ca.location, and "
                "that the certificate names the host."
            )
        elif name == "_TRANSPORT" and (alert := _REFUSED_CERTIFICATE.search(self._last)):
            self._permanent = (
                f"they refuse this client's certificate ({alert[1]}). Check "
                "kafka.ssl.certificate.location and kafka.ssl.key.location."
            )

    @staticmethod
    def no_leader() -> confluent_kafka.KafkaError:
        """Return librdkafka's transient error for a partition without a leader."""
        from confluent_kafka import KafkaError as ClientError

        return ClientError(ClientError.LEADER_NOT_AVAILABLE)

    def raise_if_permanent(self) -> None:
        """Raise `KafkaError` if authentication has failed or a certificate was rejected.

        After these errors, a retry can't succeed.
        """
        if self._permanent is not None:
            raise KafkaError(
                f"Kafka brokers {self._properties.bootstrap_servers}: {self._permanent}"
            )

    def unreachable(self, seconds: float) -> KafkaError:
        """Return the error for brokers that haven't answered within `seconds`."""
        reason = f" ({self._last})" if self._last else ""
        return KafkaError(
            f"Kafka brokers {self._properties.bootstrap_servers}: no answer within {seconds:g} s"
            f"{reason}. Check that the brokers run, and check their addresses, the network, and "
            "the security protocol (plain or TLS)."
        )

    def __str__(self) -> str:
        return self._last


def make_consumer(
    properties: KafkaProperties, group_id_prefix: str, errors: ClientErrors, prefetch: int
) -> confluent_kafka.Consumer:
    """Create a consumer whose partitions are set with `assign()`.

    The consumer doesn't commit offsets. It reports when a partition ends. An offset that doesn't
    exist is an error.

    Args:
        errors: records the errors that the client reports.
        prefetch: approximate maximum number of records that the client fetches ahead.
    """
    require_confluent_kafka()
    check_authentication(properties.values)
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, Any] = {
        "client.id": "bayou",
        "group.id": f"{group_id_prefix}-{uuid.uuid4()}",
        "fetch.queue.backoff.ms": "10",
        # A broker that has no more records waits this long before it answers, which delays the end
        # of a range.
        "fetch.wait.max.ms": "50",
        "queued.min.messages": str(max(1, min(100_000, prefetch))),
        # If fetches are small, the client reads fewer records after the end of a small range.
        "fetch.message.max.bytes": str(max(_MIN_FETCH, min(_MAX_FETCH, prefetch * 256))),
        # Between two batches, a task may wait for Spark without a time limit.
        "max.poll.interval.ms": "86400000",
        "topic.metadata.propagation.max.ms": "10000",
        # The Java client also checks the CRC of record batches by default. Without the check, a
        # record that was damaged on a broker's disk would be returned as if it were correct.
        "check.crcs": "true",
        **properties.values,
        "allow.auto.create.topics": "false",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
    }
    settings = _with_tokens(settings) | {
        "error_cb": errors.on_error,
        "logger": _ScrubbedLog(properties),
    }
    try:
        return Consumer(settings)
    except (KafkaException, TypeError, ValueError) as error:
        raise _bad_property(error, properties) from None


def make_admin(
    properties: KafkaProperties, errors: ClientErrors, *, check: bool = True
) -> AdminClient:
    """Create a client that reads metadata and offsets, and never creates topics.

    Args:
        errors: records the errors that the client reports.
        check: whether to call `check_authentication` first.
    """
    require_confluent_kafka()
    if check:
        check_authentication(properties.values)
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {
        "client.id": "bayou",
        **properties.values,
        "allow.auto.create.topics": "false",
    }
    settings = _with_tokens(settings) | {
        "error_cb": errors.on_error,
        "logger": _ScrubbedLog(properties),
    }
    try:
        return AdminClient(settings)
    except (KafkaException, TypeError, ValueError) as error:
        raise _bad_property(error, properties) from None


def check_properties(properties: KafkaProperties) -> None:
    """Check client properties without a connection to a broker or token endpoint.

    Raises:
        ArgumentError: the client rejects a property, or a file or property is missing.
        PrerequisiteError: a package isn't installed.
    """
    check_authentication(properties.values)
    offline = {
        name: value
        for name, value in properties.values.items()
        if name not in (TOKEN_PROVIDER, "sasl.oauthbearer.method")
    }
    make_admin(KafkaProperties(values=offline), ClientErrors(properties), check=False)


def _with_tokens(settings: dict[str, Any]) -> dict[str, Any]:
    """Replace the name of a token provider in a client's settings by a `TokenCallback`."""
    provider = settings.pop(TOKEN_PROVIDER, None)
    if provider is None:
        return settings
    config = settings.get("sasl.oauthbearer.config", "")
    return settings | {TOKEN_PROVIDER: TokenCallback(provider, config)}


def is_transient(error: confluent_kafka.KafkaError) -> bool:
    """Whether the failed request can succeed if it is repeated."""
    return bool(error.retriable()) or error.name() in _TRANSIENT


def require_confluent_kafka() -> None:
    """Raise `PrerequisiteError` if confluent-kafka isn't installed."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise PrerequisiteError(
            "The Kafka source needs confluent-kafka, which isn't installed on this machine. "
            "Install it with: pip install 'bayou[kafka]'.",
            what="confluent-kafka",
        )


def _bad_property(error: Exception, properties: KafkaProperties) -> ArgumentError:
    cause = error.args[0] if error.args else error
    reason = cause.str() if hasattr(cause, "str") else str(cause)
    if _NO_KERBEROS in reason:
        return ArgumentError(
            "Option kafka.sasl.mechanism: GSSAPI (Kerberos) isn't built into the confluent-kafka "
            "of this machine. Install librdkafka with libsasl2 and its headers, and then "
            "confluent-kafka from source: pip install --no-binary confluent-kafka confluent-kafka.",
            argument="kafka.sasl.mechanism",
        )
    if reason.count("ssl.key.location failed"):
        return ArgumentError(
            "Option kafka.ssl.key.location: the private key can't be read. Check that the file is "
            "a PEM key. If the key is encrypted, check kafka.ssl.key.password.",
            argument="kafka.ssl.key.location",
        )
    return ArgumentError(
        f"Options kafka.*: the Kafka client rejects them: {properties.scrub(reason)}. Use the "
        "properties in librdkafka's CONFIGURATION.md, with the prefix kafka.",
        argument="kafka.*",
    )


_MIN_FETCH = 64 << 10
_MAX_FETCH = 1 << 20
_UNTRUSTED = "certificate verify failed"
_REFUSED_CERTIFICATE = re.compile(r"alert ([a-z ]*certificate[a-z ]*|unknown ca)")
_NO_KERBEROS = "No provider for SASL mechanism GSSAPI"
_REFUSED = "Connection refused"
_UNRESOLVED = "Failed to resolve"
_TRANSIENT = {
    "_ALL_BROKERS_DOWN",
    "_NOENT",  # "no leaders found": the leader has just left the cluster
    "_RESOLVE",
    "_TIMED_OUT",
    "_TRANSPORT",
    # The Kafka protocol defines these errors as retriable; the client retries only a few of them.
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
_AUTHENTICATION_ERRORS = {
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
}
