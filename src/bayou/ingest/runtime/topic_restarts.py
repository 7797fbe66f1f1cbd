"""Restarts topics that stopped with a transient error, while other topics run.

A new `TopicRun` replaces the finished run. The new run reads the offsets from brokers and tables,
in the same way as after a restart of the process. If no offsets are committed yet, the new run has
the same start offsets as the finished run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.config import Topic
from bayou.ingest.events import TopicSummary
from bayou.ingest.runtime.topic_run import TopicRun


class TopicRestarts:
    """Stores when stopped topics are restarted, and prepares their new runs in the background."""

    def __init__(self, new_run: Callable[[Topic, TopicRun | None], TopicRun]) -> None:
        self._new_run = new_run
        self._stopped: dict[str, _Stopped] = {}
        self._preparations: dict[str, _Preparation] = {}
        self._before: dict[str, TopicSummary] = {}

    def finish_run(self, run: TopicRun, *, may_restart: bool) -> None:
        """Finish and report a run.

        Args:
            may_restart: whether a restart is scheduled if the run ended with a transient error.
        """
        summary = run.finish(restart=may_restart)
        if summary.restart is not None:
            due = time.monotonic() + summary.restart
            self._stopped[summary.topic] = _Stopped(summary=summary, run=run, due=due)

    def ready(self) -> list[TopicRun]:
        """Return the new runs that are prepared and can be started.

        Doesn't block. If a restart is due, its run is prepared in the background, and a later call
        returns the run.
        """
        now = time.monotonic()
        for key, stopped in list(self._stopped.items()):
            if stopped.due <= now:
                del self._stopped[key]
                run = self._new_run(stopped.run.topic, stopped.run)
                self._before[key] = self.total_summary(stopped.summary)
                task = BackgroundTask(partial(run.prepare, once=False))
                self._preparations[key] = _Preparation(run=run, task=task)
        ready = []
        for key, preparation in list(self._preparations.items()):
            if not preparation.task.is_running:
                del self._preparations[key]
                preparation.task.finish()
                if preparation.run.has_work:
                    ready.append(preparation.run)
                else:
                    self.finish_run(preparation.run, may_restart=True)
        return ready

    def cancel(self, topic: str) -> bool:
        """Cancel the restart of a topic. Return False if its new run is already being prepared."""
        if topic in self._preparations:
            return False
        self._stopped.pop(topic, None)
        return True

    def end(self) -> None:
        """Wait until all runs in preparation are prepared, and abandon these runs."""
        for preparation in self._preparations.values():
            preparation.task.finish()
            preparation.run.abandon()

    def total_summary(self, last: TopicSummary) -> TopicSummary:
        """Return the sum of the summaries of all runs of a topic.

        Args:
            last: the summary of the topic's last run.
        """
        before = self._before.get(last.topic)
        if before is None:
            return last
        return replace(
            last,
            rows=before.rows + last.rows,
            dead_letters=before.dead_letters + last.dead_letters,
            filtered=before.filtered + last.filtered,
            commits=before.commits + last.commits,
            version=before.version if last.version is None else last.version,
            seconds=before.seconds + last.seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stopped:
    summary: TopicSummary
    run: TopicRun
    due: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preparation:
    run: TopicRun
    task: BackgroundTask
