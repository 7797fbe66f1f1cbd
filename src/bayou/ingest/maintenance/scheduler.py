"""When a topic's table is due for what, and the thread that does it beside the batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

from bayou.api import TableHandle
from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.errors import BayouError, PipelineError
from bayou.ingest.background_task import Errand
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import deleted_keys_path
from bayou.ingest.events import BatchReport, MaintenanceReport, MaintenanceTask, Reporter
from bayou.ingest.maintenance.steps import LastRuns, maintain_table, task_of
from bayou.ingest.upsert import DeletedKeys
from bayou.version import ENGINE_INFO

__all__ = ["TopicUpkeep"]

_OVERDUE = 20
"""Behind by so many intervals a table is packed although records wait."""

_BETWEEN_VACUUMS = 24 * 3600.0
_HISTORY = 200


class TopicUpkeep:
    """The maintenance of one topic's table.

    `took` counts what batches bring, `poll` begins what is due. Where rows are appended it goes
    on beside the batches, for neither stands in the other's way; an upsert rewrites files too, so
    that each step waits for the end of a batch, and a batch for the end of a step.

    Args:
        batches: held by whoever changes the table.
        every: seconds between looks by the clock; None for none.
        last_runs: what is told is kept there too.
        slots: held while a task is done, so that not all topics are maintained at once; None: they
            may be.
    """

    def __init__(
        self,
        topic: Topic,
        storage_options: Mapping[str, str],
        reporter: Reporter,
        *,
        batches: threading.Lock,
        every: float | None,
        last_runs: LastRuns,
        slots: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._topic = topic
        self._last_runs = last_runs
        self._delta = topic.config.destination.delta_config
        self._storage_options = dict(storage_options)
        self._reporter = reporter
        self._batches = batches
        self._takes_turns = topic.upsert_keys is not None
        self._every = every
        self._slots = nullcontext() if slots is None else slots
        self._next_look = None if every is None else time.monotonic() + every
        self._compacted = self._optimized = 0
        self._since = 0  # what an earlier process left is looked at once
        self._last_batch = 0
        self._failed: set[str] = {
            task for task, run in last_runs.read().items() if run.result == "failed"
        }
        self._behind = False
        self._left = False
        self._stopped = threading.Event()
        self._errand: Errand | None = None
        self._last_vacuum: float | None = None
        self._last_vacuum_of_keys = 0.0
        for task in self._failed:
            self._again(task)

    def took(self, report: BatchReport, *, more_waits: bool) -> None:
        """Count a batch.

        Args:
            more_waits: it was as large as it may be.
        """
        self._compacted += report.records
        self._optimized += report.records
        self._behind = more_waits
        self._last_batch = _now() - round(report.seconds * 1000)

    def poll(self) -> None:
        """Begin what is due, if nothing goes on."""
        if self._stopped.is_set() or (self._errand is not None and self._errand.under_way):
            return
        self._errand = None
        tasks = self._due(by_clock=self._looks())
        if tasks:
            self._errand = Errand(lambda: self._run(tasks, final=False))

    def complete(self) -> None:
        """At the end of a run that drained its topic: what is due, in this thread."""
        if self._errand is not None:
            self._errand.finish()
        self._behind = False
        by_clock = self._every is not None or self._left
        if not self._stopped.is_set() and (tasks := self._due(by_clock=by_clock)):
            self._run(tasks, final=True)

    def stop(self) -> None:
        """Finish the running step; nothing begins any more."""
        self._stopped.set()
        if self._errand is not None:
            self._errand.finish()

    def _looks(self) -> bool:
        if self._next_look is None or self._every is None or time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + self._every
        return True

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
        if by_clock and self._takes_turns:
            tasks.append("forget")
        return tasks

    def _is_due(self, records: int, interval: int | None, by_clock: bool) -> bool:
        if by_clock and (records or self._left):
            return True
        if interval is None or records < interval:
            return False
        return not self._behind or records >= _OVERDUE * interval

    def _run(self, tasks: list[MaintenanceTask], *, final: bool) -> None:
        for task in tasks:
            if self._stopped.is_set():
                return
            began = time.time()
            try:
                with self._slots:
                    report = self._maintained(task, final=final)
            except Exception as fault:  # noqa: BLE001  # whatever it is, the topic goes on
                self._again(task)
                report = MaintenanceReport(
                    topic=self._topic.key,
                    task=task,
                    table_path=self._topic.table_path,
                    started=began,
                    seconds=time.time() - began,
                    result="failed",
                    error=PipelineError(
                        f"{task}: {type(fault).__name__}: {fault}", topic=self._topic.key
                    ),
                )
            if report is not None and self._is_news(report):
                self._last_runs.keep(report)
                self._reporter.maintenance_finished(report)

    def _is_news(self, report: MaintenanceReport) -> bool:
        """Not that there was nothing to do, unless the last that was told is a failure."""
        failed_before = report.task in self._failed
        if report.error is not None:
            self._failed.add(report.task)
        else:
            self._failed.discard(report.task)
        nothing = report.result == "nothing" and (report.left > 0 or report.task == "forget")
        return failed_before or not nothing

    def _again(self, task: str) -> None:
        """It is due at the next look, though no record comes and no day goes by."""
        if task == "vacuum":
            self._last_vacuum = 0.0
        elif task == "forget":
            self._last_vacuum_of_keys = 0.0
        else:
            self._left = True

    def _maintained(self, task: MaintenanceTask, *, final: bool) -> MaintenanceReport | None:
        """None where it isn't due after all, or not worth telling."""
        if task == "forget":
            return self._forgotten(final=final)
        # Partitions that are written now are left for the next time, which has to see them.
        behind = _now() if final else self._last_batch
        handle = open_table(self._topic.table_path, self._storage_options)
        if task == "vacuum":
            if not self._vacuum_is_due(handle):
                return None
        else:
            self._compacted = 0
            if task == "optimize":
                self._optimized = 0
        alone: Callable[[], AbstractContextManager[Any]] = nullcontext
        if self._takes_turns and not final:
            alone = self._between_batches
        report = maintain_table(
            self._topic.key,
            handle,
            task,
            retention_hours=self._delta.vacuum_retention_hours,
            written_since=self._since,
            cold_before=None if final else behind,
            stopped=self._stopped.is_set,
            alone=alone,
        )
        if task != "vacuum":
            self._left = report.left > 0
            if report.error is None:
                self._since = behind
        beside = open_table(deleted_keys_path(self._topic.table_path), self._storage_options)
        if report.error is None and self._takes_turns and beside.exists():
            # Every batch with deletes adds to it. Only a failure is worth telling.
            of_keys = maintain_table(
                self._topic.key, beside, task, stopped=self._stopped.is_set, alone=alone
            )
            report = report if of_keys.error is None else of_keys
        if report.error is not None:
            self._again(task)
        return report

    def _forgotten(self, *, final: bool) -> MaintenanceReport | None:
        """Whatever the delta-config has done to the target: this table is the pipeline's own."""
        keys, path = self._topic.upsert_keys, self._topic.table_path
        beside = open_table(deleted_keys_path(path), self._storage_options)
        if keys is None or not beside.exists():
            return None
        began = time.time()
        known = DeletedKeys(
            for_path(path, self._storage_options), path, keys, engine_info=ENGINE_INFO
        )
        retention = timedelta(hours=self._delta.deleted_keys_retention_hours)
        with nullcontext() if final else self._between_batches():
            count = known.forget(retention)
        report = MaintenanceReport(
            topic=self._topic.key,
            task="forget",
            table_path=beside.path,
            started=began,
            seconds=time.time() - began,
            result="done" if count else "nothing",
            keys=count,
        )
        if began - self._last_vacuum_of_keys >= _BETWEEN_VACUUMS:
            self._last_vacuum_of_keys = began
            vacuumed = maintain_table(self._topic.key, beside, "vacuum")
            if vacuumed.error is not None:
                self._again("forget")
                return replace(report, result="failed", error=vacuumed.error)
        return report

    def _between_batches(self) -> AbstractContextManager[Any]:
        return self._batches

    def _vacuum_is_due(self, handle: TableHandle) -> bool:
        """Once a day; after a start the table's history says when it was."""
        now = time.time()
        if self._last_vacuum is None:
            try:
                commits = handle.history(_HISTORY) if handle.exists() else []
            except BayouError:
                return True  # the vacuum will say what is wrong
            vacuums = [c for c in commits if task_of(c) == ("vacuum", "done")]
            if not vacuums and len(commits) == _HISTORY:
                self._last_vacuum = now
                return True  # nobody knows: at most once in so many commits
            known = (vacuums or commits[-1:])[:1]
            stamp = known[0].get("timestamp") if known else None
            self._last_vacuum = now if stamp is None else _seconds(stamp)
        if abs(now - self._last_vacuum) < _BETWEEN_VACUUMS:  # a clock may have been far ahead
            return False
        self._last_vacuum = now
        return True


def _seconds(stamp: object) -> float:
    moment = getattr(stamp, "timestamp", None)
    return float(moment()) if callable(moment) else float(stamp) / 1000  # type: ignore[arg-type]


def _now() -> int:
    return time.time_ns() // 1_000_000
