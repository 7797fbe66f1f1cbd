"""What maintenance does to a table, in steps between which a pipeline may go first."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from bayou.api import TableHandle
from bayou.errors import CommitConflictError
from bayou.ingest.events import MaintenanceReport, MaintenanceTask
from bayou.ingest.maintenance.cold_partitions import SmallFiles, partitions_with_small_files
from bayou.ingest.retries import pause_before
from bayou.ingest.topic_errors import topic_error

__all__ = ["maintain_table"]

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
