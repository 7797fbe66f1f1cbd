"""Sorted files that another process makes for a stream: the driver, whose executors sort faster.

The two share a folder of the driver's machine. The stream asks by a file `wanted` in a folder of
its own, named after table and version, and waits for the index or for word that there will be none.
The driver's process touches `alive` in the shared folder; where it stops doing so the stream sorts
by itself, as it does without such a folder.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from bayou.spark.streaming.sorted_files import SortedFiles

__all__ = ["ALIVE", "FAILED", "WANTED", "IndexRequest", "handed_index", "requests"]

ALIVE = "alive"
WANTED = "wanted"
FAILED = "failed"

_POLL = 0.1
_SILENCE = 20.0
"""Seconds without a sign of life after which nobody is expected to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """A version of a table whose files somebody wants sorted, and where."""

    table_id: str
    version: int
    folder: Path

    @classmethod
    def of(cls, shared: Path, table_id: str, version: int) -> IndexRequest:
        """The request of a stream."""
        return cls(table_id=table_id, version=version, folder=shared / f"{version:020d}-{table_id}")


def handed_index(shared: Path | None, table_id: str, version: int) -> SortedFiles | None:
    """The sorted files of a version, made by the driver's process; None where it doesn't.

    Args:
        shared: the folder of both processes, None for none.
    """
    if shared is None or not _is_alive(shared):
        return None
    request = IndexRequest.of(shared, table_id, version)
    try:
        request.folder.mkdir(exist_ok=True)
        found = SortedFiles.open(request.folder)
        if found is None:
            (request.folder / FAILED).unlink(missing_ok=True)
            (request.folder / WANTED).touch()
        while found is None and _is_alive(shared) and not (request.folder / FAILED).exists():
            time.sleep(_POLL)
            found = SortedFiles.open(request.folder)
    except OSError:  # someone cleans up
        return None
    return found


def requests(shared: Path) -> list[IndexRequest]:
    """What streams ask for in a folder."""
    found = []
    for wanted in shared.glob(f"*/{WANTED}"):
        version, _, table_id = wanted.parent.name.partition("-")
        found.append(IndexRequest(table_id=table_id, version=int(version), folder=wanted.parent))
    return found


def _is_alive(shared: Path) -> bool:
    try:
        return time.time() - (shared / ALIVE).stat().st_mtime < _SILENCE
    except OSError:
        return False
