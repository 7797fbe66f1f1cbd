"""What the pipeline connects to: brokers, schema registry, object store, Spark.

Whether the Kafka client takes the properties of a configuration; no broker is asked.
"""

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
from bayou.spark.kafka.client import Complaints, make_admin, parse_properties

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
    """How to log in to the broker."""

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
                "write protocol: SASL_SSL (or SASL_PLAINTEXT)"
            )
        if sasl and self.mechanism is None:
            raise ValueError(f"protocol {self.protocol} needs a mechanism, such as SCRAM-SHA-512")
        return self


class KafkaConfig(Section):
    """The broker. Any other key is a property of librdkafka and is passed on as it stands."""

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
    security: KafkaSecurity | None = Field(default=None, description="How to log in to the broker.")

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
                raise ValueError(f"{twice[0]} is beside security, which says the same; write one")
        return checked_properties(values, known=("bootstrap-servers", "security"))

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _joined(cls, value: object) -> object:
        return ",".join(str(v) for v in value) if isinstance(value, list) else value

    def client_properties(self) -> dict[str, str]:
        """Everything as librdkafka's properties, `bootstrap.servers` included where it is set."""
        properties = {k: property_text(v) for k, v in (self.model_extra or {}).items()}
        if self.bootstrap_servers is not None:
            properties["bootstrap.servers"] = self.bootstrap_servers
        if self.security is not None:
            named = {
                "security.protocol": self.security.protocol,
                "sasl.mechanism": self.security.mechanism,
                "sasl.username": self.security.username,
                "sasl.password": in_clear(self.security.password),
                "ssl.ca.location": self.security.ca_location,
            }
            properties.update({k: v for k, v in named.items() if v is not None})
        return properties


class SchemaRegistryConfig(Section):
    """The schema registry of Avro and Protobuf records."""

    url: str = Field(description="Such as http://localhost:8081.")
    username: str | None = Field(default=None, description="For basic authentication.")
    password: SecretStr | None = Field(default=None, description="For basic authentication.")

    @field_validator("url")
    @classmethod
    def _holds_no_password(cls, value: str) -> str:
        if "@" in value.partition("://")[2].partition("/")[0]:
            raise ValueError(
                "write username and password as keys, not in the URL: messages name it"
            )
        return value


class StorageConfig(Section):
    """The object store. What isn't said here comes from the environment (AWS_...)."""

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
        """The options under the names that `bayou.table(storage_options=...)` takes."""
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
    """Spark. Any key but `master` is a Spark conf and is passed on as it stands."""

    model_config = ConfigDict(
        extra="allow", frozen=True, alias_generator=kebab, hide_input_in_errors=True
    )

    master: str | None = Field(
        default=None, description="Spark master; local[*] where it isn't said."
    )

    @model_validator(mode="before")
    @classmethod
    def _only_spark_beside(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        for key in values:
            if not str(key).startswith("spark.") and key != "master":
                raise ValueError(
                    f"unknown key {key!r}; a Spark conf begins with 'spark.', 'master' is the only "
                    "other key"
                )
        if "spark.master" in values:
            values = dict(values)
            if values.get("master") is not None:
                raise ValueError("write master or spark.master, not both")
            values["master"] = values.pop("spark.master")
        return checked_properties(values, known=("master",))

    def conf(self) -> dict[str, str]:
        """The Spark conf as texts."""
        return {k: property_text(v) for k, v in (self.model_extra or {}).items()}


def client_refusal(properties: Mapping[str, str]) -> str | None:
    """Why librdkafka can't be set up with these properties; None where it can.

    Without confluent-kafka nothing is known, and None given.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        return None
    try:
        # No address is looked up and nothing is sent: the client is let go at once.
        parsed = parse_properties({"bootstrap.servers": "localhost", **properties})
        make_admin(parsed, Complaints(parsed))
    except ArgumentError as error:
        return _in_words_of_the_file(error.message)
    return None


def _in_words_of_the_file(message: str) -> str:
    return (
        message.replace("What stands behind kafka. in an option", "What stands here")
        .replace("Option kafka.", "")
        .replace("kafka.", "")
        .replace("Write startingOffsets", "Write starting-offsets at the topic")
        .rstrip(".")
    )
