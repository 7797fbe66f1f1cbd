"""Secret values in storage options, which a store's response may quote without their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from bayou.redaction import is_secret_name

_PATHS = ("_file", "_uri", "credentials")
"""Endings of the names of options whose values are paths of files with secrets."""

_PASSWORD = re.compile(r"://[^:@\s]*:?(\S+)@")
"""Matches the password or token in a URL."""


def secret_values(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the secret values in storage options, as they are sent to a store and percent-encoded.

    These are the values of options with names such as `aws_session_token`, the signatures in shared
    access signatures, and the passwords in URLs.
    """
    for name, value in options.items():
        for part in _parts(name.lower(), value):
            yield from {part, quote(part, safe="")}


def _parts(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, list):  # the parameters of a shared access signature
        yield from (text for key, text in value if key == "sig")
    elif not isinstance(value, str):
        return
    elif match := _PASSWORD.search(value):
        yield from (match[1], unquote(match[1]))
    elif is_secret_name(name) and not name.endswith(_PATHS):
        yield value
        for parameter in value.removeprefix("?").split("&"):
            if parameter.startswith("sig="):
                yield from (parameter[4:], unquote(parameter[4:]))


def recording_provider(
    provider: Callable[[], Mapping[str, Any]] | None, secrets: set[str]
) -> Callable[[], Mapping[str, Any]] | None:
    """Return a credential provider that adds the secrets that `provider` returns to `secrets`."""
    if provider is None:
        return None

    def provide() -> Mapping[str, Any]:
        credentials = provider()
        secrets.update(secret_values(credentials))
        return credentials

    return provide
