"""An in-process double of Google Cloud Storage's XML API, which obstore uses.

It has what `googleapis/storage-testbench` doesn't have in its XML API (listings, deletes and
multipart uploads), and what other emulators don't do: conditional puts of the XML API.
"""

from __future__ import annotations

import http.server
import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["GoogleStorage", "google_storage"]

_PAGE = 1000


@dataclass(slots=True, kw_only=True)
class Object:
    """An object; its generation is unique within the store."""

    data: bytes
    generation: int
    modified: str = field(default_factory=lambda: formatdate(usegmt=True))


@dataclass(slots=True, kw_only=True)
class GoogleStorage:
    """The objects of the store by bucket and key, and its address.

    Attributes:
        token: the bearer token that requests must have; None for any token.
        tokens: the bearer tokens of the requests, in order.
        buckets: the names of the existing buckets.
        refused: number of conditional puts that were refused.
    """

    token: str | None = "token-of-the-test"
    buckets: set[str] = field(default_factory=set)
    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    refused: int = 0
    tokens: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Storage options for the store. They also work as environment variables."""
        return {"GOOGLE_BASE_URL": self.endpoint, "GOOGLE_BEARER_TOKEN": self.token or ""}


@contextmanager
def google_storage() -> Iterator[GoogleStorage]:
    """Context manager that runs the store."""
    store = GoogleStorage()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    store.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(store: GoogleStorage) -> type[http.server.BaseHTTPRequestHandler]:
    lock = threading.Lock()
    generations = itertools.count(1)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            data = self._body()
            if (upload := self._query.get("uploadId")) is not None:
                store.uploads[upload][int(self._query["partNumber"])] = data
                return self._answer(200, ETag=f'"{self._query["partNumber"]}"')
            return self._create(data)

        def do_POST(self) -> None:
            body = self._body().decode()
            if "uploads" in self._query:
                upload = f"upload-{next(generations)}"
                store.uploads[upload] = {}
                xml = f"<UploadId>{upload}</UploadId>"
                return self._answer_xml(200, "InitiateMultipartUploadResult", xml)
            parts = store.uploads.pop(self._query["uploadId"])
            numbers = [int(n) for n in re.findall(r"<PartNumber>(\d+)</PartNumber>", body)]
            return self._create(b"".join(parts[n] for n in numbers), multipart=True)

        def do_DELETE(self) -> None:
            if (upload := self._query.get("uploadId")) is not None:
                store.uploads.pop(upload, None)
                return self._answer(204)
            with lock:
                deleted = store.objects.pop(self._key, None)
            return self._refuse(404, "NoSuchKey") if deleted is None else self._answer(204)

        def do_GET(self) -> None:
            if not self._is_allowed():
                return self._refuse(401, "AuthenticationRequired")
            if self._key.partition("/")[0] not in store.buckets:
                return self._refuse(404, "NoSuchBucket")
            if "list-type" in self._query:
                return self._list()
            found = store.objects.get(self._key)
            if found is None:
                return self._refuse(404, "NoSuchKey")
            headers = {
                "ETag": f'"{found.generation}"',
                "Last_Modified": found.modified,
                "x_goog_generation": str(found.generation),
            }
            size = len(found.data)
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
            if asked is None:
                return self._answer(200, found.data, **headers)
            first, last = int(asked[1]), min(int(asked[2] or size - 1), size - 1)
            if first >= size:
                return self._refuse(416, "InvalidRange")
            headers["Content_Range"] = f"bytes {first}-{last}/{size}"
            return self._answer(206, found.data[first : last + 1], **headers)

        def do_HEAD(self) -> None:
            self.do_GET()

        @property
        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).lstrip("/")

        @property
        def _query(self) -> dict[str, str]:
            query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
            return {name: values[0] for name, values in query.items()}

        def _is_allowed(self) -> bool:
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            store.tokens.append(token)
            return token == store.token if store.token else bool(token)

        def _create(self, data: bytes, *, multipart: bool = False) -> None:
            """Create or replace the object, unless a precondition isn't met."""
            if not self._is_allowed():
                return self._refuse(401, "AuthenticationRequired")
            if self._key.partition("/")[0] not in store.buckets:
                return self._refuse(404, "NoSuchBucket")
            expected = self.headers.get("x-goog-if-generation-match")
            with lock:
                present = store.objects.get(self._key)
                actual = 0 if present is None else present.generation
                if expected is not None and int(expected) != actual:
                    store.refused += 1
                    return self._refuse(412, "PreconditionFailed")
                created = Object(data=data, generation=next(generations))
                store.objects[self._key] = created
            if multipart:
                xml = f'<ETag>"{created.generation}"</ETag>'
                return self._answer_xml(200, "CompleteMultipartUploadResult", xml)
            return self._answer(200, ETag=f'"{created.generation}"')

        def _list(self) -> None:
            bucket = self._key.strip("/")
            prefix, query = self._query.get("prefix", ""), self._query
            after = query.get("continuation-token") or query.get("start-after", "")
            with lock:
                keys = [key.removeprefix(f"{bucket}/") for key in store.objects]
            keys = sorted(k for k in keys if k.startswith(prefix) and k > after)
            page = keys[: int(query.get("max-keys", _PAGE))]
            xml = "".join(self._entry(bucket, key) for key in page)
            truncated = len(page) < len(keys)
            xml += f"<IsTruncated>{str(truncated).lower()}</IsTruncated>"
            if truncated:
                xml += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
            return self._answer_xml(200, "ListBucketResult", xml)

        def _entry(self, bucket: str, key: str) -> str:
            found = store.objects.get(f"{bucket}/{key}")
            if found is None:
                return ""
            return (
                f"<Contents><Key>{escape(key)}</Key><Size>{len(found.data)}</Size>"
                f'<LastModified>{_iso(found.modified)}</LastModified><ETag>"{found.generation}"'
                "</ETag></Contents>"
            )

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _refuse(self, status: int, code: str) -> None:
            self._answer_xml(status, "Error", f"<Code>{code}</Code><Message>{code}</Message>")

        def _answer_xml(self, status: int, name: str, xml: str) -> None:
            self._answer(status, f"<?xml version='1.0'?><{name}>{xml}</{name}>".encode())

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _iso(http_date: str) -> str:
    from email.utils import parsedate_to_datetime

    return parsedate_to_datetime(http_date).strftime("%Y-%m-%dT%H:%M:%S.000Z")
