"""Runs maintenance tasks in steps. A pipeline can commit batches between two steps.

`check_retention` compares `vacuum-retention-hours` with the tables' retention.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from bayou.api import TableHandle
from bayou.api import table as open_table
from bayou.errors import CommitConflictError, ConfigurationError, StorageError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.events import MaintenanceReport, MaintenanceTask
from bayou.ingest.maintenance.cold_partitions import SmallFiles, partitions_with_small_files
from bayou.ingest.maintenance.table_commands import TableCommands, table_commands
from bayou.ingest.retries import retry_delay
from bayou.ingest.topic_errors import topic_error
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.protocol.properties import DELETED_FILE_RETENTION

_SMALL = {"compaction": 32 << 20, "optimize": 128 << 20}
"""For each task, the size in bytes below which a file is small and is rewritten.

The limit of `compaction` is lower, so that this task doesn't rewrite medium-sized files.
"""

_RETRIES = 3
_HOT_FILES = 50
"""Minimum number of small files for compacting a partition even while batches write to it."""


def maintain_table(
    topic: str,
    handle: TableHandle,
    task: MaintenanceTask,
    *,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
    retention_hours: float | None = None,
    z_order_by: Sequence[str] = (),
    written_since: int = 0,
    cold_before: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    step_lock: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> MaintenanceReport:
    """Run one maintenance task of a table. An error is returned in the report instead of raised.

    Args:
        topic: the topic's key, for the report.
        spark: the session whose executors rewrite and delete the files of large tables; None to do
            all work in this process.
        storage_options: options of the table's store; only needed if `spark` is set.
        z_order_by: columns by which `optimize` sorts the rows of a partition. If empty, `optimize`
            only compacts files.
        retention_hours: retention of `vacuum` in hours; None for the retention in the table's
            properties.
        written_since: `compaction` skips partitions without files that were written at or after
            this time, in ms since the epoch.
        cold_before: a partition with a file that was written at or after this time, in ms since the
            epoch, is skipped, because batches still write to it. A partition with at least 50 small
            files isn't skipped. If None, no partition is skipped for this reason.
        stopped: function that is called before each step. If the function returns True, the task
            ends early.
        step_lock: function that is called before each step that rewrites files. The step runs in
            the context manager that the function returns.
    """
    began = time.time()
    report = MaintenanceReport(topic=topic, task=task, table_path=handle.table_uri, started=began)
    try:
        commands = table_commands(handle, storage_options or {}, spark)
        if task == "vacuum":
            # Without `step_lock`, because listing files takes long and doesn't conflict with
            # commits.
            metrics = commands.vacuum(retention_hours)
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
            columns = z_order_by if task == "optimize" else ()
            report = _compact(report, commands, columns, cold, stopped=stopped, step_lock=step_lock)
    except Exception as error:  # noqa: BLE001  # a failure doesn't stop maintenance of other tables
        report = replace(report, result="failed", error=topic_error(error, topic))
    return replace(report, seconds=time.time() - began)


def _cold(partitions: Sequence[SmallFiles], cold_before: int | None) -> list[SmallFiles]:
    if cold_before is None:
        return list(partitions)
    return [p for p in partitions if p.newest < cold_before or p.files >= _HOT_FILES]


def _compact(
    report: MaintenanceReport,
    commands: TableCommands,
    z_order_by: Sequence[str],
    partitions: Sequence[SmallFiles],
    *,
    stopped: Callable[[], bool],
    step_lock: Callable[[], AbstractContextManager[Any]],
) -> MaintenanceReport:
    """Compact or sort partitions, each in its own commit; return `report` with the results.

    After an error, the report has the error, and the results of the partitions that were committed
    before it.
    """
    for number, partition in enumerate(partitions):
        left = report.left + len(partitions) - number
        if stopped():
            return replace(report, left=left)
        try:
            with step_lock():
                metrics = _optimize(commands, z_order_by, partition, _SMALL[report.task])
        except Exception as fault:  # noqa: BLE001  # committed partitions are reported
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


def _optimize(
    commands: TableCommands, z_order_by: Sequence[str], partition: SmallFiles, small: int
) -> OptimizeMetrics:
    """Compact or sort a partition; retry after conflicts with other writers."""
    attempt = 0
    while True:
        try:
            if z_order_by:
                return commands.zorder(z_order_by, partition.where)
            return commands.optimize(partition.where, small)
        except CommitConflictError:
            attempt += 1
            if attempt > _RETRIES:
                raise
            time.sleep(retry_delay(attempt))


_HOUR = 3_600_000
_TIMEOUT = 10.0


def check_retention(configuration: Configuration) -> None:
    """Check for each topic that `vacuum-retention-hours` isn't shorter than the table's retention.

    A table that doesn't exist yet has the default retention. The setting isn't checked without
    `enable-vacuum`.

    Raises:
        ConfigurationError: the setting of a topic is too short.
        BayouError: a table can't be opened, or its store doesn't answer within ten seconds.
    """
    problems: list[str] = []

    def check() -> None:
        for topic in configuration.topics:
            problem = _problem(configuration, topic)
            if problem is not None:
                problems.append(problem)

    task = BackgroundTask(check)
    if not task.wait(_TIMEOUT):
        raise StorageError("the store doesn't answer", path=configuration.topics[0].table_path)
    task.finish()
    if problems:
        raise ConfigurationError("\n".join(problems), file=configuration.file)


def _problem(configuration: Configuration, topic: Topic) -> str | None:
    delta = topic.config.destination.delta_config
    hours = delta.vacuum_retention_hours
    if hours is None or not delta.enable_vacuum:
        return None
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    properties = handle.snapshot().properties if handle.exists() else {}
    retention = DELETED_FILE_RETENTION.read(properties) or 0
    if hours * _HOUR >= retention:
        return None
    key = f"connector.topics.{topic.section}.destination.delta-config.vacuum-retention-hours"
    return (
        f"{configuration.file}: {key}: {hours} hours are shorter than the retention of "
        f"{topic.table_path}, {retention / _HOUR:g} hours (delta.deletedFileRetentionDuration); "
        "write at least that many hours, or change the table's property first"
    )
