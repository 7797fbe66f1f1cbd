"""HTTP requests of the schema registry's client: bounded in time and size, checked in shape.

Certificates are verified; nothing turns that off. A login is sent to no other origin than its own.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

__all__ = ["LONGEST_SECONDS", "MOST_BYTES", "get_schema", "origin"]

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
