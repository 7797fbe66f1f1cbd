"""Requests to the UC Delta API of a Unity Catalog server (`api/delta.yaml`).

Bayou doesn't use `unitycatalog-client`: version 0.7.0 can't import its classes for this API, and
excludes the versions of pydantic and python-dateutil that Bayou is tested with.
"""

from __future__ import annotations

import http.client
import random
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from bayou.errors import CatalogError, TableNotFoundError
from bayou.redaction import without_secrets
from bayou.unity.names import TableName
from bayou.unity.settings import TOKEN, URI, UnitySettings
from bayou.unity.wire import (
    Credentials,
    LoadedTable,
    PathCredentials,
    StagingTable,
    StorageCredential,
)
from bayou.version import ENGINE_INFO

Access: TypeAlias = Literal["READ", "READ_WRITE"]
T = TypeVar("T")

COMMIT_CONFLICT = "CommitVersionConflictException"
REQUIREMENT_CONFLICT = "UpdateRequirementConflictException"
TOO_MANY_COMMITS = "ResourceExhaustedException"
ALREADY_EXISTS = "AlreadyExistsException"
_NO_TABLE = "NoSuchTableException"
_NO_PARENT = frozenset({"NoSuchSchemaException", "NoSuchCatalogException"})
_TIMEOUT_SECONDS = 30.0
_TRIES = 5
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0
_MAX_ANSWER_BYTES = 256 << 20

_BUSY = frozenset({429, 503})
"""HTTP statuses which mean that the server hasn't processed the request."""

_UNKNOWN = frozenset({500, 502, 504})
"""HTTP statuses which mean that the server may have processed the request."""

_ACTIONS: Mapping[int | str, str] = {
    _NO_TABLE: "Check the name: the table may have been renamed or dropped",
    **dict.fromkeys(_NO_PARENT, "Check the names of the catalog and the schema"),
    400: "Correct the request, or the settings of the table",
    401: f"Check {TOKEN}: the token is missing, wrong or expired",
    403: "Ask the owner of the table or of the schema for the privilege",
    404: f"Check {URI}, and whether the server has the UC Delta API",
    409: "Read the table again and repeat the operation",
    429: "Try again later",
}


