"""A folder of the driver's machine in which a stream's process asks the driver's process for help.

The stream makes a file in a folder of its own there, and waits for the answer or for word that
there will be none. The driver's process touches `alive` in the shared folder; where it stops doing
so the stream goes on by itself, as it does without such a folder.

What the driver's process does for streams whose source lives in a process without a session.

A stream is given a folder; one thread watches the folders of all offers and has them looked into.

Sorted files that another process makes for a stream: the driver, whose executors sort faster.

The stream asks by a file `wanted` in a folder named after table and version, in the folder that
both processes share.
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
from typing import Any, Protocol, TypeVar

from bayou.spark.streaming.sorted_files import SortedFiles

__all__ = [
    "ALIVE",
    "FAILED",
    "WANTED",
    "IndexRequest",
    "Offer",
    "ask",
    "handed_index",
    "requests",
    "session_lives",
    "watch",
]


_Answer = TypeVar("_Answer")

ALIVE = "alive"
FAILED = "failed"

_POLL = 0.1
_SILENCE = 20.0
"""Seconds without a sign of life after which nobody is expected to answer."""


def ask(
    shared: Path | None,
    folder: str,
    question: str,
    answer: Callable[[Path], _Answer | None],
    text: str = "",
) -> _Answer | None:
    """What the driver's process answers; None where nobody answers, or it can't.

    Args:
        shared: the folder of both processes, None for none.
        folder: name of the question's own folder in it.
        question: name of the file that asks; it isn't made where the answer is there already.
        answer: finds the answer in the question's folder, None where it isn't there (yet).
        text: what the file says.
    """
    if shared is None or not _is_alive(shared):
        return None
    own = shared / folder
    try:
        own.mkdir(exist_ok=True)
        found = answer(own)
        if found is None:
            (own / FAILED).unlink(missing_ok=True)
            unfinished = own / f"{question}.part"
            unfinished.write_text(text)
            unfinished.rename(own / question)
        while found is None and _is_alive(shared) and not (own / FAILED).exists():
            time.sleep(_POLL)
            found = answer(own)
    except OSError:  # someone cleans up
        return None
    return found


def _is_alive(shared: Path) -> bool:
    try:
        return time.time() - (shared / ALIVE).stat().st_mtime < _SILENCE
    except OSError:
        return False


_LOG = logging.getLogger(__name__)
_MAILBOX_POLL = 0.2


class Offer(Protocol):
    """What streams may ask for in a folder, for as long as it holds."""

    @property
    def path(self) -> str:
        """The table."""

    @property
    def holds(self) -> bool:
        """Whether anybody can still answer."""

    def look_into(self, folder: Path) -> None:
        """Take the questions of a folder and see to their answers, in threads of their own.

        Raises:
            OSError: the folder is gone.
        """


def watch(offer: Offer) -> Path:
    """A new folder in which streams are answered."""
    return _keeper.watch(offer)


def session_lives(spark: Any) -> bool:
    """Whether a session can still run jobs."""
    return spark.sparkContext._jsc is not None  # noqa: SLF001  # None: it was stopped


class _Keeper:
    """One thread of the process that watches the folders of all offers; ends with the last."""

    def __init__(self) -> None:
        self._offers: dict[Path, Offer] = {}
        self._changing = threading.Lock()
        self._watching = False

    def watch(self, offer: Offer) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="bayou-index-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        (folder / ALIVE).touch()
        with self._changing:
            self._offers[folder] = offer
            if not self._watching:
                threading.Thread(target=self._watch, name="bayou-index", daemon=True).start()
                self._watching = True
        return folder

    def _watch(self) -> None:
        while True:
            with self._changing:
                offers = list(self._offers.items())
                self._watching = bool(offers)
            if not offers:
                return
            for folder, offer in offers:
                if not (offer.holds and self._looked_into(folder, offer)):
                    with self._changing:
                        del self._offers[folder]
                    shutil.rmtree(folder, ignore_errors=True)
            time.sleep(_MAILBOX_POLL)

    def _looked_into(self, folder: Path, offer: Offer) -> bool:
        try:
            (folder / ALIVE).touch()
            offer.look_into(folder)
        except OSError as error:
            _LOG.warning("Streams of %s help themselves: %s", offer.path, error)
            return False
        return True


_keeper = _Keeper()


WANTED = "wanted"


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
    if shared is None:
        return None
    folder = IndexRequest.of(shared, table_id, version).folder.name
    return ask(shared, folder, WANTED, SortedFiles.open)


def requests(shared: Path) -> list[IndexRequest]:
    """What streams ask for in a folder."""
    found = []
    for wanted in shared.glob(f"*/{WANTED}"):
        version, _, table_id = wanted.parent.name.partition("-")
        found.append(IndexRequest(table_id=table_id, version=int(version), folder=wanted.parent))
    return found
