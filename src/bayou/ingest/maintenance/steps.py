"""What maintenance does to a table, in steps between which a pipeline may go first.

What became of a topic's maintenance the last time, kept in the state path for `bayou status`.

Whether a vacuum keeps files as long as the table promises its readers.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from bayou.api import TableHandle
from bayou.api import table as open_table
from bayou.errors import CommitConflictError, ConfigurationError, StorageError
from bayou.ingest.background_task import Errand
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.events import MaintenanceReport, MaintenanceTask
from bayou.ingest.maintenance.cold_partitions import SmallFiles, partitions_with_small_files
from bayou.ingest.retries import pause_before
from bayou.ingest.state import topic_folder
from bayou.ingest.topic_errors import topic_error
from bayou.protocol.properties import DELETED_FILE_RETENTION

__all__ = ["LastRun", "LastRuns", "check_retention", "last_runs", "maintain_table", "task_of"]


_SMALL = {"compaction": 32 << 20, "optimize": 128 << 20}
"""Bytes below which a file is small; a compaction leaves those alone that took a while to grow."""

_RETRIES = 3
_HOT_FILES = 50
"""A partition with so many small files is packed even while it is written."""


def maintain_table(
    topic: str,
    handle: TableHandle,
    task: MaintenanceTask,
    *,
    retention_hours: float | None = None,
    written_since: int = 0,
    cold_before: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    alone: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> MaintenanceReport:
    """Do one task.

    Args:
        topic: for the report.
        handle: the table.
        retention_hours: of a vacuum; None: the table's.
        written_since: a compaction looks at partitions that were written since, ms since the epoch.
        cold_before: partitions written from this time on wait, unless they have many small files;
            None: none waits.
        stopped: asked between steps; what is left waits for the next time.
        alone: what each step that rewrites files holds while it works.

    Returns:
        What was done; an error is in the report.
    """
    began = time.time()
    report = MaintenanceReport(topic=topic, task=task, table_path=handle.path, started=began)
    try:
        if task == "vacuum":
            # Not alone: it takes as long as listing does, and no commit stands in its way.
            metrics = handle.vacuum(retention_hours)
            deleted = metrics.num_deleted_files
            report = replace(report, files_removed=deleted, result="done" if deleted else "nothing")
        else:
            partitions = partitions_with_small_files(
                handle.snapshot(),
                small=_SMALL[task],
                written_since=written_since if task == "compaction" else 0,
            )
            cold = _cold(partitions, cold_before)
            report = replace(report, left=len(partitions) - len(cold))
            report = _packed(report, handle, cold, stopped=stopped, alone=alone)
    except Exception as fault:  # noqa: BLE001  # a table ends no maintenance of the others
        report = replace(report, result="failed", error=topic_error(fault, topic))
    return replace(report, seconds=time.time() - began)


def _cold(partitions: Sequence[SmallFiles], cold_before: int | None) -> list[SmallFiles]:
    if cold_before is None:
        return list(partitions)
    return [p for p in partitions if p.newest < cold_before or p.files >= _HOT_FILES]


def _packed(
    report: MaintenanceReport,
    handle: TableHandle,
    partitions: Sequence[SmallFiles],
    *,
    stopped: Callable[[], bool],
    alone: Callable[[], AbstractContextManager[Any]],
) -> MaintenanceReport:
    """A step a partition, each a commit; an error ends them, what is committed is reported."""
    for number, partition in enumerate(partitions):
        left = report.left + len(partitions) - number
        if stopped():
            return replace(report, left=left)
        try:
            with alone():
                metrics = _optimized(handle, partition, _SMALL[report.task])
        except Exception as fault:  # noqa: BLE001  # what is committed is reported
            error = topic_error(fault, report.topic)
            return replace(report, result="failed", error=error, left=left)
        if metrics.version is not None:
            report = replace(
                report,
                result="done",
                version=metrics.version,
                files_added=report.files_added + metrics.num_files_added,
                files_removed=report.files_removed + metrics.num_files_removed,
            )
    return report


def _optimized(handle: TableHandle, partition: SmallFiles, small: int) -> Any:
    """Repeated where another writer changed the same files."""
    attempt = 0
    while True:
        try:
            return handle.optimize(partition.where, min_size=small)
        except CommitConflictError:
            attempt += 1
            if attempt > _RETRIES:
                raise
            time.sleep(pause_before(attempt))


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


_HOUR = 3_600_000
_PATIENCE = 10.0


def check_retention(configuration: Configuration) -> None:
    """Refuse a retention that is shorter than the table's own; tables are opened for it.

    Raises:
        ConfigurationError: names the topics; a table that isn't there yet has the default.
        BayouError: a table can't be opened, or its store takes more than ten seconds to answer.
    """
    problems: list[str] = []

    def look() -> None:
        for topic in configuration.topics:
            problem = _problem(configuration, topic)
            if problem is not None:
                problems.append(problem)

    errand = Errand(look)
    if not errand.wait(_PATIENCE):
        raise StorageError("the store doesn't answer", path=configuration.topics[0].table_path)
    errand.finish()
    if problems:
        raise ConfigurationError("\n".join(problems), file=configuration.file)


def _problem(configuration: Configuration, topic: Topic) -> str | None:
    delta = topic.config.destination.delta_config
    hours = delta.vacuum_retention_hours
    if hours is None or not delta.enable_vacuum:
        return None
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    properties = handle.snapshot().properties if handle.exists() else {}
    own = DELETED_FILE_RETENTION.read(properties) or 0
    if hours * _HOUR >= own:
        return None
    key = f"connector.topics.{topic.key}.destination.delta-config.vacuum-retention-hours"
    return (
        f"{configuration.file}: {key}: {hours} hours are shorter than the {own / _HOUR:g} hours "
        f"that {topic.table_path} keeps files for its readers "
        "(delta.deletedFileRetentionDuration); write that many or more, or change the table's "
        "property first"
    )
