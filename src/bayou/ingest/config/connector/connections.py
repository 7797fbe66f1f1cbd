"""Settings of the connections to Kafka brokers, and of Spark."""

from __future__ import annotations

import importlib.util

from pydantic import ConfigDict, Field, field_validator, model_validator

from bayou.errors import ArgumentError, PrerequisiteError
from bayou.ingest.config.base_section import (
    Section,
    SectionKeyError,
    checked_properties,
    kebab,
    property_text,
)
from bayou.ingest.config.connector.kafka_security import (
    ALWAYS_IN_SECURITY,
    SECURITY_KEYS,
    KafkaSecurity,
    with_security_keys,
)
from bayou.spark.kafka.client import check_properties, parse_properties
from bayou.suggestions import closest


class KafkaConfig(Section):
    """The Kafka brokers. All other keys are properties of librdkafka."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        alias_generator=kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    bootstrap_servers: str | None = Field(
        default=None,
        description="Brokers as host:port, separated by commas. "
        "Environment: KAFKA_BOOTSTRAP_SERVERS.",
    )
    security: KafkaSecurity | None = Field(
        default=None, description="Authentication and encryption."
    )

    @model_validator(mode="before")
    @classmethod
    def _check_properties(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if "bootstrap.servers" in values:
            if values.get("bootstrap-servers") is not None:
                raise ValueError("write bootstrap-servers or bootstrap.servers, not both")
            values["bootstrap-servers"] = values.pop("bootstrap.servers")
        for key in values:
            if "-" in str(key) and key not in ("bootstrap-servers", "security"):
                raise SectionKeyError(str(key), f"unknown key; {_kafka_key(str(key))}")
        return checked_properties(values, known=("bootstrap-servers", "security"))

    @model_validator(mode="after")
    def _check_duplicates(self) -> KafkaConfig:
        if self.security is not None:
            extra = (self.model_extra or {}).keys()
            duplicates = sorted(extra & ({*self.security.properties(), *ALWAYS_IN_SECURITY}))
            if duplicates:
                raise ValueError(
                    f"{duplicates[0]} and security are the same setting; write one of them"
                )
        return self

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _joined(cls, value: object) -> object:
        return ",".join(str(v) for v in value) if isinstance(value, list) else value

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_addresses(cls, value: str | None) -> str | None:
        for server in (value or "").split(","):
            if problem := _address_problem(server.strip()):
                raise ValueError(problem)
        return value

    def client_properties(self) -> dict[str, str]:
        """Return librdkafka's properties, including `bootstrap.servers` if it is set."""
        properties = {k: property_text(v) for k, v in (self.model_extra or {}).items()}
        if self.bootstrap_servers is not None:
            properties["bootstrap.servers"] = self.bootstrap_servers
        if self.security is not None:
            properties.update(self.security.properties())
        return properties


_LISTENERS = ("plaintext://", "ssl://", "sasl_plaintext://", "sasl_ssl://")


def _address_problem(server: str) -> str | None:
    """Return what is wrong with the address of a broker; None if no problem is found.

    The message doesn't show the address, because it may contain a password.
    """
    if "@" in server:
        return "a broker's address can't contain a user or password; use connector.kafka.security"
    scheme, separator, rest = server.rpartition("://")
    if separator and f"{scheme.lower()}://" not in _LISTENERS:
        return f"{scheme}:// isn't the address of a broker; write host:port"
    host, colon, port = rest.rpartition(":")
    if "/" in rest or any(c.isspace() for c in rest):
        return "must be a list of host:port, separated by commas"
    if colon and host and "]" not in port and not (port.isdigit() and 0 < int(port) < 65536):
        return "a port must be a number from 1 to 65535; write host:port"
    return None


def _kafka_key(key: str) -> str:
    """Return the advice for an unknown key of `connector.kafka`."""
    near = closest(key, ("bootstrap-servers", "security"))
    if near is not None:
        return f"did you mean {near!r}?"
    return "properties of librdkafka have a dot; the other keys are bootstrap-servers and security"


class SparkConfig(Section):
    """Spark's configuration: `master`, and confs `spark.*`, which are passed to Spark."""

    model_config = ConfigDict(
        extra="allow", frozen=True, alias_generator=kebab, hide_input_in_errors=True
    )

    master: str | None = Field(default=None, description="Spark master. Default: local[*].")

    @model_validator(mode="before")
    @classmethod
    def _check_confs(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        for key in values:
            if not str(key).startswith("spark.") and key != "master":
                raise SectionKeyError(
                    str(key),
                    "unknown key; use 'master' or a Spark conf, which starts with 'spark.'",
                )
        if "spark.master" in values:
            values = dict(values)
            if values.get("master") is not None:
                raise ValueError("write master or spark.master, not both")
            values["master"] = values.pop("spark.master")
        return checked_properties(values, known=("master",))

    def conf(self) -> dict[str, str]:
        return {k: property_text(v) for k, v in (self.model_extra or {}).items()}

    @property
    def time_zone(self) -> str:
        """The session's time zone; UTC by default."""
        return self.conf().get("spark.sql.session.timeZone", "UTC")


def client_refusal(config: KafkaConfig) -> tuple[tuple[str, ...], str] | None:
    """Return a key that librdkafka rejects, and the reason; None if librdkafka accepts all keys.

    The key is relative to `connector.kafka`. The function connects to no broker. If confluent-kafka
    isn't installed, nothing is checked and the result is None.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        return None
    properties = config.client_properties()
    try:
        check_properties(parse_properties({"bootstrap.servers": "localhost", **properties}))
    except ArgumentError as error:
        name = error.argument.removeprefix("kafka.")
        message = error.message
        key: tuple[str, ...] = (name,) if name in properties else ()
        if config.security is not None:
            message = with_security_keys(message)
            if name in SECURITY_KEYS and name not in (config.model_extra or {}):
                key = ("security", *SECURITY_KEYS[name].split("."))
        if key:
            message = message.partition(": ")[2]
        return key, _with_yaml_names(message)
    except PrerequisiteError as error:
        return (), error.message.rstrip(".")
    return None


def _with_yaml_names(message: str) -> str:
    """In a message, replace options of the data source `bayou-kafka` by keys of the YAML file."""
    for option_name, yaml_name in _YAML_NAMES:
        message = message.replace(option_name, yaml_name)
    return message.rstrip(".")


_YAML_NAMES = (
    ("Options kafka.*: the Kafka client rejects them", "the Kafka client rejects the properties"),
    (", with the prefix kafka.", "."),
    ("Option kafka.", ""),
    ("kafka.", ""),
    ("Set startingOffsets", "Set starting-offsets of the topic"),
)