class UnityClient:
    """A client of a Unity Catalog server; thread-safe. Each request opens a new connection."""

    def __init__(self, settings: UnitySettings) -> None:
        self._settings = settings
        context = ssl.create_default_context()
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects()
        )

    def __repr__(self) -> str:
        return f"UnityClient({self._settings.uri!r})"

    @property
    def settings(self) -> UnitySettings:
        """URL and token of the server."""
        return self._settings

    def load_table(self, name: TableName) -> LoadedTable:
        """Return a table and its ratified commits that aren't published yet.

        Raises:
            TableNotFoundError: the catalog has no such table.
            CatalogError: the request failed.
        """
        found = self.find_table(name)
        if found is None:
            raise TableNotFoundError(
                f"{name}: the catalog at {self._settings.uri} has no such table. Check the name: "
                "the table may have been renamed or dropped.",
                table=str(name),
            )
        return found

    def find_table(self, name: TableName) -> LoadedTable | None:
        """Return a table; None if the schema has no table with this name.

        Raises:
            TableNotFoundError: the catalog or the schema doesn't exist.
            CatalogError: the request failed.
        """
        try:
            return self._send("GET", _table_path(name), name, LoadedTable)
        except CatalogError as error:
            if error.code == _NO_TABLE:
                return None
            if error.code in _NO_PARENT:
                raise TableNotFoundError(error.message, table=str(name)) from error
            raise

    def table_credentials(self, name: TableName, access: Access) -> Sequence[StorageCredential]:
        """Return temporary credentials for a table's files."""
        path = f"{_table_path(name)}/credentials?{urlencode({'operation': access})}"
        return self._send("GET", path, name, Credentials).storage_credentials

    def staging_credentials(self, name: TableName, table_id: str) -> Sequence[StorageCredential]:
        """Return temporary credentials for the files of a staging table."""
        path = f"/delta/v1/staging-tables/{quote(table_id, safe='')}/credentials"
        return self._send("GET", path, name, Credentials).storage_credentials

    def path_credentials(self, name: TableName, location: str) -> Sequence[StorageCredential]:
        """Return temporary credentials for the location of a new external table."""
        body = {"url": location, "operation": "PATH_CREATE_TABLE"}
        found = self._send("POST", "/temporary-path-credentials", name, PathCredentials, body)
        return (found.storage_credential(location),)

    def create_staging_table(self, name: TableName) -> StagingTable:
        """Reserve the id and the location of a new managed table."""
        path = f"{_schema_path(name)}/staging-tables"
        return self._send("POST", path, name, StagingTable, {"name": name.table}, once=True)

    def create_table(self, name: TableName, body: Mapping[str, object]) -> LoadedTable:
        """Create a table from its first commit.

        Raises:
            CatalogError: the request failed. The error's code is `AlreadyExistsException` if a
                table with this name exists. If the error's HTTP status is None or 5xx, the table
                may have been created.
        """
        path = f"{_schema_path(name)}/tables"
        return self._send("POST", path, name, LoadedTable, body, once=True)

    def update_table(
        self, name: TableName, table_id: str, updates: Sequence[Mapping[str, object]]
    ) -> LoadedTable:
        """Apply updates to a table atomically, if the table has the id `table_id`.

        If the server doesn't respond, the request is sent again. The server doesn't process a
        commit twice: it recognizes the commit by the version and the file name.

        Raises:
            CatalogError: the request failed. If the error's HTTP status is None or 5xx, the table
                may have been changed.
        """
        body = {
            "requirements": [{"type": "assert-table-uuid", "uuid": table_id}],
            "updates": list(updates),
        }
        return self._send("POST", _table_path(name), name, LoadedTable, body)

    def _send(
        self,
        method: str,
        path: str,
        name: TableName,
        kind: type[T],
        body: Mapping[str, object] | None = None,
        *,
        once: bool = False,
    ) -> T:
        """Send a request and return the decoded response.

        The request is sent again if the server is busy or doesn't respond.

        Args:
            name: name of the table, for error messages.
            kind: type of the response.
            once: whether the server must not process the request twice. If True, the request isn't
                sent again after an error that leaves open whether the server has processed it.
        """
        tried, processed = 0, False
        while True:
            tried += 1
            try:
                answer = self._request(method, path, name, body)
                break
            except CatalogError as error:
                unknown = error.status is None or error.status in _UNKNOWN
                busy = error.status in _BUSY and error.code != TOO_MANY_COMMITS
                if not (busy or (unknown and not once)) or tried == _TRIES:
                    if processed and error.code not in (COMMIT_CONFLICT, TOO_MANY_COMMITS):
                        # An earlier attempt may have succeeded.
                        raise CatalogError(error.message, path=error.path) from error
                    raise
                processed = processed or unknown
            _pause(tried)
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CatalogError(
                f"{name}: {self._settings.uri} doesn't answer like a server of the UC Delta API: "
                f"{error}. Check {URI}.",
                path=str(name),
                status=200,
            ) from None

    def _request(
        self, method: str, path: str, name: TableName, body: Mapping[str, object] | None
    ) -> bytes:
        headers = {"Accept": "application/json", "User-Agent": ENGINE_INFO}
        if self._settings.token is not None:
            headers["Authorization"] = f"Bearer {self._settings.token}"
        data = None if body is None else msgspec.json.encode(body)
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(  # noqa: S310 - `UnitySettings` checks the scheme
            f"{self._settings.api}{path}", data, headers, method=method
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                answer: bytes = response.read(_MAX_ANSWER_BYTES)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                self._fail(name, error)
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise CatalogError(
                f"{name}: the catalog at {self._settings.uri} didn't answer: "
                f"{self._clean(str(reason) or type(reason).__name__)}. Check {URI}, and try again.",
                path=str(name),
            ) from None

    def _fail(self, name: TableName, error: urllib.error.HTTPError) -> NoReturn:
        try:
            content = error.read(_MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException):
            content = b""
        code, message = _error_of(content)
        message = ": ".join(filter(None, (code, self._clean(message)))) or error.reason
        action = _ACTIONS.get(code or error.code) or _ACTIONS.get(error.code, "Try again later")
        raise CatalogError(
            f"{name}: the catalog at {self._settings.uri} answers with status {error.code}: "
            f"{message.rstrip('.')}. {action}.",
            path=str(name),
            status=error.code,
            code=code or None,
        ) from None

    def _clean(self, text: str) -> str:
        """Return a message of the server as a single line, with the token masked."""
        line = " ".join(text.split())[:1000]
        return without_secrets(line, filter(None, [self._settings.token]))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler for urllib that follows no redirects, because requests contain the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _error_of(content: bytes) -> tuple[str, str]:
    """Return the code and the message of an error response; "" for a missing part.

    `api/delta.yaml` and `api/all.yaml` define different forms of the response.
    """
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", ""
    if not isinstance(body, dict):
        return "", ""
    error = body.get("error")
    if isinstance(error, dict):
        return str(error.get("type") or ""), str(error.get("message") or "")
    return str(body.get("error_code") or ""), str(body.get("message") or "")


def _schema_path(name: TableName) -> str:
    return (
        f"/delta/v1/catalogs/{quote(name.catalog, safe='')}/schemas/{quote(name.schema, safe='')}"
    )


def _table_path(name: TableName) -> str:
    return f"{_schema_path(name)}/tables/{quote(name.table, safe='')}"


def _pause(tried: int) -> None:
    """Sleep with exponential backoff and jitter.

    Args:
        tried: number of attempts so far.
    """
    longest = min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 4**tried)
    time.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - jitter isn't a secret
