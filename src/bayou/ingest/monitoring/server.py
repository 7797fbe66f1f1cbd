"""The HTTP server of monitoring.

It serves `/`, `/runbook`, `/status.json`, `/metrics`, `/healthz` and `/readyz`, with the HTTP
server of the standard library.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from bayou.errors import PrerequisiteError
from bayou.ingest.config.connector.operations import MonitoringConfig, is_loopback
from bayou.ingest.monitoring.metrics import CONTENT_TYPE, exposition
from bayou.ingest.monitoring.status import PipelineStatus
from bayou.ingest.monitoring.status_store import StatusStore

_JSON = "application/json; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_OPEN = ("/healthz", "/readyz", "/runbook")
"""Paths that need no token, because their responses contain no information about topics."""
_POLL_SECONDS = 0.1
"""Maximum number of seconds that `close` waits for the server."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class StatusServer:
    """Serves the status in `store` over HTTP until `close` is called."""

    def __init__(self, config: MonitoringConfig, store: StatusStore) -> None:
        token = None if config.token is None else config.token.get_secret_value()
        folder = files("bayou.ingest.monitoring")
        page, runbook = (folder.joinpath(f"{n}.html").read_bytes() for n in ("page", "runbook"))

        class Handler(_Handler):
            pass

        Handler.store, Handler.token = store, token
        Handler.page, Handler.runbook = page, runbook
        kind = _ServerV6 if ":" in config.host else _Server
        try:
            self._server = kind((config.host, config.port), Handler)
        except OSError as error:
            raise PrerequisiteError(
                f"connector.monitoring: can't listen on {config.host}:{config.port}: "
                f"{error.strerror or error}. Set another port, or 0 for a free port.",
                what="port",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_POLL_SECONDS,),
            name="bayou-status",
            daemon=True,
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """URL of the status page, without a token."""
        host, port = self._server.server_address[:2]
        shown = host.decode() if isinstance(host, bytes) else host
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


MOST_CONNECTIONS = 32
"""Maximum number of concurrent connections. Each connection has a thread."""


class _Server(ThreadingHTTPServer):
    """A server with one thread for each connection, up to a limit.

    At the limit, a new connection replaces the oldest idle connection, which hasn't sent a request
    yet. Idle connections therefore can't block health checks. If no connection is idle, the new
    connection is closed.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._changed = threading.Condition()
        self._open: dict[socket.socket, bool] = {}  # whether the request was read, oldest first
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            if len(self._open) >= MOST_CONNECTIONS:
                self._close_oldest_waiting()
                self._changed.wait_for(lambda: len(self._open) < MOST_CONNECTIONS, timeout=1)
            admitted = len(self._open) < MOST_CONNECTIONS
            if admitted:
                self._open[request] = False
        if not admitted:
            self.shutdown_request(request)
            return
        threading.Thread(
            target=self._serve,
            args=(request, client_address),
            name="bayou-status-reader",
            daemon=True,
        ).start()

    def request_read(self, connection: socket.socket) -> None:
        """Mark a connection as not idle, because it has sent a request."""
        with self._changed:
            self._open[connection] = True

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            with self._changed:
                del self._open[request]
                self._changed.notify_all()

    def _close_oldest_waiting(self) -> None:
        for connection, requested in self._open.items():
            if not requested:
                with contextlib.suppress(OSError):  # already closed
                    connection.shutdown(socket.SHUT_RDWR)
                return

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of closed connections."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    store: StatusStore
    token: str | None
    page: bytes
    runbook: bytes

    server_version = "bayou"
    sys_version = ""
    timeout = 10  # maximum seconds between bytes, and for a response

    def do_GET(self) -> None:  # the name in http.server
        assert isinstance(self.server, _Server)
        self.server.request_read(self.connection)
        try:
            url = urlsplit(self.path)
        except ValueError:
            self._respond(HTTPStatus.BAD_REQUEST, "text/plain", b"no path\n")
            return
        if not self._is_allowed_host():
            self._respond(HTTPStatus.FORBIDDEN, "text/plain", b"unknown host\n")
        elif url.path not in _OPEN and not self._may_read(parse_qs(url.query)):
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Bearer realm="bayou"')
            self._body("text/plain", b"a token is needed: Authorization: Bearer TOKEN\n")
        else:
            self._route(url.path, authorized=self._may_read(parse_qs(url.query)))

    do_HEAD = do_GET  # noqa: N815  # the name in http.server

    def log_message(self, format: str, *args: Any) -> None:
        """Discard the log message of a request, because the request's URL may contain the token."""

    def _route(self, path: str, *, authorized: bool) -> None:
        status = self.store.status()
        match path:
            case "/":
                self._respond(HTTPStatus.OK, _HTML, self.page)
            case "/runbook":
                self._respond(HTTPStatus.OK, _HTML, self.runbook)
            case "/status.json":
                self._respond(HTTPStatus.OK, _JSON, _json(status))
            case "/metrics":
                self._respond(HTTPStatus.OK, CONTENT_TYPE, exposition(status))
            case "/healthz":
                self._health(status.healthy, status, authorized=authorized)
            case "/readyz":
                self._health(status.ready, status, authorized=authorized)
            case _:
                self._respond(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")

    def _health(self, fine: bool, status: PipelineStatus, *, authorized: bool) -> None:
        """Respond to a health check. An authorized client also gets the state of each topic.

        Args:
            fine: whether the pipeline passes the health check.
        """
        body: dict[str, Any] = {"ok": fine}
        if authorized:
            body["topics"] = {topic.topic: topic.state for topic in status.topics}
        code = HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE
        self._respond(code, _JSON, msgspec.json.encode(body) + b"\n")

    def _may_read(self, query: dict[str, list[str]]) -> bool:
        if self.token is None:
            return True
        kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            token = credentials.encode("latin-1")  # http.server decodes headers as Latin-1
        else:
            token = query.get("token", [""])[0].encode()
        return hmac.compare_digest(token, self.token.encode())

    def _is_allowed_host(self) -> bool:
        """Whether the request's `Host` header is allowed.

        If a token is configured, any header is allowed. Otherwise, only loopback addresses are
        allowed. This prevents DNS rebinding, in which a web page resolves its own host name to
        127.0.0.1.
        """
        if self.token is not None:
            return True
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        except ValueError:
            return False
        return host is not None and is_loopback(host)

    def _respond(self, code: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(code)
        self._body(kind, body)

    def _body(self, kind: str, body: bytes) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _json(status: PipelineStatus) -> bytes:
    values: dict[str, Any] = msgspec.to_builtins(status, str_keys=True)
    for topic, shown in zip(status.topics, values["topics"], strict=True):
        shown["waiting"], shown["late"] = topic.waiting, topic.late
    return msgspec.json.encode({**values, "ready": status.ready, "healthy": status.healthy})
