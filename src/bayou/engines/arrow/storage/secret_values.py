"""Secret values in storage options, which a store's response may quote without their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

_SECRET = re.compile(
    r"(?:aws_)?(?:secret_access_key|session_token|token|sse_customer_key_base64)"
    r"|(?:azure_)?(?:storage_)?(?:account|access|master|encryption|sas)_key"
    r"|(?:azure_)?(?:storage_)?(?:client_secret|bearer_token|sas_token|token)|(?:azure_)?fabric_session_token"
    r"|(?:google_)?(?:bearer_token|service_account_key)"
)
"""Names of the options and environment variables that stores read as secrets, and names in the
results of credential providers. An access key's ID isn't secret."""

_LOGIN = re.compile(r"://([^\s/:@?#]*:(?!\d+(?:[/?#]|$))\S*|[^\s/?#]+)@")
"""Matches the user and password, or the token, in a URL; not a port: `http://host:9000/a@b`."""


def secret_values(options: Mapping[str, Any], hosts: Collection[str] = ()) -> Iterator[str]:
    """Yield the secret values in storage options, as they are sent to a store and percent-encoded.

    These are the values of options such as `aws_session_token`, the signatures in shared access
    signatures, and the passwords or tokens in URLs.

    Args:
        hosts: values that messages may contain, such as `minio`; see `endpoint_hosts`.
    """
    for name, value in options.items():
        for part in _parts(name.lower(), value):
            if part and part.lower() not in hosts:
                yield from {part, quote(part, safe="")}


def endpoint_hosts(options: Mapping[str, Any]) -> set[str]:
    """Return the hosts in the URLs of storage options, and the parts of their names."""
    hosts = set[str]()
    for value in options.values():
        if isinstance(value, str) and "://" in value:
            try:
                host = urlsplit(value).hostname or ""
            except ValueError:  # invalid host or brackets
                continue
            hosts.update((host, *re.split(r"[^a-z0-9]+", host)))
    return hosts


def _parts(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, list):  # the parameters of a shared access signature
        yield from (text for key, text in value if key == "sig")
        return
    if not isinstance(value, str):
        return
    if match := _LOGIN.search(value):
        user, _, password = match[1].partition(":")
        yield from (password or user, unquote(password or user))
    if _SECRET.fullmatch(name):
        yield value
        for parameter in value.removeprefix("?").split("&"):
            if parameter.startswith("sig="):
                yield from (parameter[4:], unquote(parameter[4:]))


def recording_provider(
    provider: Callable[[], Mapping[str, Any]] | None, secrets: set[str], hosts: Collection[str]
) -> Callable[[], Mapping[str, Any]] | None:
    """Return a credential provider that adds the secrets that `provider` returns to `secrets`.

    Args:
        hosts: see `secret_values`.
    """
    if provider is None:
        return None

    def provide() -> Mapping[str, Any]:
        credentials = provider()
        secrets.update(secret_values(credentials, hosts))
        return credentials

    return provide
