"""Authentication of librdkafka clients: checks of client properties, and token providers.

librdkafka reports a missing file only as an OpenSSL error. If no token provider for OAUTHBEARER is
configured, librdkafka waits without an error. `check_authentication` reports both problems before a
client is created.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from bayou.errors import ArgumentError, KafkaError, PrerequisiteError
from bayou.redaction import without_values

TOKEN_PROVIDER = "oauth_cb"  # noqa: S105  # the client's name of the property
"""Client property that selects a token provider: `aws-msk-iam`, or `package.module:function`."""

TokenProvider: TypeAlias = Callable[[str], tuple[Any, ...]]
"""Function that returns an OAUTHBEARER token and its expiration in seconds since the epoch.

The argument is the value of `sasl.oauthbearer.config`. In the returned tuple, a principal and a
dict of SASL extensions may follow the expiration, as in confluent-kafka's `oauth_cb`.
"""

_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
    "https.ca.location",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
)
_OIDC = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
)
_ALIASES = {
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}


def check_authentication(properties: Mapping[str, str]) -> None:
    """Check files and client properties for TLS, OAUTHBEARER and Kerberos; open no connection.

    Raises:
        ArgumentError: a file can't be read, or a property is missing. The error's attribute
            `argument` is the property's name with the prefix `kafka.`.
        PrerequisiteError: a token provider needs a package that isn't installed.
    """
    for name in _FILES:
        if path := properties.get(name, ""):
            _check_file(name, path)
    _check_certificate(properties)
    if not properties.get("security.protocol", "").upper().startswith("SASL"):
        return
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    if mechanism.upper() == "OAUTHBEARER":
        _check_tokens(properties)
    elif mechanism.upper() == "GSSAPI" and properties.get("sasl.kerberos.keytab"):
        command = properties.get("sasl.kerberos.kinit.cmd", "kinit").split()[:1]
        if not command or shutil.which(command[0]) is None:
            raise _invalid(
                "sasl.kerberos.keytab",
                f"the command {command[0] if command else 'kinit'}, which gets tickets from the "
                "keytab, isn't installed. Install the Kerberos client (Debian: krb5-user).",
            )


def _check_file(name: str, path: str) -> None:
    if name in ("ssl.ca.location", "https.ca.location") and path == "probe":
        return
    if not Path(path).exists():
        problem = f"the file {path} doesn't exist"
        if not Path(path).is_absolute():
            problem += f" in the working directory {Path.cwd()}"
    elif not os.access(path, os.R_OK):
        problem = f"the file {path} can't be read by this user"
    else:
        return
    raise _invalid(
        name, f"{problem}. Correct the path. Each machine that runs tasks needs the file there."
    )


def _check_certificate(properties: Mapping[str, str]) -> None:
    certificates = ("ssl.certificate.location", "ssl.certificate.pem")
    keys = ("ssl.key.location", "ssl.key.pem")
    certificate = next((name for name in certificates if properties.get(name)), None)
    key = next((name for name in keys if properties.get(name)), None)
    if certificate is not None and key is None:
        raise _invalid(
            certificate,
            "a client certificate needs its private key. Set kafka.ssl.key.location to the file "
            "with the key. If the certificate's file contains the key, use this file.",
        )
    if key is not None and certificate is None:
        raise _invalid(
            key,
            "a private key needs its certificate. Set kafka.ssl.certificate.location.",
        )


def _check_tokens(properties: Mapping[str, str]) -> None:
    if provider := properties.get(TOKEN_PROVIDER):
        _load(provider)
        if provider == _MSK:
            _msk_settings(properties.get("sasl.oauthbearer.config", ""))
        return
    if properties.get("sasl.oauthbearer.method", "default").lower() != "oidc":
        if properties.get("enable.sasl.oauthbearer.unsecure.jwt", "").lower() == "true":
            return
        raise _invalid(
            "sasl.mechanism",
            "OAUTHBEARER has no source of tokens. Set kafka.oauth_cb to a token provider. Or set "
            "kafka.sasl.oauthbearer.method to oidc, and set the options for the token endpoint, "
            "client id and client secret.",
        )
    if properties.get("sasl.oauthbearer.metadata.authentication.type", "none") != "none":
        return
    required = list(_OIDC)
    if properties.get("sasl.oauthbearer.grant.type", "client_credentials") != "client_credentials":
        required = required[:1]  # an assertion identifies the client instead
    for name in required:
        if not properties.get(name) and not properties.get(_ALIASES.get(name, name)):
            raise _invalid(
                name, "the option is missing or empty, but OIDC requires it. Set the option."
            )
    endpoint = properties[_OIDC[0]]
    if not endpoint.startswith(("http://", "https://")):
        raise _invalid(_OIDC[0], "the value isn't an http or https URL. Correct the URL.")


def _invalid(name: str, problem: str) -> ArgumentError:
    return ArgumentError(f"Option kafka.{name}: {problem}", argument=f"kafka.{name}")


class TokenCallback:
    """The `oauth_cb` of a client: a function that requests a token from a token provider.

    The constructor requests the first token, and raises an error if this fails. After a failed
    request, the client itself would wait 10 s without reporting the reason. Error messages don't
    contain the provider's argument, which may be a secret.

    Raises:
        KafkaError: the provider fails.
    """

    def __init__(self, provider: str, config: str) -> None:
        self._provider = provider
        self._get = _load(provider)
        self._first: tuple[Any, ...] | None = self._request(config)

    def __call__(self, config: str | None) -> tuple[Any, ...]:
        first, self._first = self._first, None
        return self._request(config or "") if first is None else first

    def _request(self, config: str) -> tuple[Any, ...]:
        try:
            token = self._get(config)
        except (ArgumentError, PrerequisiteError):
            raise
        except Exception as error:  # noqa: BLE001 - a provider is foreign code
            trace = "".join(traceback.format_exception(error))
            is_shown = without_values(trace, [config]) != trace
            reason = without_values(f"{type(error).__name__}: {error}", [config])
            raise KafkaError(
                f"Kafka token provider {self._provider}: {reason}. Check the credentials of this "
                "machine."
            ) from (None if is_shown else error)
        match token:
            case (str(), int() | float(), *_):
                return token
        raise KafkaError(
            f"Kafka token provider {self._provider}: the function returned no token. Return a "
            "tuple of the token and its expiration in seconds since the epoch."
        )


def _load(provider: str) -> TokenProvider:
    if provider == _MSK:
        if importlib.util.find_spec("aws_msk_iam_sasl_signer") is None:
            raise PrerequisiteError(
                "The token provider aws-msk-iam needs aws-msk-iam-sasl-signer-python, which isn't "
                "installed on this machine. Install it with: pip install 'bayou[msk]'.",
                what="aws-msk-iam-sasl-signer-python",
            )
        return _msk_token
    module, separator, function = provider.partition(":")
    try:
        found = getattr(importlib.import_module(module), function) if separator else None
    except (ImportError, AttributeError, ValueError) as error:
        raise _invalid(
            TOKEN_PROVIDER,
            f"{provider!r} can't be imported: {error}. Install its module on each machine that "
            "runs tasks, or add its folder to PYTHONPATH.",
        ) from error
    if not callable(found):
        raise _invalid(
            TOKEN_PROVIDER,
            f"{provider!r} isn't a function. Write package.module:function, or {_MSK}.",
        )
    provided: TokenProvider = found
    return provided


_MSK = "aws-msk-iam"
_MSK_SETTINGS = ("region", "profile", "role-arn")


def _msk_settings(config: str) -> dict[str, str]:
    settings = dict(part.partition("=")[::2] for part in config.split())
    if unknown := sorted(settings.keys() - set(_MSK_SETTINGS)):
        raise _invalid(
            "sasl.oauthbearer.config",
            f"unknown setting {unknown[0]!r}. The token provider {_MSK} has the settings "
            f"{', '.join(_MSK_SETTINGS)}.",
        )
    settings.setdefault("region", os.environ.get("AWS_REGION", ""))
    if not settings["region"]:
        raise _invalid(
            "sasl.oauthbearer.config",
            f"the token provider {_MSK} needs a region. Add it to this option, for example "
            "region=eu-west-1, or set the environment variable AWS_REGION.",
        )
    return settings


def _msk_token(config: str) -> tuple[str, float]:
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    settings = _msk_settings(config)
    region = settings["region"]
    if role := settings.get("role-arn"):
        token, expires = MSKAuthTokenProvider.generate_auth_token_from_role_arn(region, role)
    elif profile := settings.get("profile"):
        token, expires = MSKAuthTokenProvider.generate_auth_token_from_profile(region, profile)
    else:
        token, expires = MSKAuthTokenProvider.generate_auth_token(region)
    return token, expires / 1000  # the signer returns milliseconds
