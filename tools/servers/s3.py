"""An S3 server: versitygw over a folder."""

from __future__ import annotations

import os
import secrets
import urllib.request
from pathlib import Path

from servers.folders import s3_folder
from servers.process import ServerError, ServerProcess
from servers.server import Server

__all__ = ["S3Server"]

_TIMEOUT = 30.0


class S3Server(Server):
    """An S3 server with generated credentials.

    Objects are files below `objects`. Put-if-absent is atomic.

    Args:
        folder: folder for objects and logs.
    """

    REGION = "us-east-1"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.objects = folder / "objects"
        self.log = folder / "versitygw.log"
        self.access_key = f"AK{secrets.token_hex(9).upper()}"
        self.secret_key = secrets.token_hex(20)

    @property
    def endpoint(self) -> str:
        """The endpoint's URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Storage options for `deltalake` and Bayou. They also work as environment variables."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ALLOW_HTTP": "true",
        }

    def create_bucket(self, name: str) -> None:
        """Create a bucket unless it exists."""
        (self.objects / name).mkdir(parents=True, exist_ok=True)

    def _check_fetched(self) -> None:
        if not _program().is_file():
            raise ServerError(f"{_program()} isn't there; tools/fetch_servers.py fetches it")

    def _launch(self, port: int) -> ServerProcess:
        self.objects.mkdir(parents=True, exist_ok=True)
        address = f"127.0.0.1:{port}"
        process = ServerProcess(
            [
                *(str(_program()), "--port", address, "--region", self.REGION),
                *("--health", "/health", "--keep-alive", "--quiet"),
                *("posix", str(self.objects)),
            ],
            log=self.log,
            environment={
                **os.environ,
                "ROOT_ACCESS_KEY_ID": self.access_key,
                "ROOT_SECRET_ACCESS_KEY": self.secret_key,
            },
        )
        process.wait_until(lambda: _is_healthy(f"http://{address}/health"), timeout=_TIMEOUT)
        return process


def _program() -> Path:
    return s3_folder() / "versitygw"


def _is_healthy(url: str) -> bool:
    # Ignore proxies of the environment for loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
