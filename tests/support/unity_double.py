"""An HTTP double of Unity Catalog's server, made from its `api/delta.yaml` and `api/all.yaml`.

It has the requests that Bayou sends, with the names, statuses and bodies of these files. The rules
of commits, the properties of managed tables and the texts of errors follow the open-source server.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["Fault", "UnityDouble"]

API = "/api/2.1/unity-catalog"
MAX_COMMITS = 10
REQUIRED_READER = ["catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"]
REQUIRED_WRITER = [*REQUIRED_READER, "inCommitTimestamp"]
REQUIRED_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}
DOMAINS = {
    "delta.clustering": ("clusteringColumns", "clusteringColumns"),
    "delta.rowTracking": ("rowIdHighWaterMark", "delta.rowTracking.rowIdHighWaterMark"),
}
CODES = {
    "InvalidParameterValueException": 400,
    "NotAuthorizedException": 401,
    "PermissionDeniedException": 403,
    "NotFoundException": 404,
    "NoSuchSchemaException": 404,
    "NoSuchTableException": 404,
    "AlreadyExistsException": 409,
    "CommitVersionConflictException": 409,
    "UpdateRequirementConflictException": 409,
    "ResourceExhaustedException": 429,
    "TooManyRequestsException": 429,
    "CommitStateUnknownException": 500,
    "InternalServerErrorException": 500,
}


class RefusedError(Exception):
    """An answer with an error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class Fault:
    """A fault of the server.

    Attributes:
        of: returns whether a request (method, path, body) has the fault.
        error: the error of the answer; None closes the connection without an answer.
        processed: whether the request is carried out before the fault.
        times: number of requests with the fault.
    """

    of: Callable[[str, str, dict], bool]
    error: str | None = None
    processed: bool = False
    times: int = 1


@dataclass
class Entry:
    """A table of the catalog; `commits` are the ratified commits that the catalog has."""

    id: str
    kind: str
    location: str
    columns: dict
    partition_columns: list
    properties: dict
    comment: str | None = None
    updated: int = 1
    commits: list[dict] = field(default_factory=list)
    published: int = -1

    @property
    def latest(self) -> int:
        return self.commits[-1]["version"] if self.commits else 0

    @property
    def unpublished(self) -> list[dict]:
        return [c for c in self.commits if c["version"] > self.published]


