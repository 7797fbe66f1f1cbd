"""Reads schemas from a Confluent schema registry, by the schema id in a record's header.

The header of a value is a zero byte and the schema id as four big-endian bytes. If the registry
doesn't have a schema, the request is repeated a few times. Schemas are cached in the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from bayou.errors import KafkaError
from bayou.ingest.decode.formats.schema_registry_http import (
    NoResponseError,
    RegistryAddress,
    RegistryConnection,
    RegistryStatusError,
    origin,
)

_MAX_ATTEMPTS = 3
_FIRST_PAUSE = 0.2
_HEADER = 5
_SCHEMA_NOT_FOUND = 40403
"""The registry's error code for an unknown schema id."""
_MAX_ID = (1 << 31) - 1
"""The highest schema id. For a higher one, the registry answers as for an unknown path."""
_UNKNOWN_FOR = 10.0
"""Seconds until a schema that the registry doesn't have is requested again."""
_MAX_RETRIED_UNKNOWN = 16
"""If at least this number of schemas are missing, each schema is requested only once."""
_UNKNOWN_REMEMBERED = 10_000


class UnknownSchemaError(ValueError):
    """The registry doesn't have the schema of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A schema registry. Can be pickled. Schemas are cached in the process.

    If the registry redirects a request to another host, port or scheme, the request has no
    credentials.

    Attributes:
        subject: the subject to add to each request for a schema id; None to request only the id.
            Registries with contexts or role-based access control need the subject.
        on_unknown_schema: what happens if the registry doesn't have a record's schema. With
            `dead-letter`, `UnknownSchemaError` is raised, and only the record fails. With `stop`,
            `KafkaError` is raised, and the batch fails.
    """

    address: RegistryAddress
    subject: str | None = None
    on_unknown_schema: Literal["dead-letter", "stop"] = "dead-letter"

    @property
    def url(self) -> str:
        return self.address.url

    def schema(self, number: int, *, serialized: bool = False) -> dict[str, Any]:
        """Return the schema with the id `number`.

        Args:
            serialized: if true, a Protobuf schema is returned as a descriptor in Base64 instead of
                as source code.

        Returns:
            A dict with the string `schema` and the list `references`.

        Raises:
            UnknownSchemaError: the registry doesn't have the schema, even after several requests.
            KafkaError: the registry doesn't answer, or the URL is wrong.
        """
        fmt = _SERIALIZED if serialized else None
        path = f"/schemas/ids/{number}" + (f"?format={fmt}" if fmt else "")
        try:
            if number > _MAX_ID:
                raise self._unknown_error(path)
            return self._get(path, lambda c: c.schema(number, fmt=fmt, subject=self.subject))
        except UnknownSchemaError as error:
            if self.on_unknown_schema == "dead-letter":
                raise
            raise KafkaError(
                f"The schema registry {self.url} has no schema {number}. Register it, or set "
                "on-unknown-schema: dead-letter for the topic.",
                topic="",
            ) from error

    def version(self, subject: str, version: int, *, serialized: bool = False) -> dict[str, Any]:
        """Return the schema of a version of a subject, in the form that `schema` returns.

        The `references` of another schema contain the subject and the version.
        """
        fmt = _SERIALIZED if serialized else None
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        path += f"?format={fmt}" if fmt else ""
        return self._get(path, lambda c: c.version(subject, version, fmt=fmt))

    def _get(self, path: str, ask: _Ask) -> dict[str, Any]:
        key = (self.address, self.subject, path)
        with _LOCK:
            known = _KNOWN.get(key)
        if known is None:
            known = self._request(path, ask)
            with _LOCK:
                _KNOWN[key] = known
        return known

    def _request(self, path: str, ask: _Ask) -> dict[str, Any]:
        with _LOCK:
            connection = _CONNECTIONS.get(self.address)
            if connection is None:
                connection = _CONNECTIONS[self.address] = RegistryConnection(self.address)
        attempts = self._attempts(path)
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                return ask(connection)
            except RegistryStatusError as error:
                if error.code in (401, 403) and connection.is_elsewhere(error.url):
                    scheme, host, port = origin(error.url)
                    raise KafkaError(
                        f"The schema registry {self.url} redirects to {scheme}://{host}:{port}, "
                        "but Bayou doesn't send the password to another address. If the "
                        "registry runs there, set connector.schema-registry.url to that address.",
                        topic="",
                    ) from error
                if error.code == 404 and error.error_code == _SCHEMA_NOT_FOUND:
                    if attempt >= attempts:
                        raise self._mark_unknown(path) from error
                elif error.code < 500 or attempt == _MAX_ATTEMPTS:
                    raise KafkaError(
                        f"The schema registry {self.url} answers {path} with {error.code} "
                        f"{_phrase(error.code)}. {_advice(error.code)}",
                        topic="",
                    ) from error
            except NoResponseError as error:
                if attempt == _MAX_ATTEMPTS:
                    raise KafkaError(
                        f"The schema registry {self.url} doesn't answer with a schema: {error}. "
                        "Check connector.schema-registry.url.",
                        topic="",
                    ) from error
            time.sleep(_FIRST_PAUSE * attempt)
        raise AssertionError

    def _attempts(self, path: str) -> int:
        """Return the maximum number of requests for a schema that the registry doesn't have.

        Such a schema is requested several times, because it may be registered soon. If many schemas
        are missing, each schema is requested only once.

        Raises:
            UnknownSchemaError: a recent request has shown that the schema is missing.
        """
        now = time.monotonic()
        with _LOCK:
            for known in [known for known, until in _UNKNOWN.items() if until <= now]:
                del _UNKNOWN[known]
            if (self.address, self.subject, path) in _UNKNOWN:
                raise self._unknown_error(path)
            return _MAX_ATTEMPTS if len(_UNKNOWN) < _MAX_RETRIED_UNKNOWN else 1

    def _mark_unknown(self, path: str) -> UnknownSchemaError:
        with _LOCK:
            if len(_UNKNOWN) < _UNKNOWN_REMEMBERED:
                _UNKNOWN[self.address, self.subject, path] = time.monotonic() + _UNKNOWN_FOR
        return self._unknown_error(path)

    def _unknown_error(self, path: str) -> UnknownSchemaError:
        number = path.partition("?")[0].rpartition("/")[2]
        return UnknownSchemaError(f"the schema registry has no schema {number}")


_SERIALIZED = "serialized"
_Ask: TypeAlias = Callable[[RegistryConnection], dict[str, Any]]
_Key: TypeAlias = tuple[RegistryAddress, str | None, str]
_CONNECTIONS: dict[RegistryAddress, RegistryConnection] = {}
_KNOWN: dict[_Key, dict[str, Any]] = {}
_UNKNOWN: dict[_Key, float] = {}
"""For each schema that the registry doesn't have, the time of the next request.

The time is from `time.monotonic`. Until this time, the schema counts as missing, so that all
attempts of a batch have the same result.
"""
_LOCK = threading.Lock()


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "(an unknown status)"


def _advice(code: int) -> str:
    if code in (401, 403):
        return "Check the credentials in connector.schema-registry."
    return "Check connector.schema-registry.url."


def split_header(value: bytes) -> tuple[int, bytes] | None:
    """Return a value's schema id and the bytes after the header; None if there is no header."""
    if len(value) < _HEADER or value[0] != 0:
        return None
    return int.from_bytes(value[1:_HEADER], "big"), value[_HEADER:]
