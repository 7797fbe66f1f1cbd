"""Settings of connections: brokers, schema registry, object store, Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Literal

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from bayou.errors import ArgumentError
from bayou.ingest.config.section import (
    Section,
    checked_properties,
    in_clear,
    kebab,
    property_text,
)
from bayou.spark.kafka.client import ClientErrors, make_admin, parse_properties

__all__ = [
    "KafkaConfig",
    "KafkaSecurity",
    "SchemaRegistryConfig",
    "SparkConfig",
    "StorageConfig",
    "client_refusal",
]


_SECURITY_PROPERTIES = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
}


class KafkaSecurity(Section):
    """Authentication and encryption of the connection to the brokers."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="librdkafka's security.protocol."
    )
    mechanism: (
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"] | None
    ) = Field(default=None, description="librdkafka's sasl.mechanism.")
    username: str | None = Field(default=None, description="SASL user name.")
    password: SecretStr | None = Field(default=None, description="SASL password.")
    ca_location: str | None = Field(default=None, description="File or folder of CA certificates.")

    @model_validator(mode="after")
    def _protocol_agrees(self) -> KafkaSecurity:
        sasl = self.protocol.startswith("SASL")
        if not sasl and (self.mechanism or self.username or self.password):
            raise ValueError(
                f"mechanism, username and password aren't used with protocol {self.protocol}; "
                "write protocol: SASL_SSL or SASL_PLAINTEXT"
            )
        if sasl and self.mechanism is None:
            raise ValueError(f"protocol {self.protocol} needs a mechanism, such as SCRAM-SHA-512")
        return self


class KafkaConfig(Section):
    """The Kafka brokers. Any other key is a property of librdkafka and is passed unchanged."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        alias_generator=kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    bootstrap_servers: str | None = Field(
        default=None,
        description="host:port, several separated by commas. Environment: KAFKA_BOOTSTRAP_SERVERS.",
    )
    security: KafkaSecurity | None = Field(
        default=None, description="Authentication and encryption."
    )

    @model_validator(mode="before")
    @classmethod
    def _only_librdkafka_beside(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if "bootstrap.servers" in values:
            if values.get("bootstrap-servers") is not None:
                raise ValueError("write bootstrap-servers or bootstrap.servers, not both")
            values["bootstrap-servers"] = values.pop("bootstrap.servers")
        for key in values:
            if "-" in str(key) and key not in ("bootstrap-servers", "security"):
                raise ValueError(
                    f"unknown key {key!r}; did you mean {str(key).replace('-', '.')!r} "
                    "(a property of librdkafka), 'bootstrap-servers' or 'security'?"
                )
        if values.get("security") is not None:
            twice = sorted(_SECURITY_PROPERTIES & values.keys())
            if twice:
                raise ValueError(f"{twice[0]} and security are the same setting; write one of them")
        return checked_properties(values, known=("bootstrap-servers", "security"))

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _joined(cls, value: object) -> object:
        return ",".join(str(v) for v in value) if isinstance(value, list) else value

    def client_properties(self) -> dict[str, str]:
        """Return librdkafka's properties, including `bootstrap.servers` if it is set."""
        properties = {k: property_text(v) for k, v in (self.model_extra or {}).items()}
        if self.bootstrap_servers is not None:
            properties["bootstrap.servers"] = self.bootstrap_servers
        if self.security is not None:
            security = {
                "security.protocol": self.security.protocol,
                "sasl.mechanism": self.security.mechanism,
                "sasl.username": self.security.username,
                "sasl.password": in_clear(self.security.password),
                "ssl.ca.location": self.security.ca_location,
            }
            properties.update({k: v for k, v in security.items() if v is not None})
        return properties


