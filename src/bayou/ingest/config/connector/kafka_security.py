"""Settings of authentication with the brokers, and of TLS."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from bayou.ingest.config.base_section import Section, in_clear


class KafkaOAuth(Section):
    """The source of OAUTHBEARER tokens: an OIDC token endpoint, or a token provider."""

    token_endpoint_url: str | None = Field(
        default=None,
        description="URL of the OIDC token endpoint, for the grant client_credentials.",
    )
    client_id: str | None = Field(default=None, description="Client id for the token endpoint.")
    client_secret: SecretStr | None = Field(
        default=None, description="Client secret for the token endpoint."
    )
    scope: str | None = Field(default=None, description="Scope of the tokens.")
    extensions: dict[str, str] = Field(
        default_factory=dict, description="SASL extensions, such as logicalCluster."
    )
    ca_location: str | None = Field(
        default=None,
        description="File or folder of CA certificates that verify the token endpoint.",
    )
    token_provider: str | None = Field(
        default=None,
        description="Provider to use instead of a token endpoint: aws-msk-iam, or a Python "
        "function, written as package.module:function. The function returns a token and its "
        "expiration in seconds since the epoch.",
    )
    config: str | None = Field(
        default=None,
        repr=False,
        description="Argument of the token provider. For aws-msk-iam: region=eu-west-1, and "
        "optionally profile=NAME or role-arn=ARN, separated by spaces.",
    )

    @model_validator(mode="after")
    def _check_source(self) -> KafkaOAuth:
        endpoint = {
            "token-endpoint-url": self.token_endpoint_url,
            "client-id": self.client_id,
            "client-secret": self.client_secret,
        }
        configured = [key for key, value in endpoint.items() if value is not None]
        if self.token_provider is not None:
            if configured:
                raise ValueError(
                    f"token-provider and {configured[0]} exclude each other; remove one"
                )
        elif missing := [key for key in endpoint if key not in configured]:
            raise ValueError(
                f"{missing[0]} is missing; set token-endpoint-url, client-id and client-secret, or "
                "a token-provider"
            )
        elif self.config is not None:
            raise ValueError("config is only used with a token-provider; remove config")
        return self


class KafkaKerberos(Section):
    """The Kerberos identity for GSSAPI. confluent-kafka must be built with libsasl2."""

    principal: str = Field(description="Principal of this client, such as bayou@EXAMPLE.COM.")
    keytab: str | None = Field(
        default=None,
        description="Keytab of the principal; librdkafka passes it to kinit. Default: the ticket "
        "cache of the user.",
    )
    service_name: str = Field(default="kafka", description="Service name of the brokers.")


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
    certificate_location: str | None = Field(
        default=None, description="PEM file of this client's certificate, for mutual TLS."
    )
    key_location: str | None = Field(
        default=None,
        description="PEM file of the certificate's private key. May be the same file as "
        "certificate-location.",
    )
    key_password: SecretStr | None = Field(default=None, description="Password of the private key.")
    oauth: KafkaOAuth | None = Field(
        default=None, description="The source of tokens for OAUTHBEARER."
    )
    kerberos: KafkaKerberos | None = Field(
        default=None, description="The Kerberos identity for GSSAPI."
    )

    @model_validator(mode="after")
    def _check_protocol(self) -> KafkaSecurity:
        sasl = self.protocol.startswith("SASL")
        if not sasl and (self.mechanism or self.username or self.password):
            raise ValueError(
                f"mechanism, username and password aren't used with protocol {self.protocol}; "
                "set protocol to SASL_SSL or SASL_PLAINTEXT"
            )
        if sasl and self.mechanism is None:
            raise ValueError(f"protocol {self.protocol} needs a mechanism, such as SCRAM-SHA-512")
        if not self.protocol.endswith("SSL"):
            for key in ("ca_location", "certificate_location", "key_location", "key_password"):
                if getattr(self, key) is not None:
                    raise ValueError(
                        f"{key.replace('_', '-')} isn't used with protocol {self.protocol}; set "
                        "protocol to SSL or SASL_SSL"
                    )
        return self

    @model_validator(mode="after")
    def _check_mechanism(self) -> KafkaSecurity:
        for key, section, mechanism in (
            ("oauth", self.oauth, "OAUTHBEARER"),
            ("kerberos", self.kerberos, "GSSAPI"),
        ):
            if section is not None and self.mechanism != mechanism:
                raise ValueError(
                    f"{key} needs mechanism {mechanism}; set this mechanism, or remove {key}"
                )
            if section is None and self.mechanism == mechanism:
                raise ValueError(f"mechanism {mechanism} needs the section {key}")
        if self.username is not None and self.mechanism in ("OAUTHBEARER", "GSSAPI"):
            raise ValueError(f"username isn't used with mechanism {self.mechanism}; remove it")
        return self

    def properties(self) -> dict[str, str]:
        """Return the properties of librdkafka for the keys that are set in this section."""
        values = {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.username,
            "sasl.password": in_clear(self.password),
            "ssl.ca.location": self.ca_location,
            "ssl.certificate.location": self.certificate_location,
            "ssl.key.location": self.key_location,
            "ssl.key.password": in_clear(self.key_password),
        }
        if self.oauth is not None:
            oauth = self.oauth
            extensions = ",".join(f"{name}={value}" for name, value in oauth.extensions.items())
            values |= {
                "sasl.oauthbearer.method": None if oauth.token_provider else "oidc",
                "sasl.oauthbearer.token.endpoint.url": oauth.token_endpoint_url,
                "sasl.oauthbearer.client.id": oauth.client_id,
                "sasl.oauthbearer.client.secret": in_clear(oauth.client_secret),
                "sasl.oauthbearer.scope": oauth.scope,
                "sasl.oauthbearer.extensions": extensions or None,
                "sasl.oauthbearer.config": oauth.config,
                "https.ca.location": oauth.ca_location,
                "oauth_cb": oauth.token_provider,
            }
        if self.kerberos is not None:
            values |= {
                "sasl.kerberos.principal": self.kerberos.principal,
                "sasl.kerberos.keytab": self.kerberos.keytab,
                "sasl.kerberos.service.name": self.kerberos.service_name,
            }
        return {name: value for name, value in values.items() if value is not None}


ALWAYS_IN_SECURITY = frozenset(
    (
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
    )
)
"""Properties of librdkafka that can't be combined with the section `security`."""

