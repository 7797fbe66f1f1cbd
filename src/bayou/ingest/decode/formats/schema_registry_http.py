"""Sends HTTP requests to a schema registry with the client of confluent-kafka.

The client supports authentication, TLS, and several URLs of one registry. This module limits the
duration and the size of a response, validates responses, and follows redirects without sending
credentials to another origin.
"""

from __future__ import annotations

import importlib.util
import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bayou.errors import PrerequisiteError
from bayou.redaction import without_values

if TYPE_CHECKING:
    import httpx2
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

MAX_RESPONSE_BYTES = 16 << 20
"""Maximum size of a response in bytes, which is far more than the largest schemas need."""

LONGEST_SECONDS = 30.0
"""Maximum number of seconds for a request and its complete response."""

_TIMEOUT = 10  # maximum seconds between two bytes


class RegistryStatusError(Exception):
    """The registry answered with a status other than 200.

    Attributes:
        code: the HTTP status.
        error_code: the registry's `error_code`; None if the response has none.
        url: the URL that answered, after redirects.
    """

    def __init__(self, code: int, error_code: int | None, url: str) -> None:
        super().__init__(f"HTTP status {code}")
        self.code = code
        self.error_code = error_code
        self.url = url


class NoResponseError(Exception):
    """No complete and valid response was received; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAddress:
    """URLs and credentials of a schema registry. Can be pickled.

    Attributes:
        url: the registry's URL, or URLs of several nodes, separated by commas.
        token: a static bearer token.
        token_endpoint: OIDC endpoint that issues bearer tokens for the client id, secret and scope.
        logical_cluster, identity_pool: identifiers of Confluent Cloud, sent with bearer tokens.
        ca_location: PEM file or folder; if None, the system's CA certificates are used.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str = ""
    logical_cluster: str = ""
    identity_pool: str | None = None
    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def scrub(self, text: str) -> str:
        """Return `text` with each secret of this address replaced by `***`."""
        secrets = (self.password, self.token, self.client_secret, self.key_password)
        return without_values(text, (secret for secret in secrets if secret is not None))

    def client_settings(self) -> dict[str, Any]:
        """Return the settings of confluent-kafka's client."""
        settings: dict[str, Any] = {"url": self.url, "timeout": _TIMEOUT, "max.retries": 0}
        files = {
            "ssl.ca.location": self.ca_location or ssl.get_default_verify_paths().cafile,
            "ssl.certificate.location": self.certificate_location,
            "ssl.key.location": self.key_location,
            "ssl.key.password": self.key_password,
        }
        settings |= {name: value for name, value in files.items() if value is not None}
        if self.user:
            settings["basic.auth.user.info"] = f"{self.user}:{self.password or ''}"
        if self.token is not None or self.token_endpoint is not None:
            settings["bearer.auth.logical.cluster"] = self.logical_cluster
            if self.identity_pool is not None:
                settings["bearer.auth.identity.pool.id"] = self.identity_pool
        if self.token is not None:
            settings["bearer.auth.credentials.source"] = "STATIC_TOKEN"
            settings["bearer.auth.token"] = self.token
        elif self.token_endpoint is not None:
            settings |= {
                "bearer.auth.credentials.source": "OAUTHBEARER",
                "bearer.auth.issuer.endpoint.url": self.token_endpoint,
                "bearer.auth.client.id": self.client_id,
                "bearer.auth.client.secret": self.client_secret,
                "bearer.auth.scope": self.scope,
            }
        return settings


CLIENT_PACKAGES = ("attr", "authlib", "cachetools", "certifi", "confluent_kafka", "httpx2")
"""Names of the modules that the registry's client imports."""


def _require_client() -> None:
    """Raise `PrerequisiteError` if a package of the client isn't installed."""
    for package in CLIENT_PACKAGES:
        if package not in sys.modules and importlib.util.find_spec(package) is None:
            raise PrerequisiteError(
                f"The schema registry's client needs {package}, which isn't installed on this "
                "machine. Install it with: pip install 'bayou[cli]'.",
                what=package,
            )


def origin(url: str | None) -> tuple[str, str | None, int | None]:
    """Return the scheme, host and port of a URL, with the default port of the scheme."""
    parts = urlsplit(url or "")
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


