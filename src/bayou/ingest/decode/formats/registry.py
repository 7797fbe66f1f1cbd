"""The schema registry of Confluent's kind: schemas by the number in a record's header.

A value begins with a zero byte and the schema's number, four bytes, big end first.

HTTP requests of the schema registry's client: bounded in time and size, checked in shape.

Certificates are verified; nothing turns that off. A login is sent to no other origin than its own.
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
"""Of an answer; the largest schemas are far below."""

LONGEST_SECONDS = 30.0
"""Of a request with its answer, however often a few bytes come."""

_TIMEOUT = 10.0  # seconds without a byte
_PIECE = 1 << 16


def get_schema(request: urllib.request.Request) -> dict[str, Any]:
    """The answer to a request for a schema: `schema` is a text, `references` name others.

    Raises:
        HTTPError: another status than 200.
        OSError, HTTPException: no answer, or none in time.
        ValueError: the answer is too large, or isn't a schema.
    """
    with _TimeLimit(), _OPENER.open(request, timeout=_TIMEOUT) as answer:
        pieces: list[bytes] = []
        size = 0
        while piece := answer.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise ValueError(f"its answer is larger than {MOST_BYTES >> 20} MB")
    try:
        found = json.loads(b"".join(pieces))
    except RecursionError as error:
        raise ValueError("its answer is nested too deeply") from error
    if not _is_schema(found):
        raise ValueError("its answer isn't a schema")
    schema: dict[str, Any] = found
    return schema


def origin(url: str | None) -> tuple[str, str | None, int | None]:
    """Scheme, host and port: what a login is for."""
    parts = urlsplit(url or "")
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


def _is_schema(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        return False
    references = found.get("references")
    if references is None:
        return True
    return isinstance(references, list) and all(
        isinstance(other, dict)
        and isinstance(other.get("name"), str)
        and isinstance(other.get("subject"), str)
        and type(other.get("version")) is int
        for other in references
    )


_OPENED = threading.local()


class _TimeLimit:
    """Shuts the connections down that this thread opens inside, once the time is over."""

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
            with suppress(OSError):  # it is closed
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
    """Sends a login to no other origin than the one that it is for; `urllib` itself would."""

    def redirect_request(  # noqa: PLR0917  # as urllib calls it
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise ValueError(f"it redirects to {urlsplit(newurl).scheme}:")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and origin(newurl) != origin(req.full_url):
            following.remove_header("Authorization")
        return following


_OPENER = urllib.request.build_opener(_Redirects, _Http, _Https)


_TRIES = 3
_FIRST_PAUSE = 0.2
_HEADER = 5
_SCHEMA_NOT_FOUND = 40403
"""The registry's error code for a schema id that it doesn't have."""
_UNKNOWN_FOR = 10.0
"""Seconds until the registry is asked again for a schema that it didn't have."""
_UNKNOWN_TRIED_AGAIN = 16
"""With more unknown schemas than this in that time, each is asked for once only."""
_UNKNOWN_REMEMBERED = 10_000


