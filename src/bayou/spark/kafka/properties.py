"""Properties of the Kafka client: what stands behind `kafka.` in an option.

They are librdkafka's. The names that differ in the Java client are translated where one says the
same, and refused with what to write instead where none does. Secrets are in no representation of an
object of this module, and `KafkaProperties.scrub` takes them out of texts that come from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from bayou.errors import ArgumentError

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