@dataclass
class UnityDouble:
    """A running server with the catalog `lake` and the schema `shop`.

    Attributes:
        root: location of managed tables: a folder, or a URI such as `s3://bucket/managed`.
        token: the token that requests must have; None for no authentication.
        denied: names of tables to which the token's user has no access.
        readers: names of tables that the user may only read.
        maintenance: operations that clients may run on managed tables.
        lifetime: seconds until vended credentials expire.
        faults: faults that are still due.
        requests: method, path and body of each request.
        vended: access keys of vended credentials, in order, by operation.
    """

    root: str
    token: str | None = None
    denied: set[str] = field(default_factory=set)
    readers: set[str] = field(default_factory=set)
    maintenance: list[str] | None = None
    lifetime: float = 3600
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str, dict]] = field(default_factory=list)
    vended: list[tuple[str, str]] = field(default_factory=list)
    tables: dict[str, Entry] = field(default_factory=dict)
    staging: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options for the server."""
        return {"UC_URI": self.url, **({} if self.token is None else {"UC_TOKEN": self.token})}

    def fail(
        self, of: str, error: str | None = None, *, processed: bool = False, times: int = 1
    ) -> None:
        """Add a fault for requests whose body or path contains a text, such as `add-commit`."""
        self.faults.append(
            Fault(lambda _, path, body: of in f"{path} {json.dumps(body)}", error, processed, times)
        )

    def sent(self, text: str) -> int:
        """Return the number of requests whose path or body contains a text."""
        return sum(text in f"{m} {path} {json.dumps(body)}" for m, path, body in self.requests)

    def carry_out(self, method: str, path: str, query: dict[str, str], body: dict) -> Any:
        """Carry out a request; return the body of the answer."""
        parts = [unquote(part) for part in path.removeprefix(API).strip("/").split("/")]
        with self._lock:
            match [method, *parts]:
                case ["POST", "temporary-path-credentials"]:
                    return self._path_credentials(body["url"])
                case ["GET", "delta", "v1", "staging-tables", table_id, "credentials"]:
                    if table_id not in self.staging:
                        raise RefusedError("NoSuchTableException", f"Staging table: {table_id}")
                    return self._credentials(self.staging[table_id][1], "READ_WRITE")
                case [_, "delta", "v1", "catalogs", catalog, "schemas", schema, *rest]:
                    if (catalog, schema) != ("lake", "shop"):
                        raise RefusedError(
                            "NoSuchSchemaException", f"Schema not found: {catalog}.{schema}"
                        )
                    return self._in_schema(f"{catalog}.{schema}", method, rest, query, body)
        raise RefusedError("NotFoundException", "Not Found")

    def _in_schema(
        self, schema: str, method: str, rest: list[str], query: dict[str, str], body: dict
    ) -> Any:
        match [method, *rest]:
            case ["POST", "staging-tables"]:
                return self._stage(schema, body["name"])
            case ["POST", "tables"]:
                return self._create(schema, body)
            case [_, "tables", table, *more]:
                name = f"{schema}.{table}"
                if name in self.denied:
                    raise RefusedError("PermissionDeniedException", "Access denied.")
                if name not in self.tables:
                    raise RefusedError("NoSuchTableException", f"Table not found: {name}")
                entry = self.tables[name]
                match [method, *more]:
                    case ["GET"]:
                        return self._loaded(entry)
                    case ["POST"]:
                        self._update(entry, body)
                        return self._loaded(entry)
                    case ["DELETE"]:
                        return self.tables.pop(name) and None
                    case ["POST", "rename"]:
                        new = f"{schema}.{body['new-name']}"
                        if new in self.tables:
                            raise RefusedError("AlreadyExistsException", f"Table exists: {new}")
                        self.tables[new] = self.tables.pop(name)
                        return None
                    case ["GET", "credentials"]:
                        if name in self.readers and query["operation"] != "READ":
                            raise RefusedError("PermissionDeniedException", "Access denied.")
                        return self._credentials(entry.location, query["operation"])
        raise RefusedError("NotFoundException", "Not Found")

    def _stage(self, schema: str, name: str) -> dict:
        if f"{schema}.{name}" in self.tables:
            raise RefusedError("AlreadyExistsException", f"Table already exists: {schema}.{name}")
        table_id = str(uuid.uuid4())
        location = f"{_uri(self.root)}/tables/{table_id}"
        self.staging[table_id] = (f"{schema}.{name}", location)
        return {
            "table-id": table_id,
            "table-type": "MANAGED",
            "location": location,
            **self._credentials(location, "READ_WRITE"),
            "required-protocol": {
                "min-reader-version": 3,
                "min-writer-version": 7,
                "reader-features": REQUIRED_READER,
                "writer-features": REQUIRED_WRITER,
            },
            "required-properties": {**REQUIRED_PROPERTIES, "io.unitycatalog.tableId": table_id},
            "suggested-properties": {"delta.columnMapping.maxColumnId": None},
        }

    def _create(self, schema: str, body: dict) -> dict:
        name = f"{schema}.{body['name']}"
        if name in self.tables:
            raise RefusedError("AlreadyExistsException", f"Table already exists: {name}")
        for key in ("location", "table-type", "columns", "protocol", "last-commit-timestamp-ms"):
            if body.get(key) is None:
                raise RefusedError("InvalidParameterValueException", f"{key} is required.")
        table_id = str(uuid.uuid4())
        if body["table-type"] == "MANAGED":
            table_id = next((i for i, s in self.staging.items() if s[1] == body["location"]), "")
            if self.staging.pop(table_id, ("",))[0] != name:
                raise RefusedError("NoSuchTableException", "Staging table not found.")
        entry = Entry(
            id=table_id,
            kind=body["table-type"],
            location=body["location"],
            columns=body["columns"],
            partition_columns=body.get("partition-columns") or [],
            properties={**body["properties"], "delta.lastUpdateVersion": "0"},
            comment=body.get("comment"),
        )
        _set_protocol(entry, body["protocol"])
        _set_domains(entry, body.get("domain-metadata") or {})
        if entry.kind == "MANAGED":
            _check_contract(entry)
        self.tables[name] = entry
        return self._loaded(entry)

    def _loaded(self, entry: Entry) -> dict:
        loaded: dict[str, Any] = {
            "metadata": {
                "etag": f"etag-{entry.updated}",
                "table-type": entry.kind,
                "table-uuid": entry.id,
                "location": entry.location,
                "created-time": 1,
                "updated-time": entry.updated,
                "columns": entry.columns,
                "partition-columns": entry.partition_columns,
                "properties": entry.properties,
            },
            "commits": None,
        }
        if entry.kind == "MANAGED":
            loaded["latest-table-version"] = entry.latest
            loaded["commits"] = entry.unpublished[::-1]
            if self.maintenance is not None:
                loaded["allowed-maintenance-operations"] = self.maintenance
        return loaded

    def _update(self, entry: Entry, body: dict) -> None:
        requirements, updates = body["requirements"], body["updates"]
        actions = [update["action"] for update in updates]
        if not updates or len(set(actions)) != len(actions):
            raise RefusedError("InvalidParameterValueException", "At most one of each action.")
        if [r for r in requirements if r["type"] == "assert-table-uuid"] == []:
            raise RefusedError("InvalidParameterValueException", "assert-table-uuid is required.")
        for requirement in requirements:
            if requirement.get("uuid", entry.id) != entry.id:
                raise RefusedError("UpdateRequirementConflictException", "assert-table-uuid failed")
        by_action = dict(zip(actions, updates, strict=True))
        commit, backfill = by_action.pop("add-commit", None), None
        if (update := by_action.pop("set-latest-backfilled-version", None)) is not None:
            backfill = update["latest-published-version"]
        if (commit is not None or backfill is not None) and entry.kind != "MANAGED":
            raise RefusedError(
                "InvalidParameterValueException", "add-commit requires a MANAGED table."
            )
        if commit is not None and _is_replay(entry, commit["commit"]):
            return
        if commit is not None:
            _add_commit(entry, commit["commit"])
            if by_action:
                entry.properties["delta.lastUpdateVersion"] = str(commit["commit"]["version"])
        if backfill is not None:
            if backfill > entry.latest:
                raise RefusedError(
                    "InvalidParameterValueException", f"Should not backfill {backfill}"
                )
            entry.published = max(entry.published, backfill)
            entry.commits = [*entry.unpublished] or entry.commits[-1:]
        for action, update in by_action.items():
            _apply(entry, action, update)
        entry.updated += bool(by_action)

    def _path_credentials(self, url: str) -> dict:
        ((credential),) = self._credentials(url, "PATH_CREATE_TABLE")["storage-credentials"]
        config = credential["config"]
        answer: dict[str, Any] = {"url": url, "expiration_time": credential["expiration-time-ms"]}
        if config:
            answer["aws_temp_credentials"] = {
                "access_key_id": config["s3.access-key-id"],
                "secret_access_key": config["s3.secret-access-key"],
                "session_token": config["s3.session-token"],
            }
        return answer

    def _credentials(self, location: str, operation: str) -> dict:
        config, expiry = {}, None
        if location.startswith("s3://"):
            key = f"VENDED{len(self.vended)}"
            self.vended.append((operation, key))
            config = {
                "s3.access-key-id": key,
                "s3.secret-access-key": "vended-secret",
                "s3.session-token": f"session-of-{key}",
            }
            expiry = int((time.time() + self.lifetime) * 1000)
        credential = {
            "prefix": location,
            "operation": operation,
            "config": config,
            "expiration-time-ms": expiry,
        }
        return {"storage-credentials": [credential]}


def _is_replay(entry: Entry, commit: dict) -> bool:
    """Whether a commit was accepted before; raises the conflict if the version has another."""
    version = commit["version"]
    if version > entry.latest or (version == 0 and not entry.commits):
        return False
    known = next((c for c in entry.commits if c["version"] == version), None)
    if known is not None:
        if known["file-name"] == commit["file-name"]:
            return True
        raise RefusedError("CommitVersionConflictException", "Commit version already accepted.")
    log = Path(entry.location.removeprefix("file://"), "_delta_log")
    staged, published = log / "_staged_commits" / commit["file-name"], log / f"{version:020}.json"
    if not staged.exists() or not published.exists():
        raise RefusedError("CommitStateUnknownException", "unable to read the files")
    if staged.read_bytes() == published.read_bytes():
        return True
    raise RefusedError("CommitVersionConflictException", f"Version {version} is already published.")


def _add_commit(entry: Entry, commit: dict) -> None:
    missing = {"version", "timestamp", "file-name", "file-size", "file-modification-timestamp"}
    if missing - commit.keys():
        raise RefusedError("InvalidParameterValueException", f"missing {missing - commit.keys()}")
    if commit["version"] != entry.latest + 1:
        raise RefusedError(
            "InvalidParameterValueException", "Commit version must be the next version"
        )
    if len(entry.unpublished) >= MAX_COMMITS:
        raise RefusedError("ResourceExhaustedException", "Max number of commits per table reached")
    entry.commits.append(commit)


def _apply(entry: Entry, action: str, update: dict) -> None:
    match action:
        case "set-columns":
            entry.columns = update["columns"]
        case "set-partition-columns":
            entry.partition_columns = update["partition-columns"]
        case "set-properties":
            entry.properties |= update["updates"]
        case "remove-properties":
            for key in update["removals"]:
                entry.properties.pop(key, None)
        case "set-table-comment":
            entry.comment = update["comment"]
        case "set-protocol":
            _set_protocol(entry, update["protocol"])
            if entry.kind == "MANAGED":
                _check_contract(entry)
        case "set-domain-metadata":
            _set_domains(entry, update["updates"])
        case "remove-domain-metadata":
            for domain in update["domains"]:
                entry.properties.pop(DOMAINS[domain][1], None)
        case "update-metadata-snapshot-version" if entry.kind == "EXTERNAL":
            entry.properties["delta.lastUpdateVersion"] = str(update["last-commit-version"])
        case _:
            raise RefusedError("InvalidParameterValueException", f"Unknown update action: {action}")


def _set_protocol(entry: Entry, protocol: dict) -> None:
    features = [*protocol.get("reader-features", ()), *protocol.get("writer-features", ())]
    kept = {k: v for k, v in entry.properties.items() if not k.startswith("delta.feature.")}
    entry.properties = {
        **kept,
        "delta.minReaderVersion": str(protocol["min-reader-version"]),
        "delta.minWriterVersion": str(protocol["min-writer-version"]),
        **{f"delta.feature.{name}": "supported" for name in features},
    }


def _set_domains(entry: Entry, domains: dict) -> None:
    for domain, values in domains.items():
        name, key = DOMAINS[domain]
        entry.properties[key] = json.dumps(values[name], separators=(",", ":"))


def _check_contract(entry: Entry) -> None:
    for feature in REQUIRED_WRITER:
        if f"delta.feature.{feature}" not in entry.properties:
            raise RefusedError("InvalidParameterValueException", f"missing required {feature!r}")
    required = {**REQUIRED_PROPERTIES, "io.unitycatalog.tableId": entry.id}
    for key, value in required.items():
        if entry.properties.get(key) != value:
            raise RefusedError(
                "InvalidParameterValueException", f"property {key!r} must be {value!r}"
            )


def _uri(path: str) -> str:
    return f"file://{path}" if path.startswith("/") else path


def _handler(double: UnityDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond()

        def do_POST(self) -> None:
            self._respond()

        def do_DELETE(self) -> None:
            self._respond()

        def _respond(self) -> None:
            url = urlsplit(self.path)
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else {}
            double.requests.append((self.command, self.path, body))
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            try:
                if double.token is not None and self.headers.get("Authorization") != (
                    f"Bearer {double.token}"
                ):
                    raise RefusedError("NotAuthorizedException", "The token isn't valid.")
                fault = self._fault(body)
                if fault is None or fault.processed:
                    answer = double.carry_out(self.command, url.path, query, body)
                if fault is not None:
                    if fault.error is None:
                        self.close_connection = True
                        return
                    raise RefusedError(fault.error, f"fault at {self.headers.get('Authorization')}")
                self._answer(200 if answer is not None else 204, answer)
            except RefusedError as error:
                self._refuse(url.path, error)

        def _fault(self, body: dict) -> Fault | None:
            with double._lock:
                for fault in double.faults:
                    if fault.times and fault.of(self.command, self.path, body):
                        fault.times -= 1
                        return fault
            return None

        def _refuse(self, path: str, error: RefusedError) -> None:
            code = CODES[error.kind]
            if path.startswith(f"{API}/delta/"):
                body: dict = {
                    "error": {
                        "message": str(error),
                        "type": error.kind,
                        "code": code,
                        "stack": None,
                    }
                }
            else:
                body = {"error_code": error.kind, "message": str(error)}
            self._answer(code, body)

        def _answer(self, status: int, body: Any) -> None:
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    return Handler
