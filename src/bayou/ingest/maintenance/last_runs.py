"""What became of a topic's maintenance the last time, kept in the state path for `bayou status`."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bayou.ingest.progress import MaintenanceReport
from bayou.ingest.state import topic_folder

__all__ = ["LastRun", "LastRuns"]


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a task.

    Attributes:
        at: its end, ms since the epoch.
        result: `done`, `nothing` where there was nothing to do, or `failed`.
        reason: why it failed.
    """

    at: int
    result: str
    reason: str | None = None


_DECODER = msgspec.json.Decoder(dict[str, LastRun])


class LastRuns:
    """Those of a topic, by task; what the tables' histories don't tell."""

    def __init__(self, state_path: Path, topic: str) -> None:
        self._file = topic_folder(state_path, topic) / "maintenance.json"
        self._lock = threading.Lock()

    def read(self) -> Mapping[str, LastRun]:
        """Empty where none are known here: the pipeline runs elsewhere, or hasn't yet."""
        try:
            return _DECODER.decode(self._file.read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}

    def keep(self, report: MaintenanceReport) -> None:
        """Best effort: a full disk doesn't keep a table from being maintained."""
        run = LastRun(
            at=round((report.started + report.seconds) * 1000),
            result=report.result,
            reason=None if report.error is None else report.error.message,
        )
        with self._lock, contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside = self._file.with_suffix(".new")
            beside.write_bytes(msgspec.json.encode({**self.read(), report.task: run}))
            os.replace(beside, self._file)