class UnknownSchemaError(ValueError):
    """The registry doesn't have the schema of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A registry. Pickles; what was read is kept for the whole process, for it never changes.

    Attributes:
        url: such as `http://localhost:8081`. Where it redirects to another host, port or scheme,
            the password isn't sent there.
        user, password: for basic authentication.
        on_unknown_schema: `dead-letter` for an `UnknownSchemaError` of one record, `stop` for a
            `KafkaError` of the batch.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    on_unknown_schema: Literal["dead-letter", "stop"] = "dead-letter"

    def schema(self, number: int, *, serialized: bool = False) -> dict[str, Any]:
        """What the registry says of a schema: `schema`, `schemaType`, `references`.

        Args:
            serialized: of Protobuf the descriptor in base 64 instead of its text.

        Raises:
            UnknownSchemaError: it doesn't have the schema, after a few tries.
            KafkaError: it doesn't answer, or its address is wrong.
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
        """A version of a subject, which is how schemas refer to others.

        Raises:
            KafkaError: it doesn't answer, or doesn't have it.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return self._get(path + (_FORMAT if serialized else ""))

    def _get(self, path: str) -> dict[str, Any]:
        with _LOCK:
            known = _KNOWN.get((self.url, path))
        if known is None:
            known = self._ask(path)
            with _LOCK:
                _KNOWN[self.url, path] = known
        return known

    def _ask(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310  # the configuration's own address
            self.url.rstrip("/") + path,
            headers={"Accept": "application/vnd.schemaregistry.v1+json"},
        )
        if self.user is not None:
            login = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        tries = self._tries(path)
        for attempt in range(1, _TRIES + 1):
            try:
                return get_schema(request)
            except urllib.error.HTTPError as error:
                if error.code in (401, 403) and origin(error.url) != origin(self.url):
                    scheme, host, port = origin(error.url)
                    raise KafkaError(
                        f"The schema registry {self.url} redirects to {scheme}://{host}:{port}, "
                        "where no password is sent. If that is the registry, write its address "
                        "into connector.schema-registry.url.",
                        topic="",
                    ) from error
                if _error_code(error) == _SCHEMA_NOT_FOUND:
                    if attempt >= tries:
                        raise self._unknown(path) from error
                elif error.code < 500 or attempt == _TRIES:
                    raise KafkaError(
                        f"The schema registry {self.url} answers {path} with {error.code} "
                        f"{error.reason}. Check connector.schema-registry.url.",
                        topic="",
                    ) from error
            except (OSError, ValueError, HTTPException) as error:
                if attempt == _TRIES:
                    raise KafkaError(
                        f"The schema registry {self.url} doesn't answer with a schema: {error}. "
                        "Check connector.schema-registry.url.",
                        topic="",
                    ) from error
            time.sleep(_FIRST_PAUSE * attempt)
        raise AssertionError

    def _tries(self, path: str) -> int:
        """How often to ask for a schema that the registry doesn't have; a new one may be late.

        Raises:
            UnknownSchemaError: it didn't have this schema a moment ago.
        """
        now = time.monotonic()
        with _LOCK:
            for known in [known for known, until in _UNKNOWN.items() if until <= now]:
                del _UNKNOWN[known]
            if (self.url, path) in _UNKNOWN:
                raise self._unknown_schema(path)
            return _TRIES if len(_UNKNOWN) < _UNKNOWN_TRIED_AGAIN else 1

    def _unknown(self, path: str) -> UnknownSchemaError:
        with _LOCK:
            if len(_UNKNOWN) < _UNKNOWN_REMEMBERED:
                _UNKNOWN[self.url, path] = time.monotonic() + _UNKNOWN_FOR
        return self._unknown_schema(path)

    def _unknown_schema(self, path: str) -> UnknownSchemaError:
        number = path.removesuffix(_FORMAT).rpartition("/")[2]
        return UnknownSchemaError(f"the schema registry has no schema {number}")


_FORMAT = "?format=serialized"
_KNOWN: dict[tuple[str, str], dict[str, Any]] = {}
_UNKNOWN: dict[tuple[str, str], float] = {}
"""Until when a schema counts as unknown, so that all tasks and tries of a batch agree."""
_LOCK = threading.Lock()


def _error_code(error: urllib.error.HTTPError) -> int | None:
    """The registry's own error code in the answer's body; None where another server answers."""
    if error.code != 404:
        return None
    try:
        told = json.loads(error.read(_MOST_OF_AN_ERROR))
    except (OSError, ValueError, RecursionError):
        return None
    code = told.get("error_code") if isinstance(told, dict) else None
    return code if isinstance(code, int) else None


_MOST_OF_AN_ERROR = 64 << 10


def split_header(value: bytes) -> tuple[int, bytes] | None:
    """The schema's number and what comes behind it; None for a value without a header."""
    if len(value) < _HEADER or value[0] != 0:
        return None
    return int.from_bytes(value[1:_HEADER], "big"), value[_HEADER:]
