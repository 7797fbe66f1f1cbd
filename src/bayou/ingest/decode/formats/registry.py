"""The schema registry of Confluent's kind: schemas by the number in a record's header.

A value begins with a zero byte and the schema's number, four bytes, big end first.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from bayou.errors import KafkaError

__all__ = ["Registry", "split_header"]

_TIMEOUT = 10.0
_TRIES = 3
_HEADER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A registry. Pickles; what was read is kept for the whole process, for it never changes.

    Attributes:
        url: such as `http://localhost:8081`.
        user, password: for basic authentication.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def schema(self, number: int, *, serialized: bool = False) -> dict[str, Any]:
        """What the registry says of a schema: `schema`, `schemaType`, `references`.

        Args:
            serialized: of Protobuf the descriptor in base 64 instead of its text.

        Raises:
            KafkaError: it doesn't answer, or there is no such schema.
        """
        return self._get(f"/schemas/ids/{number}{_FORMAT if serialized else ''}")

    def version(self, subject: str, version: int, *, serialized: bool = False) -> dict[str, Any]:
        """A version of a subject, which is how schemas refer to others.

        Raises:
            KafkaError: as `schema`.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return self._get(path + (_FORMAT if serialized else ""))

    def _get(self, path: str) -> dict[str, Any]:
        with _LOCK:
            known = _KNOWN.get((self.url, path))
        if known is None:
            known = self._ask(path)
            with _LOCK:
                _KNOWN[self.url, path] = known
        return known

    def _ask(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310  # the configuration's own address
            self.url.rstrip("/") + path,
            headers={"Accept": "application/vnd.schemaregistry.v1+json"},
        )
        if self.user is not None:
            login = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        for attempt in range(1, _TRIES + 1):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                    told: dict[str, Any] = json.load(answer)
                    return told
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt == _TRIES:
                    reason = "there is no such schema" if error.code == 404 else str(error)
                    raise KafkaError(
                        f"The schema registry {self.url} says to {path}: {reason}.", topic=""
                    ) from error
            except (OSError, ValueError) as error:
                if attempt == _TRIES:
                    raise KafkaError(
                        f"The schema registry {self.url} doesn't answer: {error}. Check "
                        "connector.schema-registry.url.",
                        topic="",
                    ) from error
            time.sleep(0.2 * attempt)
        raise AssertionError


_FORMAT = "?format=serialized"
_KNOWN: dict[tuple[str, str], dict[str, Any]] = {}
_LOCK = threading.Lock()


def split_header(value: bytes) -> tuple[int, bytes] | None:
    """The schema's number and what comes behind it; None for a value without a header."""
    if len(value) < _HEADER or value[0] != 0:
        return None
    return int.from_bytes(value[1:_HEADER], "big"), value[_HEADER:]
