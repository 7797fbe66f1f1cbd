"""Finds the secret values in storage options, so that they can be removed from messages.

A store's response may contain such a value without the name of its option.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

_SECRET = re.compile(
    r"(?:aws_)?(?:secret_access_key|session_token|token|sse_customer_key_base64)"
    r"|(?:azure_)?(?:storage_)?(?:account|access|master|encryption|sas)_key"
    r"|(?:azure_)?(?:storage_)?(?:client_secret|bearer_token|sas_token|token)|(?:azure_)?fabric_session_token"
    r"|(?:google_)?(?:bearer_token|service_account_key)"
)
"""Regular expression that matches the names of secrets in storage options, environment variables
and the results of credential providers. The ID of an access key isn't secret."""

_LOGIN = re.compile(r"://([^\s/:@?#]*:(?!\d+(?:[/?#]|$))\S*|[^\s/?#]+)@")
"""Regular expression that matches the credentials in a URL: a user and a password, or a token. It
doesn't match `http://host:9000/a@b`, where the host is followed by a port."""


_MAX_PROVIDED = 400
"""Maximum number of secrets that are retained for each credential provider. They are the secrets of
about the last hundred refreshes."""


class StoreSecrets:
    """The secrets in requests to object stores, which must not be in messages. Thread-safe.

    Iterating yields all secrets of storage options, and the latest secrets of each credential
    provider. Older secrets aren't needed, because an error response only quotes the secrets of its
    own request.
    """

    def __init__(self) -> None:
        self._of_options: set[str] = set()
        self._provided: list[dict[str, None]] = []  # for each provider, the latest secret last
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            secrets = {*self._of_options, *(s for provided in self._provided for s in provided)}
        return iter(secrets)

    def add_options(self, options: Mapping[str, Any], hosts: Collection[str]) -> None:
        """Add the secrets of storage options; for `hosts`, see `secret_values`."""
        with self._lock:
            self._of_options.update(secret_values(options, hosts))

    def record(
        self, provider: Callable[[], Mapping[str, Any]] | None, hosts: Collection[str]
    ) -> Callable[[], Mapping[str, Any]] | None:
        """Return a credential provider that calls `provider`, and adds the secrets in the result.

        Args:
            provider: the provider to wrap. If None, the method returns None.
            hosts: see `secret_values`.
        """
        if provider is None:
            return None
        provided: dict[str, None] = {}
        with self._lock:
            self._provided.append(provided)

        def provide() -> Mapping[str, Any]:
            credentials = provider()
            with self._lock:
                for secret in secret_values(credentials, hosts):
                    provided.pop(secret, None)
                    provided[secret] = None
                while len(provided) > _MAX_PROVIDED:
                    del provided[next(iter(provided))]
            return credentials

        return provide


def secret_values(options: Mapping[str, Any], hosts: Collection[str] = ()) -> Iterator[str]:
    """Yield each secret value in storage options, both unchanged and percent-encoded.

    These are the values of options such as `aws_session_token`, the signatures in shared access
    signatures, and the passwords or tokens in URLs.

    Args:
        hosts: result of `endpoint_hosts`. A value that equals one of these names isn't yielded,
            because messages must be able to name the host.
    """
    for name, value in options.items():
        for part in _parts(name.lower(), value):
            if part and part.lower() not in hosts:
                yield from {part, quote(part, safe="")}


def endpoint_hosts(options: Mapping[str, Any]) -> set[str]:
    """Return the host names in the URLs of storage options, and the parts of each host name."""
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
