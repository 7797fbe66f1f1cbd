"""An HTTP double of Confluent Schema Registry, made from its published API.

It has the requests that producers and Bayou send: registering and looking up a schema of a subject,
schemas by id, versions of a subject. Schemas aren't checked for compatibility. `format` and
`subject` are recorded and have no effect: a Protobuf schema is returned as it was registered.
"""

from __future__ import annotations

import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["RegistryDouble"]


@dataclass
class RegistryDouble:
    """A running registry.

    Attributes:
        login: the header `Authorization` that requests must have; None for no authentication.
        seen: path with query, and headers, of each request.
    """

    login: str | None = None
    certificate: tuple[Path, Path] | None = None
    client_ca: Path | None = None
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._schemas: list[dict[str, object]] = []
        self._subjects: dict[str, list[int]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            if self.client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.client_ca)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The registry's URL."""
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.server_port}"

    def register(
        self, subject: str, schema: str, kind: str = "AVRO", references: list | None = None
    ) -> int:
        """Register a schema; return its id."""
        document = {"schema": schema, "schemaType": kind, "references": references or []}
        if document not in self._schemas:
            self._schemas.append(document)
        number = self._schemas.index(document) + 1
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _answer(self, path: str, body: dict | None) -> tuple[int, object]:
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        match parts:
            case ["schemas", "ids", number] if body is None and int(number) < 1 << 31:
                if not 0 < int(number) <= len(self._schemas):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self._schemas[int(number) - 1]
            case ["subjects", subject, "versions"] if body is not None:
                kind, references = body.get("schemaType", "AVRO"), body.get("references")
                number = self.register(subject, body["schema"], kind, references)
                return 200, {"id": number}
            case ["subjects", subject] if body is not None:
                for version, number in enumerate(self._subjects.get(subject, []), 1):
                    if self._schemas[number - 1]["schema"] == body["schema"]:
                        known = {"subject": subject, "version": version, "id": number}
                        return 200, self._schemas[number - 1] | known
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ["subjects", subject, "versions", version] if body is None:
                versions = self._subjects.get(subject)
                if versions is None:
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                at = len(versions) if version == "latest" else int(version)
                if not 0 < at <= len(versions):
                    return 404, {"error_code": 40402, "message": "Version not found"}
                known = {"subject": subject, "version": at, "id": versions[at - 1]}
                return 200, self._schemas[versions[at - 1] - 1] | known
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def queries(self, path: str) -> list[dict[str, list[str]]]:
        """Return the query of each request for a path."""
        urls = [urlsplit(seen) for seen, _ in self.seen]
        return [parse_qs(url.query) for url in urls if url.path == path]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._respond(None)

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                self._respond(json.loads(self.rfile.read(size)))

            def _respond(self, body: dict | None) -> None:
                double.seen.append((self.path, dict(self.headers)))
                if double.login is not None and self.headers["Authorization"] != double.login:
                    status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
                else:
                    status, answer = double._answer(self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler
