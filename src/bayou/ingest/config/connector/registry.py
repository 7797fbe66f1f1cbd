"""Settings of the schema registry."""

from __future__ import annotations

import importlib.util
import os
import ssl
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from bayou.ingest.config.base_section import Section, in_clear
from bayou.ingest.decode.formats import RegistryAddress
from bayou.ingest.decode.formats.schema_registry_http import CLIENT_PACKAGES

SubjectNameStrategy = Literal["topic-name", "record-name", "topic-record-name"]

_FILES = ("ca-location", "certificate-location", "key-location")


def _check_url(url: str, keys: str) -> None:
    """Check that a URL begins with http:// or https://, has a valid host and no credentials.

    Args:
        keys: the names of the YAML keys for credentials, which the error message recommends.

    Raises:
        ValueError: the URL fails the check. The message doesn't show the URL.
    """
    _, separator, rest = url.partition("://")
    if "@" in (rest if separator else url):
        raise ValueError(
            f"the URL contains credentials, which messages would show; move them to the keys {keys}"
        )
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("the URL must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid host or port
        is_valid = False
    if not is_valid:
        raise ValueError(
            "the URL has no host or an invalid port; write a URL such as http://localhost:8081"
        )


class RegistryOAuth(Section):
    """The OIDC endpoint that issues bearer tokens, with the grant client_credentials."""

    token_endpoint_url: str = Field(description="URL of the token endpoint.")
    client_id: str = Field(description="Client id.")
    client_secret: SecretStr = Field(description="Client secret.")
    scope: str = Field(default="", description="Scope of the tokens.")

    @field_validator("token_endpoint_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        _check_url(value, "client-id and client-secret")
        return value


class SchemaRegistryConfig(Section):
    """The schema registry of Avro, Protobuf and JSON Schema records."""

    url: str = Field(
        description="URL of the registry, such as http://localhost:8081. Several nodes of a "
        "registry are separated by commas."
    )
    username: str | None = Field(default=None, description="User for basic authentication.")
    password: SecretStr | None = Field(
        default=None, description="Password for basic authentication."
    )
    token: SecretStr | None = Field(default=None, description="Bearer token.")
    oauth: RegistryOAuth | None = Field(
        default=None, description="Token endpoint for bearer tokens that expire."
    )
    logical_cluster: str | None = Field(
        default=None, description="Confluent Cloud's id of the registry, sent with bearer tokens."
    )
    identity_pool: str | None = Field(
        default=None, description="Confluent Cloud's identity pool, sent with bearer tokens."
    )
    ca_location: str | None = Field(
        default=None,
        description="PEM file or folder of CA certificates. Default: the system's certificates.",
    )
    certificate_location: str | None = Field(
        default=None, description="PEM file of this client's certificate, for mutual TLS."
    )
    key_location: str | None = Field(
        default=None,
        description="PEM file of the certificate's private key. Default: certificate-location.",
    )
    key_password: SecretStr | None = Field(default=None, description="Password of the private key.")
    subject_name_strategy: SubjectNameStrategy | None = Field(
        default=None,
        description="How producers name the subjects of schemas: topic-name (<topic>-value, "
        "<topic>-key), record-name, or topic-record-name (<topic>-<record>). record-name and "
        "topic-record-name need schema-record of each topic. Set the strategy if the registry has "
        "schema contexts or permissions by subject. Default: schemas are requested by id only.",
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        for url in value.split(","):
            _check_url(url.strip(), "username and password")
        return value

    @model_validator(mode="after")
    def _check_credentials(self) -> SchemaRegistryConfig:
        logins = {"username": self.username, "token": self.token, "oauth": self.oauth}
        # An unset variable with an empty default gives an empty user: no authentication.
        configured = [key for key, value in logins.items() if value]
        if len(configured) > 1:
            raise ValueError(f"{configured[0]} and {configured[1]} exclude each other; remove one")
        if self.username is not None and ":" in self.username:
            raise ValueError("username can't contain a colon in basic authentication")
        if self.certificate_location is None and (self.key_location or self.key_password):
            raise ValueError("key-location and key-password need certificate-location")
        for key in ("logical_cluster", "identity_pool"):
            if getattr(self, key) is not None and self.token is None and self.oauth is None:
                raise ValueError(
                    f"{key.replace('_', '-')} is only allowed with token or oauth; "
                    "add token or oauth, or remove this key"
                )
        return self

    def value_subject(self, topic: str, record: str | None) -> str | None:
        """Return the subject of a topic's values; None if no `subject-name-strategy` is set.

        Args:
            record: the full name of the schema's record, which is part of some subjects.
        """
        match self.subject_name_strategy:
            case "topic-name":
                return f"{topic}-value"
            case "record-name":
                return record
            case "topic-record-name":
                return f"{topic}-{record}"
            case None:
                return None

    def key_subject(self, topic: str) -> str | None:
        """Return the subject of a topic's keys.

        None if `subject-name-strategy` isn't `topic-name`.
        """
        return f"{topic}-key" if self.subject_name_strategy == "topic-name" else None

    def address(self) -> RegistryAddress:
        """Return the URL and the credentials for requests."""
        oauth = self.oauth
        return RegistryAddress(
            url=self.url,
            user=self.username,
            password=in_clear(self.password),
            token=in_clear(self.token),
            token_endpoint=None if oauth is None else oauth.token_endpoint_url,
            client_id=None if oauth is None else oauth.client_id,
            client_secret=None if oauth is None else in_clear(oauth.client_secret),
            scope="" if oauth is None else oauth.scope,
            logical_cluster=self.logical_cluster or "",
            identity_pool=self.identity_pool,
            ca_location=self.ca_location,
            certificate_location=self.certificate_location,
            key_location=self.key_location,
            key_password=in_clear(self.key_password),
        )


def registry_refusal(config: SchemaRegistryConfig) -> tuple[tuple[str, ...], str] | None:
    """Return a key of `connector.schema-registry` that this machine can't use, and the reason.

    None if all keys can be used. Packages and certificate files are checked, without a connection.
    """
    for package in CLIENT_PACKAGES:
        if importlib.util.find_spec(package) is None:
            return (), (
                f"the registry's client needs {package}, which isn't installed on this machine; "
                "run pip install 'bayou[cli]'"
            )
    for key in _FILES:
        path = getattr(config, key.replace("-", "_"))
        if path is not None and not os.access(path, os.R_OK):
            problem = "can't be read by this user" if Path(path).exists() else "doesn't exist"
            return (key,), f"the file {path} {problem}; each machine that runs tasks needs it"
    try:
        _check_certificates(config)
    except (OSError, ValueError) as error:
        key = "ca-location" if config.certificate_location is None else "certificate-location"
        return (key,), f"not a usable PEM file: {error}; check key-location and key-password too"
    return None


def _check_certificates(config: SchemaRegistryConfig) -> None:
    if config.ca_location is not None:
        path = Path(config.ca_location)
        ssl.create_default_context(
            cafile=None if path.is_dir() else str(path), capath=str(path) if path.is_dir() else None
        )
    if config.certificate_location is not None:
        ssl.create_default_context().load_cert_chain(
            config.certificate_location, config.key_location, in_clear(config.key_password) or ""
        )
