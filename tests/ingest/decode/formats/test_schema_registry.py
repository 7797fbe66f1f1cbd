"""What the schema registry is asked, and who gets its password."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bayou.errors import KafkaError
from bayou.ingest.decode.formats import (
    Registry,
    RegistryAddress,
    schema_registry,
    schema_registry_http,
)

BODY = b'{"schema": "\\"string\\""}'
SCHEMA = {"schema": '"string"', "references": []}
BASIC = "Basic cmVnOmh1bnRlcjI="


@pytest.fixture
def server():
    """Starts HTTP servers on loopback: a server answers what `answers` has for a path.

    An answer is a status and, for a redirect, where to. `seen` has the path and the login of each
    request.
    """
    running = []

    def start(answers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append((self.path, self.headers.get("Authorization")))
                code, location, body = (*answers.get(self.path, (200, None)), BODY)[:3]
                self.send_response(code)
                if location is not None:
                    self.send_header("Location", location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        seen: list[tuple[str, str | None]] = []
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        running.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server.server_port, seen

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def registry(port):
    address = RegistryAddress(url=f"http://127.0.0.1:{port}", user="reg", password="hunter2")
    return Registry(address=address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_the_password_follows_no_redirect_to_another_host_or_port(server, host, code):
    other, seen_there = server({})
    port, seen = server({"/schemas/ids/1": (code, f"http://{host}:{other}/x")})
    assert registry(port).schema(1) == SCHEMA
    assert seen == [("/schemas/ids/1", BASIC)]
    assert seen_there == [("/x", None)]


def test_the_password_does_not_come_back_by_way_of_another_host(server):
    answers = {}
    other, seen_there = server(answers)
    port, seen = server({"/schemas/ids/1": (302, f"http://localhost:{other}/x")})
    answers["/x"] = (302, f"http://127.0.0.1:{port}/y")
    registry(port).schema(1)
    assert seen == [("/schemas/ids/1", BASIC), ("/y", None)]
    assert seen_there == [("/x", None)]


def test_the_password_follows_a_redirect_within_the_registry(server):
    port, seen = server({"/schemas/ids/1": (302, "/moved")})
    registry(port).schema(1)
    assert seen == [("/schemas/ids/1", BASIC), ("/moved", BASIC)]


def test_another_host_that_wants_a_password_is_named(server):
    other, _ = server({"/x": (401, None)})
    port, _ = server({"/schemas/ids/1": (302, f"http://localhost:{other}/x")})
    with pytest.raises(
        KafkaError, match=f"redirects to http://localhost:{other}, but Bayou doesn.t send"
    ) as e:
        registry(port).schema(1)
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1:1/x"])
def test_a_redirect_to_something_else_than_http_is_an_error(server, place):
    port, _ = server({"/schemas/ids/1": (302, place)})
    with pytest.raises(KafkaError, match=r"(?i)redirect.*(file|ftp)"):
        registry(port).schema(1)


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"[1]",
        b"{}",
        b'{"schema": 5}',
        b'{"status": "maintenance"}',
        b'{"schema": "x", "references": 5}',
        b'{"schema": "x", "references": [5]}',
        b'{"schema": "x", "references": [{"name": "a", "subject": "s", "version": "../.."}]}',
        b"[" * 100_000,
        b'{"schema": ' + b"[" * 100_000,
        b"<html>Sign in</html>",
        b"\xff",
    ],
)
def test_an_answer_that_is_no_schema_stops_and_is_not_remembered(server, monkeypatch, body):
    monkeypatch.setattr(schema_registry, "_FIRST_PAUSE", 0.0)
    answers = {"/schemas/ids/1": (200, None, body)}
    port, seen = server(answers)
    with pytest.raises(KafkaError, match=r"Check connector.schema-registry.url"):
        registry(port).schema(1)
    assert len(seen) == 3
    answers.clear()
    assert registry(port).schema(1) == SCHEMA


def test_an_answer_has_a_largest_size(server, monkeypatch):
    monkeypatch.setattr(schema_registry, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(schema_registry_http, "MAX_RESPONSE_BYTES", 1 << 20)
    port, _ = server({"/schemas/ids/1": (200, None, BODY + b" " * (1 << 20))})
    with pytest.raises(KafkaError, match="response is larger than 1 MB"):
        registry(port).schema(1)


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_never_ends_is_none(monkeypatch, begin):
    monkeypatch.setattr(schema_registry, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(schema_registry_http, "LONGEST_SECONDS", 0.1)
    ended = threading.Event()

    def drip(connection):
        with connection, contextlib.suppress(OSError):
            connection.sendall(begin)
            while not ended.wait(0.01):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=listening.accept()[:1]).start()

        threading.Thread(target=accept, daemon=True).start()
        with pytest.raises(KafkaError, match="doesn't answer"):
            registry(listening.getsockname()[1]).schema(1)
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)
