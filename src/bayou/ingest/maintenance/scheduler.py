"""Schedules the maintenance tasks of a topic's table and runs them in a background thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from bayou.api import TableHandle
from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.errors import BayouError, PipelineError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import deleted_keys_path
from bayou.ingest.events import BatchReport, MaintenanceReport, MaintenanceTask, Reporter
from bayou.ingest.maintenance.last_run import LastRuns, completed_task
from bayou.ingest.maintenance.steps import maintain_table
from bayou.ingest.upsert import DeletedKeys
from bayou.version import ENGINE_INFO

_MAX_INTERVALS = 20
"""Factor that extends the compaction and optimize intervals while Kafka has unread records."""

_MAX_BYTES_WITHOUT_SPARK = 256 * 1024 * 1024
"""Maximum size in bytes of a table that is maintained in this process instead of on executors.

This is also the default of the Spark conf `bayou.optimize.localBytes`.
"""

_VACUUM_INTERVAL = 24 * 3600.0
_HISTORY_LIMIT = 200


class TopicMaintenance:
    """The maintenance of one table; several topics may share the table.

    `count_batch` counts the records of batches, and `poll` starts the tasks that are due. Tasks run
    while batches append, because appends don't conflict with maintenance. Upserts rewrite files, so
    a batch that upserts only runs between two steps of a task.

    Args:
        batches: the lock that a batch holds while it changes the table.
        interval: seconds between scheduled runs; None if there is no schedule.
        last_runs: stores the results of tasks for `bayou status`.
        slots: semaphore that limits the number of concurrent tasks of all topics; None for no
            limit.
    """

    def __init__(
        self,
        topic: Topic,
        storage_options: Mapping[str, str],
        reporter: Reporter,
        *,
        batches: threading.Lock,
        interval: float | None,
        last_runs: LastRuns,
        slots: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._topic = topic
        self._last_runs = last_runs
        self._delta = topic.config.destination.delta_config
        self._storage_options = dict(storage_options)
        self._reporter = reporter
        self._batches = batches
        self._is_upsert = topic.upsert_keys is not None
        self._interval = interval
        self._slots = nullcontext() if slots is None else slots
        self._spark: SparkSession | None = None
        self._next_run = None if interval is None else time.monotonic() + interval
        self._compacted = self._optimized = 0
        self._counting = threading.Lock()  # several topics may count at the same time
        self._since = 0  # 0: the first compaction includes files of earlier processes
        self._last_batch = 0
        self._failed: set[str] = {
            task for task, run in last_runs.read().items() if run.result == "failed"
        }
        self._behind = False
        self._left = False
        self._stopped = threading.Event()
        self._task: BackgroundTask | None = None
        self._last_vacuum: float | None = None
        self._last_keys_vacuum = 0.0
        for task in self._failed:
            self._retry_next_time(task)

    def use_executors(self, spark: SparkSession) -> None:
        """Set the session whose executors run the tasks of large tables from now on."""
        self._spark = spark

    def count_batch(self, report: BatchReport, *, is_behind: bool) -> None:
        """Count the records of a committed batch.

        Args:
            is_behind: whether Kafka probably has more records to read. If so, `compaction-interval`
                and `optimize-interval` are multiplied by `_MAX_INTERVALS`, so that the pipeline
                catches up first.
        """
        with self._counting:
            self._compacted += report.records - report.filtered
            self._optimized += report.records - report.filtered
        self._behind = is_behind
        self._last_batch = _now() - round(report.seconds * 1000)

    def poll(self) -> None:
        """Start the tasks that are due, in the background, unless tasks are already running."""
        if self._stopped.is_set() or (self._task is not None and self._task.is_running):
            return
        self._task = None
        tasks = self._due(by_clock=self._is_scheduled_now())
        if tasks:
            self._task = BackgroundTask(lambda: self._run(tasks, final=False))

    def complete(self) -> None:
        """Run the tasks that are due, in the calling thread, at the end of a run."""
        if self._task is not None:
            self._task.finish()
        self._behind = False
        if not self._stopped.is_set() and (tasks := self._due_at_end()):
            self._run(tasks, final=True)

    def needs_spark(self) -> bool:
        """Whether `complete` would run tasks of a table that is too large for this process.

        Must be called at the end of a run, when no batch follows.
        """
        self._behind = False
        tasks = set(self._due_at_end()) - {"forget"}
        if not tasks:
            return False
        table = open_table(self._topic.table_path, self._storage_options)
        try:
            if "vacuum" in tasks and not self._vacuum_is_due(table):
                tasks.remove("vacuum")
            if not tasks or not table.exists():
                return False
            return table.detail().size_in_bytes > _MAX_BYTES_WITHOUT_SPARK
        except Exception:  # noqa: BLE001  # the task reports the error
            return True

    def stop(self) -> None:
        """Stop the maintenance: wait for the end of the current step, and run no further steps."""
        self._stopped.set()
        if self._task is not None:
            self._task.finish()

    def _is_scheduled_now(self) -> bool:
        if self._next_run is None or self._interval is None or time.monotonic() < self._next_run:
            return False
        self._next_run = time.monotonic() + self._interval
        return True

    def _due_at_end(self) -> list[MaintenanceTask]:
        return self._due(by_clock=self._interval is not None or self._left)

    def _due(self, *, by_clock: bool) -> list[MaintenanceTask]:
        delta = self._delta
        tasks: list[MaintenanceTask] = []
        if delta.enable_optimize and self._is_due(
            self._optimized, delta.optimize_interval, by_clock
        ):
            tasks.append("optimize")
        elif delta.enable_compaction and self._is_due(
            self._compacted, delta.compaction_interval, by_clock
        ):
            tasks.append("compaction")
        if delta.enable_vacuum and by_clock:
            tasks.append("vacuum")
        if by_clock and self._is_upsert:
            tasks.append("forget")
        return tasks

    def _is_due(self, records: int, interval: int | None, by_clock: bool) -> bool:
        if by_clock and (records or self._left):
            return True
        if interval is None or records < interval:
            return False
        return not self._behind or records >= _MAX_INTERVALS * interval

    def _run(self, tasks: list[MaintenanceTask], *, final: bool) -> None:
        for task in tasks:
            if self._stopped.is_set():
                return
            began = time.time()
            try:
                with self._slots:
                    report = self._maintain(task, final=final)
            except Exception as error:  # noqa: BLE001  # the topic continues after any failure
                self._retry_next_time(task)
                report = MaintenanceReport(
                    topic=self._topic.key,
                    task=task,
                    table_path=self._topic.table_path,
                    started=began,
                    seconds=time.time() - began,
                    result="failed",
                    error=PipelineError(
                        f"{task}: {type(error).__name__}: {error}", topic=self._topic.key
                    ),
                )
            if report is not None and self._is_reported(report):
                self._last_runs.keep(report)
                self._reporter.maintenance_finished(report)

    def _is_reported(self, report: MaintenanceReport) -> bool:
        """Return whether to report the result of a task, and store whether the task failed.

        The result is reported unless all of these conditions are true:

        - The result is `nothing`.
        - The previous run of the task didn't fail.
        - The task is `forget`, or table partitions remain for the next run of the task.
        """
        failed_before = report.task in self._failed
        if report.error is not None:
            self._failed.add(report.task)
        else:
            self._failed.discard(report.task)
        is_quiet = report.result == "nothing" and (report.left > 0 or report.task == "forget")
        return failed_before or not is_quiet

    def _retry_next_time(self, task: str) -> None:
        """Make a failed task due at the next scheduled run, even if there are no new records."""
        if task == "vacuum":
            self._last_vacuum = 0.0
        elif task == "forget":
            self._last_keys_vacuum = 0.0
        else:
            self._left = True

    def _maintain(self, task: MaintenanceTask, *, final: bool) -> MaintenanceReport | None:
        """Run a task and return its report; None if the task isn't due.

        For an upsert, the task then also runs for the table of deleted keys. If it fails for this
        table, the report of the failure is returned instead.

        Args:
            final: whether the run has ended, so that no more batches are written.
        """
        if task == "forget":
            return self._forget(final=final)
        # Leave partitions to which batches still write for the next run. That run includes them,
        # because it looks for partitions that were written at or after `cold_before`.
        cold_before = _now() if final else self._last_batch
        handle = open_table(self._topic.table_path, self._storage_options)
        if task == "vacuum":
            if not self._vacuum_is_due(handle):
                return None
            self._last_vacuum = time.time()
        else:
            self._compacted = 0
            if task == "optimize":
                self._optimized = 0
        alone: Callable[[], AbstractContextManager[Any]] = nullcontext
        if self._is_upsert and not final:
            alone = self._between_batches
        report = maintain_table(
            self._topic.key,
            handle,
            task,
            spark=self._spark,
            storage_options=self._storage_options,
            retention_hours=self._delta.vacuum_retention_hours,
            z_order_by=self._delta.z_order_by,
            written_since=self._since,
            cold_before=None if final else cold_before,
            stopped=self._stopped.is_set,
            step_lock=alone,
        )
        if task != "vacuum":
            self._left = report.left > 0
            if report.error is None:
                self._since = cold_before
        deleted_keys = open_table(deleted_keys_path(self._topic.table_path), self._storage_options)
        if report.error is None and self._is_upsert and deleted_keys.exists():
            # Every batch with deletes adds a file to this table. Only failures are reported.
            keys_report = maintain_table(
                self._topic.key, deleted_keys, task, stopped=self._stopped.is_set, step_lock=alone
            )
            report = report if keys_report.error is None else keys_report
        if report.error is not None:
            self._retry_next_time(task)
        return report

    def _forget(self, *, final: bool) -> MaintenanceReport | None:
        """Remove deleted keys that exceed their retention; vacuum the table of deleted keys daily.

        The vacuum runs even without `enable-vacuum`. The result is None if there is no table of
        deleted keys.

        Args:
            final: whether the run has ended, so that no more batches are written.
        """
        keys, path = self._topic.upsert_keys, self._topic.table_path
        table = open_table(deleted_keys_path(path), self._storage_options)
        if keys is None or not table.exists():
            return None
        began = time.time()
        deleted_keys = DeletedKeys(
            for_path(path, self._storage_options), path, keys, engine_info=ENGINE_INFO
        )
        retention = timedelta(hours=self._delta.deleted_keys_retention_hours)
        with nullcontext() if final else self._between_batches():
            count = deleted_keys.forget(retention)
        report = MaintenanceReport(
            topic=self._topic.key,
            task="forget",
            table_path=table.table_uri,
            started=began,
            seconds=time.time() - began,
            result="done" if count else "nothing",
            keys=count,
        )
        if began - self._last_keys_vacuum >= _VACUUM_INTERVAL:
            self._last_keys_vacuum = began
            vacuumed = maintain_table(self._topic.key, table, "vacuum")
            if vacuumed.error is not None:
                self._retry_next_time("forget")
                return replace(report, result="failed", error=vacuumed.error)
        return report

    def _between_batches(self) -> AbstractContextManager[Any]:
        return self._batches

    def _vacuum_is_due(self, handle: TableHandle) -> bool:
        """Whether a day has passed since the last vacuum.

        If this object hasn't vacuumed yet, the last vacuum in the table's history counts.
        """
        now = time.time()
        if self._last_vacuum is None:
            try:
                commits = handle.history(_HISTORY_LIMIT) if handle.exists() else []
            except BayouError:
                return True  # due, so that the vacuum reports the error
            vacuums = [c for c in commits if completed_task(c) == ("vacuum", "done")]
            if not vacuums and len(commits) == _HISTORY_LIMIT:
                return True  # unknown: no vacuum is among the newest commits
            last = (vacuums or commits[-1:])[:1]
            timestamp = last[0].get("timestamp") if last else None
            self._last_vacuum = now if timestamp is None else _seconds(timestamp)
        # `abs`, because the time of the last vacuum is in the future if a clock was ahead.
        return abs(now - self._last_vacuum) >= _VACUUM_INTERVAL


def _seconds(timestamp: object) -> float:
    to_seconds = getattr(timestamp, "timestamp", None)
    if callable(to_seconds):
        return float(to_seconds())
    return float(timestamp) / 1000  # type: ignore[arg-type]


def _now() -> int:
    return time.time_ns() // 1_000_000
