"""Fixtures of tests with Unity Catalog: a server, its faults, and a managed table.

The server is the double in `unity_double`. Set BAYOU_UNITY_SERVER to the URL of a real server
without authentication to run the tests without faults against it.
"""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.unity.client import UnityClient
from bayou.unity.names import TableName
from bayou.unity.settings import UnitySettings
from support.unity_double import API, UnityDouble

TOKEN = "uc-token-0123456789"


class Server:
    """A server with a catalog and a schema: the double, or a real one.

    Attributes:
        double: the double; None for a real server.
    """

    def __init__(self, url: str, schema: str, double: UnityDouble | None, token: str | None):
        self.url, self.schema, self.double, self.token = url, schema, double, token

    @property
    def options(self) -> dict[str, str]:
        return UnitySettings.of(self.url, self.token).options()

    def name(self, table: str = "events") -> str:
        return f"uc://{self.schema}.{table}"

    def entry(self, table: str = "events") -> Any:
        client = UnityClient(UnitySettings.of(self.url, self.token))
        return client.load_table(TableName.parse(self.name(table)))

    def send(self, method: str, path: str, body: dict | None = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{API}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request) as response:
            response.read()

    def table_path(self, table: str = "events") -> str:
        catalog, schema = self.schema.split(".")
        return f"/delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Any server; its address is in the environment."""
    real = os.environ.get("BAYOU_UNITY_SERVER")
    if real is None:
        with UnityDouble(str(tmp_path / "managed"), token=TOKEN) as double:
            monkeypatch.setenv("UC_URI", double.url)
            monkeypatch.setenv("UC_TOKEN", TOKEN)
            yield Server(double.url, "lake.shop", double, TOKEN)
        return
    monkeypatch.setenv("UC_URI", real)
    catalog = f"c{uuid.uuid4().hex}"
    server = Server(real, f"{catalog}.shop", None, None)
    root = f"file://{tmp_path}/managed"
    server.send("POST", "/catalogs", {"name": catalog, "storage_root": root})
    server.send("POST", "/schemas", {"name": "shop", "catalog_name": catalog})
    yield server


@pytest.fixture
def double(server: Server, monkeypatch: pytest.MonkeyPatch) -> UnityDouble:
    """The double, for tests with faults."""
    if server.double is None:
        pytest.skip("a real server has no faults")
    monkeypatch.setattr("bayou.unity.client._pause", lambda tried: None)
    monkeypatch.setattr("bayou.kernel.transaction.commit._pause", lambda tries: None)
    return server.double


@pytest.fixture
def managed(server: Server) -> str:
    """A managed table with rows 0 to 2, at version 0."""
    name = server.name()
    assert bayou.write(name, rows(0, 3)) == 0
    return name


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(ids, pa.int64())})


def ids(name: str) -> list[int]:
    return sorted(bayou.table(name).to_arrow().column("id").to_pylist())
