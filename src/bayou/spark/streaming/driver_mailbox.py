"""What the driver's process does for streams whose source lives in a process without a session.

A stream is given a folder; one thread watches the folders of all offers and has them looked into.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from bayou.spark.streaming.driver_folder import ALIVE

__all__ = ["Offer", "session_lives", "watch"]

_LOG = logging.getLogger(__name__)
_POLL = 0.2


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
            time.sleep(_POLL)

    def _looked_into(self, folder: Path, offer: Offer) -> bool:
        try:
            (folder / ALIVE).touch()
            offer.look_into(folder)
        except OSError as error:
            _LOG.warning("Streams of %s help themselves: %s", offer.path, error)
            return False
        return True


_keeper = _Keeper()
