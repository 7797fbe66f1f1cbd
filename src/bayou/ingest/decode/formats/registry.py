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
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import quote

from bayou.errors import KafkaError
from bayou.ingest.decode.formats.registry_http import get_schema, origin

__all__ = ["Registry", "UnknownSchemaError", "split_header"]

_TRIES = 3
_FIRST_PAUSE = 0.2
_HEADER = 5
_SCHEMA_NOT_FOUND = 40403
"""The registry's error code for a schema id that it doesn't have."""
_UNKNOWN_FOR = 10.0
"""Seconds until the registry is asked again for a schema that it didn't have."""
_UNKNOWN_TRIED_AGAIN = 16
"""With more unknown schemas than this in that time, each is asked for once only."""
_UNKNOWN_REMEMBERED = 10_000


class UnknownSchemaError(ValueError):
    """The registry doesn't have the schema of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A registry. Pickles; what was read is kept for the whole process, for it never changes.

    Attributes:
        url: such as `http://localhost:8081`. Where it redirects to another host, port or scheme,
            the password isn't sent there.
        user, password: for basic authentication.
        on_unknown_schema: `dead-letter` for an `UnknownSchemaError` of one record, `stop` for a
            `KafkaError` of the batch.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    on_unknown_schema: Literal["dead-letter", "stop"] = "dead-letter"

    def schema(self, number: int, *, serialized: bool = False) -> dict[str, Any]:
        """What the registry says of a schema: `schema`, `schemaType`, `references`.

        Args:
            serialized: of Protobuf the descriptor in base 64 instead of its text.

        Raises:
            UnknownSchemaError: it doesn't have the schema, after a few tries.
            KafkaError: it doesn't answer, or its address is wrong.
        """
        try:
            return self._get(f"/schemas/ids/{number}{_FORMAT if serialized else ''}")
        except UnknownSchemaError as error:
            if self.on_unknown_schema == "dead-letter":
                raise
            raise KafkaError(
                f"The schema registry {self.url} has no schema {number}. Register it, or set "
                "on-unknown-schema: dead-letter for the topic.",
                topic="",
            ) from error

    def version(self, subject: str, version: int, *, serialized: bool = False) -> dict[str, Any]:
        """A version of a subject, which is how schemas refer to others.

        Raises:
            KafkaError: it doesn't answer, or doesn't have it.
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
        tries = self._tries(path)
        for attempt in range(1, _TRIES + 1):
            try:
                return get_schema(request)
            except urllib.error.HTTPError as error:
                if error.code in (401, 403) and origin(error.url) != origin(self.url):
                    scheme, host, port = origin(error.url)
                    raise KafkaError(
                        f"The schema registry {self.url} redirects to {scheme}://{host}:{port}, "
                        "where no password is sent. If that is the registry, write its address "
                        "into connector.schema-registry.url.",
                        topic="",
                    ) from error
                if _error_code(error) == _SCHEMA_NOT_FOUND:
                    if attempt >= tries:
                        raise self._unknown(path) from error
                elif error.code < 500 or attempt == _TRIES:
                    raise KafkaError(
                        f"The schema registry {self.url} answers {path} with {error.code} "
                        f"{error.reason}. Check connector.schema-registry.url.",
                        topic="",
                    ) from error
            except (OSError, ValueError, HTTPException) as error:
                if attempt == _TRIES:
                    raise KafkaError(
                        f"The schema registry {self.url} doesn't answer with a schema: {error}. "
                        "Check connector.schema-registry.url.",
                        topic="",
                    ) from error
            time.sleep(_FIRST_PAUSE * attempt)
        raise AssertionError

    def _tries(self, path: str) -> int:
        """How often to ask for a schema that the registry doesn't have; a new one may be late.

        Raises:
            UnknownSchemaError: it didn't have this schema a moment ago.
        """
        now = time.monotonic()
        with _LOCK:
            for known in [known for known, until in _UNKNOWN.items() if until <= now]:
                del _UNKNOWN[known]
            if (self.url, path) in _UNKNOWN:
                raise self._unknown_schema(path)
            return _TRIES if len(_UNKNOWN) < _UNKNOWN_TRIED_AGAIN else 1

    def _unknown(self, path: str) -> UnknownSchemaError:
        with _LOCK:
            if len(_UNKNOWN) < _UNKNOWN_REMEMBERED:
                _UNKNOWN[self.url, path] = time.monotonic() + _UNKNOWN_FOR
        return self._unknown_schema(path)

    def _unknown_schema(self, path: str) -> UnknownSchemaError:
        number = path.removesuffix(_FORMAT).rpartition("/")[2]
        return UnknownSchemaError(f"the schema registry has no schema {number}")


_FORMAT = "?format=serialized"
_KNOWN: dict[tuple[str, str], dict[str, Any]] = {}
_UNKNOWN: dict[tuple[str, str], float] = {}
"""Until when a schema counts as unknown, so that all tasks and tries of a batch agree."""
_LOCK = threading.Lock()


def _error_code(error: urllib.error.HTTPError) -> int | None:
    """The registry's own error code in the answer's body; None where another server answers."""
    if error.code != 404:
        return None
    try:
        told = json.loads(error.read(_MOST_OF_AN_ERROR))
    except (OSError, ValueError, RecursionError):
        return None
    code = told.get("error_code") if isinstance(told, dict) else None
    return code if isinstance(code, int) else None


_MOST_OF_AN_ERROR = 64 << 10


def split_header(value: bytes) -> tuple[int, bytes] | None:
    """The schema's number and what comes behind it; None for a value without a header."""
    if len(value) < _HEADER or value[0] != 0:
        return None
    return int.from_bytes(value[1:_HEADER], "big"), value[_HEADER:]