class RegistryConnection:
    """Requests schemas from a registry, one at a time. Thread-safe."""

    def __init__(self, address: RegistryAddress) -> None:
        self._address = address
        self._origins = {origin(url.strip()) for url in address.url.split(",")}
        self._lock = threading.Lock()
        self._client: SchemaRegistryClient | None = None
        self._last_url = address.url

    def schema(self, number: int, *, fmt: str | None, subject: str | None) -> dict[str, Any]:
        """Request the schema with the id `number`.

        Args:
            fmt: the format of the returned schema, such as `serialized`; None for the registry's
                default format.
            subject: the subject to add to the request; None to request only the id.

        Returns:
            A dict with the string `schema`, and the list `references` of dicts with `name`,
            `subject` and `version`.

        Raises:
            RegistryStatusError: the status isn't 200.
            NoResponseError: no complete response arrived within the time limit, or the response
                isn't a schema.
        """
        return self._request(
            lambda client: client.get_schema(number, subject_name=subject, fmt=fmt)
        )

    def version(self, subject: str, version: int, *, fmt: str | None) -> dict[str, Any]:
        """Request the schema of a version of a subject; the version may be deleted.

        Result and errors are the same as in `schema`.
        """
        return self._request(
            lambda client: client.get_version(subject, version, deleted=True, fmt=fmt).schema
        )

    def is_elsewhere(self, url: str) -> bool:
        """Whether a URL has another host, port or scheme than all URLs of the registry."""
        return origin(url) not in self._origins

    def _request(self, call: Callable[[SchemaRegistryClient], Schema]) -> dict[str, Any]:
        _require_client()
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

        address = self._address
        with self._lock:
            self._last_url = address.url
            try:
                schema = self._within_time_limit(call)
            except SchemaRegistryError as error:
                code: Any = error.error_code  # the response may contain anything
                raise RegistryStatusError(error.http_status_code, code, self._last_url) from None
            except OAuthTokenError as error:
                reason = address.scrub(error.message)
                raise NoResponseError(f"no token from {address.token_endpoint}: {reason}") from None
            except RecursionError:
                raise NoResponseError("the response is nested too deeply") from None
            except (AttributeError, KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError):
                raise NoResponseError("the response isn't a schema") from None
            except Exception as error:  # noqa: BLE001 - it isn't an error of the record
                reason = address.scrub(str(error).rstrip(".") or type(error).__name__)
                raise NoResponseError(reason) from None
        return _checked(schema)

    def _within_time_limit(self, call: Callable[[SchemaRegistryClient], Schema]) -> Schema:
        """Call a function in another thread, and return its result or raise its error.

        Raises:
            NoResponseError: the call takes longer than `LONGEST_SECONDS`. In this case, the client
                is closed.
        """
        if self._client is None:
            self._client = self._connect()
        client, results, errors = self._client, list["Schema"](), list[BaseException]()

        def run() -> None:
            try:
                results.append(call(client))
            except BaseException as error:  # noqa: BLE001  # raised again in the calling thread
                errors.append(error)
            # The client's cache ignores the format of a schema, and contains invalid responses.
            client.clear_caches()  # type: ignore[no-untyped-call]

        thread = threading.Thread(target=run, name="bayou-registry", daemon=True)
        thread.start()
        thread.join(LONGEST_SECONDS)
        if thread.is_alive():
            self._client = None
            client.close()
            raise NoResponseError(f"no complete response within {LONGEST_SECONDS:g} s")
        if errors:
            raise errors[0]
        return results[0]

    def _connect(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        client = SchemaRegistryClient(self._address.client_settings())
        # The client doesn't follow redirects and has no setting for them.
        session: httpx2.Client = client._rest_client.session  # noqa: SLF001
        session.follow_redirects = True
        session.event_hooks = {"request": [self._before], "response": [self._after]}
        return client

    def _before(self, request: httpx2.Request) -> None:
        """Remove the credentials from a request if it goes to another origin after a redirect."""
        if request.url.scheme not in ("http", "https"):
            raise ValueError(f"it redirects to a URL with the scheme {request.url.scheme!r}")
        request.headers["Accept-Encoding"] = "identity"  # no decompression bombs
        if self.is_elsewhere(str(request.url)):
            request.headers.pop("Authorization", None)

    def _after(self, response: httpx2.Response) -> None:
        self._last_url = str(response.url)
        response.headers.pop("Content-Encoding", None)
        response.stream = _limited(response.stream)


def _limited(stream: Any) -> Any:
    """Wrap a response's stream; reading more than `MAX_RESPONSE_BYTES` raises `ValueError`."""
    import httpx2

    class LimitedStream(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for chunk in stream:
                size += len(chunk)
                if size > MAX_RESPONSE_BYTES:
                    raise ValueError(
                        "the schema registry's response is larger than "
                        f"{MAX_RESPONSE_BYTES >> 20} MB"
                    )
                yield chunk

        def close(self) -> None:
            stream.close()

    return LimitedStream()


def _checked(schema: Schema) -> dict[str, Any]:
    references = schema.references or []
    if not isinstance(schema.schema_str, str) or not all(
        isinstance(reference.name, str)
        and isinstance(reference.subject, str)
        and type(reference.version) is int
        for reference in references
    ):
        raise NoResponseError("the response isn't a schema")
    return {
        "schema": schema.schema_str,
        "references": [
            {"name": r.name, "subject": r.subject, "version": r.version} for r in references
        ],
    }
