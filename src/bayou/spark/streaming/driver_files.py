"""Requests of a stream's Python process to the driver's process, as files in a shared folder.

Spark runs a Python streaming source in a process without a session. To send a request, the stream
creates a request file in a subfolder of the shared folder. The stream polls until the driver's
process creates the response, or the file `failed`. One thread of the driver's process watches all
shared folders, and regularly updates the modification time of the file `alive` in each folder. If
the file `alive` is too old, the stream continues without a response.

For example, a stream can request the sorted list of the files in a table version. The name of the
request file is then `wanted`. The name of the subfolder consists of the version and the table's id.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from bayou.spark.streaming.sorted_files import SortedFiles

_Response = TypeVar("_Response")

ALIVE = "alive"
FAILED = "failed"

_RESPONSE_POLL = 0.1
_ALIVE_TIMEOUT = 20.0
"""Maximum age in seconds of the file `alive`.

If the file is older, the stream assumes that the driver's process has stopped.
"""


def request(
    shared: Path | None,
    folder: str,
    request_file: str,
    read_response: Callable[[Path], _Response | None],
    content: str = "",
) -> _Response | None:
    """Send a request to the driver's process, and wait for the response.

    Returns None if the driver's process has stopped, or if it reports a failure.

    Args:
        shared: the folder that both processes share. If None, no request is sent.
        folder: name of the subfolder of this request.
        request_file: name of the request file. If the response already exists, no request file is
            created.
        read_response: function that reads the response from the subfolder, and returns None if
            there is no response yet.
        content: content of the request file.
    """
    if shared is None or not _is_alive(shared):
        return None
    subfolder = shared / folder
    try:
        subfolder.mkdir(exist_ok=True)
        response = read_response(subfolder)
        if response is None:
            (subfolder / FAILED).unlink(missing_ok=True)
            unfinished = subfolder / f"{request_file}.part"
            unfinished.write_text(content)
            unfinished.rename(subfolder / request_file)
        while response is None and _is_alive(shared) and not (subfolder / FAILED).exists():
            time.sleep(_RESPONSE_POLL)
            response = read_response(subfolder)
    except OSError:  # the folder was deleted
        return None
    return response


def _is_alive(shared: Path) -> bool:
    try:
        return time.time() - (shared / ALIVE).stat().st_mtime < _ALIVE_TIMEOUT
    except OSError:
        return False


_LOG = logging.getLogger(__name__)
_REQUEST_POLL = 0.2


class RequestHandler(Protocol):
    """Handles the requests in a shared folder, in the driver's process."""

    @property
    def path(self) -> str:
        """The path of the table whose streams send the requests."""

    @property
    def is_active(self) -> bool:
        """Whether the handler can handle requests: true as long as its session is active."""

    def handle_requests(self, folder: Path) -> None:
        """For each request in the folder, start a background thread that responds to the request.

        Raises:
            OSError: the folder doesn't exist any more.
        """


def watch(handler: RequestHandler) -> Path:
    """Create a shared folder; a background thread passes the folder's requests to the handler."""
    return _watcher.watch(handler)


class _FolderWatcher:
    """Watches all handlers' folders in one thread. The thread ends when no handler is active."""

    def __init__(self) -> None:
        self._handlers: dict[Path, RequestHandler] = {}
        self._lock = threading.Lock()
        self._is_running = False

    def watch(self, handler: RequestHandler) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="bayou-index-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        (folder / ALIVE).touch()
        with self._lock:
            self._handlers[folder] = handler
            if not self._is_running:
                threading.Thread(target=self._watch, name="bayou-index", daemon=True).start()
                self._is_running = True
        return folder

    def _watch(self) -> None:
        while True:
            with self._lock:
                handlers = list(self._handlers.items())
                self._is_running = bool(handlers)
            if not handlers:
                return
            for folder, handler in handlers:
                if not (handler.is_active and self._handle_requests(folder, handler)):
                    with self._lock:
                        del self._handlers[folder]
                    shutil.rmtree(folder, ignore_errors=True)
            time.sleep(_REQUEST_POLL)

    def _handle_requests(self, folder: Path, handler: RequestHandler) -> bool:
        try:
            (folder / ALIVE).touch()
            handler.handle_requests(folder)
        except OSError as error:
            _LOG.warning(
                "Table %s: the driver's process can't access the folder with the requests of the "
                "table's streams (%s). The streams continue, but without responses from the "
                "driver's process.",
                handler.path,
                error,
            )
            return False
        return True


_watcher = _FolderWatcher()


WANTED = "wanted"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """A request for the sorted list of the files in a table version.

    Attributes:
        folder: the subfolder that contains the request and the response.
    """

    table_id: str
    version: int
    folder: Path

    @classmethod
    def of(cls, shared: Path, table_id: str, version: int) -> IndexRequest:
        """Create the request for a table's version in a shared folder."""
        return cls(table_id=table_id, version=version, folder=shared / f"{version:020d}-{table_id}")


def request_sorted_files(shared: Path | None, table_id: str, version: int) -> SortedFiles | None:
    """Request the sorted list of the files in a table version from the driver's process.

    Returns None if the driver's process doesn't respond.
    """
    if shared is None:
        return None
    folder = IndexRequest.of(shared, table_id, version).folder.name
    return request(shared, folder, WANTED, SortedFiles.open)


def index_requests(shared: Path) -> list[IndexRequest]:
    """Return the requests for sorted lists of files in the shared folder."""
    result = []
    for file in shared.glob(f"*/{WANTED}"):
        version, _, table_id = file.parent.name.partition("-")
        result.append(IndexRequest(table_id=table_id, version=int(version), folder=file.parent))
    return result
