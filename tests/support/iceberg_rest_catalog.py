"""A server of Iceberg's REST catalog protocol that keeps its tables in an SQL catalog.

It has the requests that register and load tables (Iceberg's `rest-catalog-open-api.yaml`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table

__all__ = ["rest_catalog"]

_STATUS = {
    NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    TableAlreadyExistsError: (409, "AlreadyExistsException"),
    NoSuchTableError: (404, "NoSuchTableException"),
}


@contextmanager
def rest_catalog(folder: Path, **properties: str) -> Iterator[dict[str, str]]:
    """Start a server; yield the properties with which pyiceberg reaches it.

    Args:
        properties: properties of the file system that has the tables.
    """
    uri = f"sqlite:///{folder}/rest-catalog.db?check_same_thread=false"
    tables = load_catalog("tables", type="sql", uri=uri, **properties)
    handler = type("Handler", (_Handler,), {"tables": tables})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        yield {"type": "rest", "uri": address, **properties}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    tables: Catalog

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _get(self, path: list[str], _: Any) -> Any:
        match path:
            case ["v1", "config"]:
                return {"defaults": {}, "overrides": {}}
            case ["v1", "namespaces", namespace, "tables", name]:
                return _loaded(self.tables.load_table((*namespace.split("\x1f"), name)))
        return None

    def _post(self, path: list[str], body: Any) -> Any:
        match path:
            case ["v1", "namespaces"]:
                self.tables.create_namespace(tuple(body["namespace"]), body.get("properties", {}))
                return {"namespace": body["namespace"], "properties": {}}
            case ["v1", "namespaces", namespace, "register"]:
                identifier = (*namespace.split("\x1f"), body["name"])
                table = self.tables.register_table(identifier, body["metadata-location"])
                return _loaded(table)
        return None

    def _delete(self, path: list[str], _: Any) -> Any:
        match path:
            case ["v1", "namespaces", namespace, "tables", name]:
                self.tables.drop_table((*namespace.split("\x1f"), name))
                return {}
        return None

    def _answer(self, function: Any) -> None:
        path = [unquote(step) for step in urlsplit(self.path).path.strip("/").split("/")]
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            answer = function(path, body)
            status = 404 if answer is None else 200
            kind = "NotFoundException"
        except tuple(_STATUS) as error:
            answer = None
            status, kind = _STATUS[type(error)]
        if status != 200:
            answer = {"error": {"message": self.path, "type": kind, "code": status}}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _loaded(table: Table) -> dict[str, Any]:
    with table.io.new_input(table.metadata_location).open() as file:
        metadata = json.loads(file.read())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}