SECURITY_KEYS = {
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ca-location",
    "ssl.certificate.location": "certificate-location",
    "ssl.key.location": "key-location",
    "ssl.key.password": "key-password",
    "sasl.oauthbearer.token.endpoint.url": "oauth.token-endpoint-url",
    "sasl.oauthbearer.client.id": "oauth.client-id",
    "sasl.oauthbearer.client.secret": "oauth.client-secret",
    "sasl.oauthbearer.scope": "oauth.scope",
    "sasl.oauthbearer.extensions": "oauth.extensions",
    "sasl.oauthbearer.config": "oauth.config",
    "https.ca.location": "oauth.ca-location",
    "oauth_cb": "oauth.token-provider",
    "sasl.kerberos.principal": "kerberos.principal",
    "sasl.kerberos.keytab": "kerberos.keytab",
    "sasl.kerberos.service.name": "kerberos.service-name",
}
"""For each property of librdkafka, the key in the section `security` that sets it."""


def with_security_keys(message: str) -> str:
    """Replace properties such as `kafka.sasl.username` in a message by keys of `security`."""

    def key(match: re.Match[str]) -> str:
        known = SECURITY_KEYS.get(match[1])
        return match[0] if known is None else f"security.{known}"

    return re.sub(r"kafka\.([a-z_]+(?:\.[a-z_]+)*)", key, message)
