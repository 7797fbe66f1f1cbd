"""Requests: redirects, answers of other servers, repeated requests."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from bayou.errors import CatalogError, StorageError, TableNotFoundError
from bayou.unity.client import UnityClient
from bayou.unity.names import TableName
from bayou.unity.settings import UnitySettings
from support.unity_double import UnityDouble

NAME = TableName(catalog="lake", schema="shop", table="a/b c")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("bayou.unity.client._pause", lambda tried: None)


@pytest.fixture
def double(tmp_path) -> Iterator[UnityDouble]:
    with UnityDouble(str(tmp_path)) as server:
        yield server


def client(url: str) -> UnityClient:
    return UnityClient(UnitySettings.of(url, "token-12345"))


class Answering:
    """A server with one answer for each request."""

    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        self.seen: list[str] = []
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.seen.append(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_names_are_encoded_and_a_missing_table_is_none(double):
    assert client(double.url).find_table(NAME) is None
    assert double.requests[0][1].endswith("/catalogs/lake/schemas/shop/tables/a%2Fb%20c")
    with pytest.raises(TableNotFoundError, match="Check the names of the catalog and the schema"):
        client(double.url).find_table(TableName(catalog="x", schema="y", table="z"))


def test_a_redirect_is_not_followed():
    with Answering(200, b"{}") as target, Answering(307, b"", Location=target.url) as first:
        with pytest.raises(CatalogError, match="status 307") as caught:
            client(first.url).load_table(NAME)
        assert target.seen == []
    assert caught.value.status == 307


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"metadata": {}}', b"\xff"])
def test_an_answer_of_another_server_is_an_error(body):
    with (
        Answering(200, body) as server,
        pytest.raises(CatalogError, match="doesn't answer like"),
    ):
        client(server.url).load_table(NAME)


def test_an_error_without_a_body_of_the_api_names_the_status():
    with Answering(404, b"<html>not here</html>") as server:
        with pytest.raises(CatalogError, match="status 404: Not Found. Check UC_URI"):
            client(server.url).load_table(NAME)
        assert len(server.seen) == 1


def test_a_failing_server_is_asked_five_times():
    with Answering(503, b"") as server:
        with pytest.raises(StorageError, match="status 503.*Try again later") as caught:
            client(server.url).load_table(NAME)
        assert len(server.seen) == 5
    assert not caught.value.is_refusal


def test_a_refusal_after_a_lost_answer_leaves_the_result_unknown(double):
    double.fail("tables")
    double.fail("tables", "PermissionDeniedException")
    with pytest.raises(CatalogError, match="status 403") as caught:
        client(double.url).update_table(NAME, "u", [{"action": "set-properties"}])
    assert not caught.value.is_refusal
