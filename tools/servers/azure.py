"""An Azure Blob Storage server: azurite, with its blobs in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import socket
import ssl
import urllib.request
from email.utils import formatdate
from pathlib import Path

from servers.folders import azurite_folder
from servers.process import ServerError, ServerProcess
from servers.server import Server

__all__ = ["AzureServer"]

_TIMEOUT = 60.0
_API_VERSION = "2021-08-06"


class AzureServer(Server):
    """An Azure Blob Storage server with one account. A restart loses the blobs.

    Args:
        folder: folder for logs.
        certificate: files of a certificate and its key. The server then speaks HTTPS, and accepts
            OAuth tokens, whose signatures it doesn't verify.
    """

    ACCOUNT = "bayoutest"

    def __init__(self, folder: Path, certificate: tuple[Path, Path] | None = None) -> None:
        super().__init__()
        self.log = folder / "azurite.log"
        self.account_key = base64.b64encode(secrets.token_bytes(64)).decode()
        self._certificate = certificate

    @property
    def endpoint(self) -> str:
        """The URL of the account."""
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/{self.ACCOUNT}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Storage options with the account's key. They also work as environment variables."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self.account_key,
            "AZURE_ENDPOINT": self.endpoint,
        }

    def create_container(self, name: str) -> None:
        """Create a container; the request is signed with the account's key."""
        date = formatdate(usegmt=True)
        empty_headers = "\n" * 12
        headers = f"x-ms-date:{date}\nx-ms-version:{_API_VERSION}\n"
        resource = f"/{self.ACCOUNT}/{self.ACCOUNT}/{name}\nrestype:container"
        text = f"PUT{empty_headers}{headers}{resource}".encode()
        key = base64.b64decode(self.account_key)
        signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        request = urllib.request.Request(  # noqa: S310 - a URL on loopback
            f"{self.endpoint}/{name}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": _API_VERSION,
                "Authorization": f"SharedKey {self.ACCOUNT}:{signature}",
                "Content-Length": "0",
            },
        )
        _opener().open(request, timeout=_TIMEOUT).close()

    def _check_fetched(self) -> None:
        if not _program().is_file():
            raise ServerError(f"{_program()} isn't there; tools/fetch_servers.py fetches it")

    def _launch(self, port: int) -> ServerProcess:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        secured: list[str] = []
        if self._certificate is not None:
            certificate, key = self._certificate
            secured = ["--cert", str(certificate), "--key", str(key), "--oauth", "basic"]
        process = ServerProcess(
            [
                *("node", str(_program()), "--blobHost", "127.0.0.1", "--blobPort", str(port)),
                *("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"),
                *("--silent", *secured),
            ],
            log=self.log,
            environment={**os.environ, "AZURITE_ACCOUNTS": f"{self.ACCOUNT}:{self.account_key}"},
        )
        process.wait_until(lambda: _listens(port), timeout=_TIMEOUT)
        return process


def _program() -> Path:
    return azurite_folder() / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def _opener() -> urllib.request.OpenerDirector:
    # Ignore proxies of the environment for loopback, and accept the test's own certificate.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
