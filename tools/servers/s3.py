"""An S3 server: versitygw over a folder."""

from __future__ import annotations

import os
import secrets
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from servers.folders import s3_folder
from servers.process import ServerError, ServerProcess, free_port

__all__ = ["S3Server"]

_ATTEMPTS = 3
_TIMEOUT = 30.0


class S3Server:
    """An S3 server on loopback with credentials of its own; a context manager.

    Objects are files below `objects`; put-if-absent is atomic. It stays at its port when it is
    restarted.

    Args:
        folder: where objects and logs go.
    """

    REGION = "us-east-1"

    def __init__(self, folder: Path) -> None:
        self.objects = folder / "objects"
        self.log = folder / "versitygw.log"
        self.access_key = f"AK{secrets.token_hex(9).upper()}"
        self.secret_key = secrets.token_hex(20)
        self.port: int | None = None
        self._process: ServerProcess | None = None

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """How `deltalake` and Bayou reach it; as environment variables they work too."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ALLOW_HTTP": "true",
        }

    def start(self) -> None:
        """Start, and return when it answers.

        Raises:
            ServerError: it isn't fetched, or doesn't start.
        """
        program = s3_folder() / "versitygw"
        if not program.is_file():
            raise ServerError(f"{program} isn't there; tools/fetch_servers.py fetches it")
        for attempt in range(_ATTEMPTS):
            try:
                self._start(program, self.port or free_port())
                return
            except ServerError:
                if self.port is not None or attempt == _ATTEMPTS - 1:
                    raise  # else somebody may have taken the port in between

    def stop(self) -> None:
        """End in an orderly way; the objects stay."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End as by a crash; the objects stay."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Stop and start, at the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Take connections and answer nothing until `resume`."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        assert self._process is not None
        self._process.resume()

    def create_bucket(self, name: str) -> None:
        """Make a bucket; one that is there is left as it is."""
        (self.objects / name).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def _start(self, program: Path, port: int) -> None:
        self.objects.mkdir(parents=True, exist_ok=True)
        address = f"127.0.0.1:{port}"
        process = ServerProcess(
            [
                *(str(program), "--port", address, "--region", self.REGION, "--health", "/health"),
                *("--keep-alive", "--quiet", "posix", str(self.objects)),
            ],
            log=self.log,
            environment={
                **os.environ,
                "ROOT_ACCESS_KEY_ID": self.access_key,
                "ROOT_SECRET_ACCESS_KEY": self.secret_key,
            },
        )
        process.wait_until(lambda: _is_healthy(f"http://{address}/health"), timeout=_TIMEOUT)
        self.port, self._process = port, process


def _is_healthy(url: str) -> bool:
    # No proxy of the environment stands between here and loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
