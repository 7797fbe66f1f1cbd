"""Answers pip-audit from a checkout of the advisory database of PyPI's packages.

pip-audit sends each package and version to a service (`--vulnerability-service osv`). This one
listens on loopback and reads `vulns/PACKAGE/*.yaml` of the checkout.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version
from ruamel.yaml import YAML


@contextlib.contextmanager
def advisory_service(database: Path) -> Iterator[str]:
    """Answer queries from a checkout of the database until the end of the block; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            query = json.loads(self.rfile.read(length))
            found = vulnerabilities(database, query["package"]["name"], query["version"])
            body = json.dumps({"vulns": found} if found else {}, default=str).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Don't print requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def vulnerabilities(database: Path, package: str, version: str) -> list[dict[str, Any]]:
    """Return the advisories, without withdrawn ones, that affect a version of a package.

    Args:
        database: a folder with `vulns/PACKAGE/*.yaml`.
        package: the package's normalized name (lower case, with `-`).
    """
    advisories = [
        YAML(typ="safe", pure=True).load(path)
        for path in sorted((database / "vulns" / package).glob("*.yaml"))
    ]
    return [
        advisory
        for advisory in advisories
        if not advisory.get("withdrawn")
        and any(
            affected["package"]["name"] == package and _affects(affected, version)
            for affected in advisory.get("affected", ())
        )
    ]


def _affects(affected: dict[str, Any], version: str) -> bool:
    if version in (str(name) for name in affected.get("versions", ())):
        return True
    ranges = [r for r in affected.get("ranges", ()) if r["type"] == "ECOSYSTEM"]
    return any(_is_in_range(r["events"], Version(version)) for r in ranges)


def _is_in_range(events: list[dict[str, Any]], version: Version) -> bool:
    """Return whether the last event up to a version introduces the vulnerability."""
    order = sorted(
        (_event_version(str(value)), kind == "introduced", kind)
        for event in events
        for kind, value in event.items()
    )
    inside = False
    for at, _, kind in order:
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


def _event_version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")  # at worst the version counts as affected
