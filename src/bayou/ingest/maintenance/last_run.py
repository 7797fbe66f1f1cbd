"""The last run of each maintenance task, for `bayou status`.

`LastRuns` stores the runs in the state path. `completed_task` recognizes commits of maintenance
tasks in a table's history.
"""

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
from bayou.ingest.local_state import topic_folder


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a maintenance task.

    Attributes:
        at: end of the run, ms since the epoch.
        result: `done`, `nothing` if there was nothing to do, or `failed`.
        reason: the error message of a failed run; None if the run didn't fail.
    """

    at: int
    result: str
    reason: str | None = None


_DECODER = msgspec.json.Decoder(dict[str, LastRun])


class LastRuns:
    """Stores the last run of each maintenance task of a table, in a file in the state path.

    Args:
        table_key: the name of the table, `Topic.table_key`. Each table has its own file.
    """

    def __init__(self, state_path: Path, table_key: str) -> None:
        self._file = topic_folder(state_path, table_key) / "maintenance.json"
        self._lock = threading.Lock()

    def read(self) -> Mapping[str, LastRun]:
        """Return the last run of each task that has run."""
        try:
            return _DECODER.decode(self._file.read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}

    def keep(self, report: MaintenanceReport) -> None:
        """Store the result of a task. Errors are ignored, so that maintenance continues."""
        run = LastRun(
            at=round((report.started + report.seconds) * 1000),
            result=report.result,
            reason=None if report.error is None else report.error.message,
        )
        with self._lock, contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._file.with_suffix(".new")
            temporary.write_bytes(msgspec.json.encode({**self.read(), report.task: run}))
            os.replace(temporary, self._file)


def last_runs(configuration: Configuration, topic: Topic) -> dict[str, LastRun]:
    """Return the last run of each maintenance task, from the state path.

    Tasks that the topic's configuration doesn't enable are omitted.
    """
    delta = topic.config.destination.delta_config
    enabled: dict[MaintenanceTask, bool] = {
        "compaction": delta.enable_compaction,
        "optimize": delta.enable_optimize,
        "vacuum": delta.enable_vacuum,
        "forget": topic.upsert_keys is not None,
    }
    known = LastRuns(configuration.state_path, topic.table_key).read()
    return {task: known[task] for task, is_on in enabled.items() if is_on and task in known}


def completed_task(commit: Mapping[str, Any]) -> tuple[MaintenanceTask, str] | None:
    """Return the maintenance task that a commit completed, and the task's result.

    None if the commit doesn't complete a maintenance task.

    Args:
        commit: a commit from the history of a table.
    """
    match commit.get("operation"):
        case "OPTIMIZE":
            return "optimize", "done"
        case "VACUUM END":
            parameters = commit.get("operationParameters")
            failed = isinstance(parameters, Mapping) and parameters.get("status") == "FAILED"
            return "vacuum", "failed" if failed else "done"
        case _:
            return None
