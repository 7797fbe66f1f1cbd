"""Client of a Confluent schema registry, which returns schemas by the id in a record's header.

The header of a value is a zero byte and the schema id in four bytes, big-endian. Requests are
limited in time and size, and responses are validated. Certificates are always verified. Credentials
are only sent to the configured origin.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from bayou.errors import KafkaError

__all__ = [
    "LONGEST_SECONDS",
    "MOST_BYTES",
    "Registry",
    "UnknownSchemaError",
    "get_schema",
    "origin",
    "split_header",
]


MOST_BYTES = 16 << 20
"""Maximum size of a response; the largest schemas are far smaller."""

LONGEST_SECONDS = 30.0
"""Maximum duration of a request and its response, even if bytes keep arriving."""

_TIMEOUT = 10.0  # seconds without any byte
_CHUNK = 1 << 16


def get_schema(request: urllib.request.Request) -> dict[str, Any]:
    """Request a schema; the result has the string `schema` and may have `references`.

    Raises:
        HTTPError: the status isn't 200.
        OSError, HTTPException: no response, or none in time.
        ValueError: the response is too large, or isn't a schema.
    """
    with _TimeLimit(), _OPENER.open(request, timeout=_TIMEOUT) as response:
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MOST_BYTES:
                raise ValueError(f"the response is larger than {MOST_BYTES >> 20} MB")
    try:
        document = json.loads(b"".join(chunks))
    except RecursionError as error:
        raise ValueError("the response is nested too deeply") from error
    if not _is_schema(document):
        raise ValueError("the response isn't a schema")
    schema: dict[str, Any] = document
    return schema


def origin(url: str | None) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url or "")
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


def _is_schema(document: Any) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        return False
    references = document.get("references")
    if references is None:
        return True
    return isinstance(references, list) and all(
        isinstance(reference, dict)
        and isinstance(reference.get("name"), str)
        and isinstance(reference.get("subject"), str)
        and type(reference.get("version")) is int
        for reference in references
    )


_OPENED = threading.local()


class _TimeLimit:
    """Shuts down the connections that this thread opens inside the context after a time limit."""

    def __enter__(self) -> None:
        self._sockets: list[socket.socket] = []
        _OPENED.sockets = self._sockets
        self._timer = threading.Timer(LONGEST_SECONDS, self._shut_down)
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        _OPENED.sockets = None

    def _shut_down(self) -> None:
        for opened in self._sockets:
            with suppress(OSError):  # already closed
                opened.shutdown(socket.SHUT_RDWR)


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _OPENED.sockets.append(self.sock)


class _SecureConnection(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _OPENED.sockets.append(self.sock)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Removes credentials from redirects to another origin, which `urllib` doesn't."""

    def redirect_request(  # noqa: PLR0917  # the signature of urllib
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise ValueError(f"it redirects to {urlsplit(newurl).scheme}:")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and origin(newurl) != origin(req.full_url):
            following.remove_header("Authorization")
        return following


_OPENER = urllib.request.build_opener(_Redirects, _Http, _Https)


_MAX_ATTEMPTS = 3
_FIRST_PAUSE = 0.2
_HEADER = 5
_SCHEMA_NOT_FOUND = 40403
"""The registry's error code for a schema id that it doesn't have."""
_UNKNOWN_FOR = 10.0
"""Seconds until a missing schema is requested again."""
_MAX_RETRIED_UNKNOWN = 16
"""With more missing schemas than this in that time, each one is requested only once."""
_UNKNOWN_REMEMBERED = 10_000


class UnknownSchemaError(ValueError):
    """The registry doesn't have the schema of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A schema registry. Can be pickled. Schemas are immutable and cached in the process.

    Attributes:
        url: URL such as `http://localhost:8081`. The password isn't sent to another host, port or
            scheme if the registry redirects there.
        user, password: credentials for basic authentication.
        on_unknown_schema: `dead-letter` to raise `UnknownSchemaError` for a record, `stop` to raise
            `KafkaError` for the batch.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    on_unknown_schema: Literal["dead-letter", "stop"] = "dead-letter"

    def schema(self, number: int, *, serialized: bool = False) -> dict[str, Any]:
        """Return a schema by its id: `schema`, `schemaType`, `references`.

        Args:
            number: the schema id.
            serialized: for Protobuf, return the base64 descriptor instead of the source.

        Raises:
            UnknownSchemaError: the registry doesn't have the schema, after a few attempts.
            KafkaError: the registry doesn't answer, or the URL is wrong.
        """
        try:
            return self._get(f"/schemas/ids/{number}{_FORMAT if serialized else ''}")
        except UnknownSchemaError as error:
            if self.on_unknown_schema == "dead-letter":
                raise
            raise KafkaError(
                f"The schema registry {self.url} has no schema {number}. Register it, or set "
                "on-unknown-schema: dead-letter for the topic.",
                topic="",
            ) from error

    def version(self, subject: str, version: int, *, serialized: bool = False) -> dict[str, Any]:
        """Return a version of a subject, as schema references name it.

        Raises:
            KafkaError: the registry doesn't answer, or doesn't have the version.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return self._get(path + (_FORMAT if serialized else ""))

    def _get(self, path: str) -> dict[str, Any]:
        with _LOCK:
            known = _KNOWN.get((self.url, path))
        if known is None:
            known = self._request(path)
            with _LOCK:
                _KNOWN[self.url, path] = known
        return known

    def _request(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310  # the configured URL
            self.url.rstrip("/") + path,
            headers={"Accept": "application/vnd.schemaregistry.v1+json"},
        )
        if self.user is not None:
            login = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        attempts = self._attempts(path)
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                return get_schema(request)
            except urllib.error.HTTPError as error:
                if error.code in (401, 403) and origin(error.url) != origin(self.url):
                    scheme, host, port = origin(error.url)
                    raise KafkaError(
                        f"The schema registry {self.url} redirects to {scheme}://{host}:{port}, "
                        "where no password is sent. If that is the registry, set "
                        "connector.schema-registry.url to its address.",
                        topic="",
                    ) from error
                if _error_code(error) == _SCHEMA_NOT_FOUND:
                    if attempt >= attempts:
                        raise self._mark_unknown(path) from error
                elif error.code < 500 or attempt == _MAX_ATTEMPTS:
                    raise KafkaError(
                        f"The schema registry {self.url} answers {path} with {error.code} "
                        f"{error.reason}. Check connector.schema-registry.url.",
                        topic="",
                    ) from error
            except (OSError, ValueError, HTTPException) as error:
                if attempt == _MAX_ATTEMPTS:
                    raise KafkaError(
                        f"The schema registry {self.url} doesn't answer with a schema: {error}. "
                        "Check connector.schema-registry.url.",
                        topic="",
                    ) from error
            time.sleep(_FIRST_PAUSE * attempt)
        raise AssertionError

    def _attempts(self, path: str) -> int:
        """Return the number of attempts for a missing schema, which may be registered late.

        Raises:
            UnknownSchemaError: the schema was missing a few seconds ago.
        """
        now = time.monotonic()
        with _LOCK:
            for known in [known for known, until in _UNKNOWN.items() if until <= now]:
                del _UNKNOWN[known]
            if (self.url, path) in _UNKNOWN:
                raise self._unknown_error(path)
            return _MAX_ATTEMPTS if len(_UNKNOWN) < _MAX_RETRIED_UNKNOWN else 1

    def _mark_unknown(self, path: str) -> UnknownSchemaError:
        with _LOCK:
            if len(_UNKNOWN) < _UNKNOWN_REMEMBERED:
                _UNKNOWN[self.url, path] = time.monotonic() + _UNKNOWN_FOR
        return self._unknown_error(path)

    def _unknown_error(self, path: str) -> UnknownSchemaError:
        number = path.removesuffix(_FORMAT).rpartition("/")[2]
        return UnknownSchemaError(f"the schema registry has no schema {number}")


_FORMAT = "?format=serialized"
_KNOWN: dict[tuple[str, str], dict[str, Any]] = {}
_UNKNOWN: dict[tuple[str, str], float] = {}
"""Time until which a schema counts as missing, so that all tasks and attempts of a batch agree."""
_LOCK = threading.Lock()


def _error_code(error: urllib.error.HTTPError) -> int | None:
    """Return the registry's error code from the response body; None if it isn't a registry's."""
    if error.code != 404:
        return None
    try:
        body = json.loads(error.read(_MAX_ERROR_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    code = body.get("error_code") if isinstance(body, dict) else None
    return code if isinstance(code, int) else None


_MAX_ERROR_BYTES = 64 << 10


def split_header(value: bytes) -> tuple[int, bytes] | None:
    """Return the schema id and the rest of a value; None for a value without a header."""
    if len(value) < _HEADER or value[0] != 0:
        return None
    return int.from_bytes(value[1:_HEADER], "big"), value[_HEADER:]