class SchemaRegistryConfig(Section):
    """The schema registry of Avro and Protobuf records."""

    url: str = Field(description="URL of the registry, such as http://localhost:8081.")
    username: str | None = Field(default=None, description="User for basic authentication.")
    password: SecretStr | None = Field(
        default=None, description="Password for basic authentication."
    )

    @field_validator("url")
    @classmethod
    def _holds_no_password(cls, value: str) -> str:
        if "@" in value.partition("://")[2].partition("/")[0]:
            raise ValueError(
                "the URL contains credentials, which messages would show; write the keys username "
                "and password"
            )
        return value


class StorageConfig(Section):
    """The object store. Missing settings come from the environment (AWS_...)."""

    endpoint: str | None = Field(default=None, description="URL of an S3 server. AWS_ENDPOINT_URL.")
    region: str | None = Field(default=None, description="AWS_REGION.")
    access_key: SecretStr | None = Field(default=None, description="AWS_ACCESS_KEY_ID.")
    secret_key: SecretStr | None = Field(default=None, description="AWS_SECRET_ACCESS_KEY.")
    session_token: SecretStr | None = Field(default=None, description="AWS_SESSION_TOKEN.")
    path_style_access: bool | None = Field(
        default=None, description="Bucket in the path instead of the host name."
    )
    allow_http: bool | None = Field(
        default=None, description="Allow http:// endpoints. AWS_ALLOW_HTTP."
    )

    def storage_options(self) -> dict[str, str]:
        """Return the storage options as `bayou.table(storage_options=...)` takes them."""
        path_style = self.path_style_access
        values = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": in_clear(self.access_key),
            "AWS_SECRET_ACCESS_KEY": in_clear(self.secret_key),
            "AWS_SESSION_TOKEN": in_clear(self.session_token),
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": (
                None if path_style is None else property_text(not path_style)
            ),
            "AWS_ALLOW_HTTP": None if self.allow_http is None else property_text(self.allow_http),
        }
        return {k: v for k, v in values.items() if v is not None}


class SparkConfig(Section):
    """Spark. Any key but `master` is a Spark conf and is passed unchanged."""

    model_config = ConfigDict(
        extra="allow", frozen=True, alias_generator=kebab, hide_input_in_errors=True
    )

    master: str | None = Field(default=None, description="Spark master. Default: local[*].")

    @model_validator(mode="before")
    @classmethod
    def _only_spark_beside(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        for key in values:
            if not str(key).startswith("spark.") and key != "master":
                raise ValueError(
                    f"unknown key {key!r}; use 'master' or a Spark conf, which starts with 'spark.'"
                )
        if "spark.master" in values:
            values = dict(values)
            if values.get("master") is not None:
                raise ValueError("write master or spark.master, not both")
            values["master"] = values.pop("spark.master")
        return checked_properties(values, known=("master",))

    def conf(self) -> dict[str, str]:
        """Return the Spark conf as strings."""
        return {k: property_text(v) for k, v in (self.model_extra or {}).items()}


def client_refusal(properties: Mapping[str, str]) -> str | None:
    """Return why librdkafka refuses these properties, None if it accepts them.

    Asks no broker. Returns None if confluent-kafka isn't installed.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        return None
    try:
        # No address is resolved and nothing is sent: the client is dropped at once.
        parsed = parse_properties({"bootstrap.servers": "localhost", **properties})
        make_admin(parsed, ClientErrors(parsed))
    except ArgumentError as error:
        return _with_yaml_names(error.message)
    return None


def _with_yaml_names(message: str) -> str:
    """Replace the connector's option names in a message by the names of the YAML."""
    for option_name, yaml_name in _YAML_NAMES:
        message = message.replace(option_name, yaml_name)
    return message.rstrip(".")


_YAML_NAMES = (
    ("Options kafka.*: the Kafka client rejects them", "the Kafka client rejects the properties"),
    (", with the prefix kafka.", "."),
    ("What stands behind kafka. in an option", "Each property"),
    ("Option kafka.", ""),
    ("kafka.", ""),
    ("Write startingOffsets", "Set starting-offsets of the topic"),
    ("Set startingOffsets", "Set starting-offsets of the topic"),
)
