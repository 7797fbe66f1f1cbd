"""The URL and the token of a Unity Catalog server, from storage options or the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bayou.errors import ArgumentError

URI = "UC_URI"
TOKEN = "UC_TOKEN"  # noqa: S105 - the name of an option
_SOURCES = ((URI, TOKEN), ("DATABRICKS_HOST", "DATABRICKS_TOKEN"))
"""Names of the storage options or environment variables with the URL and the token.

Each pair is (name of the URL, name of the token). The first pair with a URL is used.
"""

_API = "/api/2.1/unity-catalog"
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitySettings:
    """The URL and the token of a server.

    Attributes:
        uri: URL of the server, such as `https://host:8080`, without the path of the API.
        token: bearer token; None for a server without authentication.
    """

    uri: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not _is_server(self.uri):
            raise ArgumentError(
                f"{URI}: this isn't the URL of a server. Use a URL such as https://host:8080, and "
                f"pass the token as {TOKEN}.",
                argument="storage_options",
            )
        if self.token is not None and _CONTROL.search(self.token):
            raise ArgumentError(
                f"{TOKEN}: the value has a space, a line break or another control character. "
                "Remove this character. If a command writes the value, use `printf %s` instead of "
                "`echo`, which appends a line break.",
                argument="storage_options",
            )

    @classmethod
    def of(cls, uri: str, token: str | None) -> UnitySettings:
        """Create settings from a URL and a token. The URL can end with the path of the API."""
        url = uri.strip()
        url = url if "://" in url else f"https://{url}"
        return cls(uri=url.rstrip("/").removesuffix(_API), token=token or None)

    @property
    def api(self) -> str:
        """URL of the API."""
        return f"{self.uri}{_API}"

    def options(self) -> dict[str, str]:
        """Return these settings as storage options that `unity_settings` can read."""
        return {URI: self.uri, **({} if self.token is None else {TOKEN: self.token})}


def unity_settings(
    options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> UnitySettings:
    """Read the settings from storage options, or from environment variables.

    If the storage options have no URL, the URL and the token come from environment variables. If
    the storage options have a URL but no token, only the token comes from an environment variable.

    Raises:
        ArgumentError: the URL is missing or invalid.
    """
    environment = os.environ if environment is None else environment
    for source in ({name.upper(): value for name, value in options.items()}, environment):
        for uri, token in _SOURCES:
            if source.get(uri):
                return UnitySettings.of(source[uri], source.get(token) or environment.get(token))
    raise ArgumentError(
        f"{URI}: the address of the Unity Catalog server is missing. Set {URI} and {TOKEN} in the "
        "environment or in storage_options.",
        argument="storage_options",
    )


def _is_server(uri: str) -> bool:
    """Whether a URL is valid as the address of a server: without a user name, query or fragment."""
    try:
        url = urlsplit(uri)
        return (
            url.scheme in ("http", "https")
            and bool(url.hostname)
            and url.username is None
            and url.port != 0
            and not _CONTROL.search(uri)
            and not (url.query or url.fragment)
        )
    except ValueError:  # the port isn't a number
        return False


def without_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the storage options without the URL and the token of the catalog."""
    names = {name for pair in _SOURCES for name in pair}
    return {name: value for name, value in options.items() if name.upper() not in names}
