"""An HTTP proxy that injects faults: refused requests, delays, and lost responses."""

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
    """A fault that the proxy injects into a request.

    Attributes:
        refuse: status of a response without calling the server: 503 (SlowDown) or 500
            (InternalError). 0 to call the server.
        delay: seconds to wait before forwarding the request.
        lose_answer: forward the request, then close the connection without a response.
        deny: forward the request, then respond with 500 InternalError.
    """

    refuse: Literal[0, 500, 503] = 0
    delay: float = 0.0
    lose_answer: bool = False
    deny: bool = False


NO_FAULT = Fault()


class FaultyProxy:
    """An HTTP proxy on loopback in front of one server; a context manager.

    Requests are forwarded unchanged, including the `Host` header, which S3 signs.

    Args:
        endpoint: the URL of the server.
        fault: returns the fault for a method and path (without the query string). Called from
            several threads, one call at a time.
    """

    def __init__(self, endpoint: str, fault: Callable[[str, str], Fault]) -> None:
        self.requests: Counter[Fault] = Counter()
        """Number of requests by fault."""
        self.fault = fault
        self._target = urlsplit(endpoint).netloc
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def endpoint(self) -> str:
        """URL of the proxy, to use instead of the server's URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def choose(self, method: str, path: str) -> Fault:
        """Return the fault of a request, and count it."""
        with self._lock:
            fault = self.fault(method, path)
            self.requests[fault] += 1
            return fault

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection to the server."""
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
        """Ignore errors of connections that the client closed."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    _upstream: http.client.HTTPConnection | None = None

    def handle_any(self) -> None:
        """Forward a request and inject its fault."""
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
        """Close the connection to the server when the client's connection ends."""
        if self._upstream is not None:
            self._upstream.close()
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Don't log requests."""

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
