"""An in-process S3 endpoint with scripted responses: conflicts, ignored conditions."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["ScriptedS3", "scripted_s3"]


@dataclass(slots=True, kw_only=True)
class ScriptedS3:
    """The script of the endpoint, and the requests and objects that it received.

    Attributes:
        ignores_conditions: whether conditional puts overwrite existing objects.
        implements_conditions: whether conditional puts are implemented; if not, the answer is 501.
        refuses_deletes: whether deletes are answered with 403.
        conflicts: number of further conditional puts of commits that are answered with 409.
        file_conflicts: number of further puts without a condition that are answered with 409.
        conflict_code: the error code of these answers.
        objects: the content of each object, by bucket and key.
        puts: keys of the conditional puts, in order.
        headers: headers of the last put of each key, with names in lower case.
        port: the port of the endpoint.
    """

    ignores_conditions: bool = False
    implements_conditions: bool = True
    refuses_deletes: bool = False
    conflicts: int = 0
    file_conflicts: int = 0
    conflict_code: str = "ConditionalRequestConflict"
    objects: dict[str, bytes] = field(default_factory=dict)
    puts: list[str] = field(default_factory=list)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    port: int = 0

    @property
    def options(self) -> dict[str, str]:
        """Storage options for the endpoint."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def names(self, prefix: str) -> list[str]:
        """Return the keys that start with a prefix, without the prefix."""
        return sorted(k.removeprefix(prefix) for k in self.objects if k.startswith(prefix))


@contextmanager
def scripted_s3(script: ScriptedS3 | None = None) -> Iterator[ScriptedS3]:
    """Context manager that runs the endpoint."""
    script = script or ScriptedS3()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(script))
    script.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(script: ScriptedS3) -> type[http.server.BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @property
        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).lstrip("/")

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _refuse(self, status: int, code: str) -> None:
            self._answer(
                status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
            )

        def do_PUT(self) -> None:
            data, key = self._body(), self._key
            script.headers[key] = {name.lower(): value for name, value in self.headers.items()}
            with lock:
                if self.headers.get("If-None-Match") == "*":
                    script.puts.append(key)
                    if not script.implements_conditions:
                        return self._refuse(501, "NotImplemented")
                    if key.endswith(".json") and script.conflicts > 0:
                        script.conflicts -= 1
                        return self._refuse(409, script.conflict_code)
                    if key in script.objects and not script.ignores_conditions:
                        return self._refuse(412, "PreconditionFailed")
                elif script.file_conflicts > 0:
                    script.file_conflicts -= 1
                    return self._refuse(409, script.conflict_code)
                script.objects[key] = data
            return self._answer(200, ETag='"x"')

        def do_POST(self) -> None:
            body = self._body().decode()
            if script.refuses_deletes:
                return self._refuse(403, "AccessDenied")
            bucket = self._key.strip("/")
            keys = re.findall("<Key>(.*?)</Key>", body)
            for key in keys:
                script.objects.pop(f"{bucket}/{key}", None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            if "list-type" in query:
                return self._list(self._key.strip("/"), query)
            data = script.objects.get(self._key)
            if data is None:
                return self._refuse(404, "NoSuchKey")
            whole = len(data)
            headers = {"ETag": '"x"', "Last_Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
            asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
            if asked is None:
                return self._answer(200, data, **headers)
            first, last = int(asked[1]), min(int(asked[2] or whole - 1), whole - 1)
            headers["Content_Range"] = f"bytes {first}-{last}/{whole}"
            return self._answer(206, data[first : last + 1], **headers)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
            prefix, after = query.get("prefix", [""])[0], query.get("start-after", [""])[0]
            found = [k.removeprefix(f"{bucket}/") for k in sorted(script.objects)]
            contents = "".join(
                f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f'<ETag>"x"</ETag><Size>{len(script.objects[f"{bucket}/{key}"])}</Size></Contents>'
                for key in found
                if key.startswith(prefix) and key > after
            )
            return self._answer(
                200,
                f"<ListBucketResult><Name>{bucket}</Name><KeyCount>1</KeyCount>"
                f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode(),
            )

        def log_message(self, *args: object) -> None:
            pass

    return Handler
