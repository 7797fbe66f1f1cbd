"""What became of a topic's maintenance the last time, kept in the state path for `bayou status`."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bayou.ingest.config import Configuration, Topic
from bayou.ingest.events import MaintenanceReport, MaintenanceTask
from bayou.ingest.state import topic_folder

__all__ = ["LastRun", "LastRuns", "last_runs", "task_of"]


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
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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


def last_runs(configuration: Configuration, topic: Topic) -> dict[str, LastRun]:
    """Those of the tasks that the configuration still asks for: what failed before it was turned
    off fails no more.
    """
    delta = topic.config.destination.delta_config
    asked: dict[MaintenanceTask, bool] = {
        "compaction": delta.enable_compaction,
        "optimize": delta.enable_optimize,
        "vacuum": delta.enable_vacuum,
        "forget": topic.upsert_keys is not None,
    }
    known = LastRuns(configuration.state_path, topic.key).read()
    return {task: known[task] for task, wanted in asked.items() if wanted and task in known}


def task_of(commit: Mapping[str, Any]) -> tuple[MaintenanceTask, str] | None:
    """The task that a commit of a table's history ends, and its result; None for other commits."""
    match commit.get("operation"):
        case "OPTIMIZE":
            return "optimize", "done"
        case "VACUUM END":
            parameters = commit.get("operationParameters")
            failed = isinstance(parameters, Mapping) and parameters.get("status") == "FAILED"
            return "vacuum", "failed" if failed else "done"
        case _:
            return None
