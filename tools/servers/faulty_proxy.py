"""A proxy in front of an HTTP server that refuses, delays, and loses answers, as it is told."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

__all__ = ["NO_FAULT", "Fault", "FaultyProxy"]

_ERRORS = {
    500: b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>""",
    503: b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>""",
}
_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
_UPSTREAM_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with a request.

    Attributes:
        refuse: it is answered 503 SlowDown or 500 InternalError, and the server never sees it.
        delay: seconds to wait before the server sees it.
        lose_answer: the server does it, and the connection ends without an answer.
        deny: the server does it, and the answer is 500 InternalError.
    """

    refuse: Literal[0, 500, 503] = 0
    delay: float = 0.0
    lose_answer: bool = False
    deny: bool = False


NO_FAULT = Fault()


class FaultyProxy:
    """An HTTP proxy on loopback in front of one server; a context manager.

    Requests go on as they come, `Host` included, which S3's signatures cover.

    Args:
        endpoint: the URL of the server.
        fault: chooses what goes wrong by method and path (without the query); it is called from
            several threads, one call at a time.
    """

    def __init__(self, endpoint: str, fault: Callable[[str, str], Fault]) -> None:
        self.requests: Counter[Fault] = Counter()
        """How many requests met which fault."""
        self.fault = fault
        self._target = urlsplit(endpoint).netloc
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def endpoint(self) -> str:
        """Its URL, in place of the server's."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def choose(self, method: str, path: str) -> Fault:
        """What goes wrong with this request; it is counted."""
        with self._lock:
            fault = self.fault(method, path)
            self.requests[fault] += 1
            return fault

    def connect(self) -> http.client.HTTPConnection:
        """A connection to the server."""
        return http.client.HTTPConnection(self._target, timeout=_UPSTREAM_TIMEOUT)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], proxy: FaultyProxy) -> None:
        self.proxy = proxy
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client or the server went away: nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    _upstream: http.client.HTTPConnection | None = None

    def handle_any(self) -> None:
        """Pass a request on, with its fault."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.proxy.choose(self.command, urlsplit(self.path).path)
        if fault.refuse:
            self._fail(fault.refuse)
            return
        time.sleep(fault.delay)
        answer, data = self._ask(body)
        if fault.lose_answer:
            self.close_connection = True
            return
        if fault.deny:
            self._fail(500)
            return
        headers = [(k, v) for k, v in answer.getheaders() if k.lower() not in _OF_THE_CONNECTION]
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, headers, data, length=length)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - http.server's names

    def finish(self) -> None:
        """The client is gone."""
        if self._upstream is not None:
            self._upstream.close()
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def _ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        if self._upstream is None:
            self._upstream = self.server.proxy.connect()
        upstream = self._upstream
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders(body or None)
        answer = upstream.getresponse()
        return answer, answer.read()

    def _fail(self, status: int) -> None:
        self._answer(status, [("Content-Type", "application/xml")], _ERRORS[status])

    def _answer(
        self, status: int, headers: list[tuple[str, str]], data: bytes, *, length: str | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
