"""Topics that were stopped by what may pass, begun again while others go on.

A run of a topic that has told its end isn't revived: a new one asks broker and tables where things
stand, as it would in a process that was started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from bayou.ingest.background_task import Errand
from bayou.ingest.config import Topic
from bayou.ingest.events import TopicSummary
from bayou.ingest.runtime.topic_run import TopicRun

__all__ = ["Restarts"]


class Restarts:
    """Remembers topics that stopped, and prepares another run of each when its time has come.

    Args:
        another: makes another run of a topic.
    """

    def __init__(self, another: Callable[[Topic], TopicRun]) -> None:
        self._another = another
        self._stopped: dict[str, _Stopped] = {}
        self._preparations: dict[str, _Preparation] = {}
        self._before: dict[str, TopicSummary] = {}

    def stopped(self, run: TopicRun, *, others: bool) -> None:
        """A run has come to its end, which is told.

        Args:
            others: others go on, so another run of its topic may follow.
        """
        summary = run.finish(restart=others)
        if summary.restart is not None:
            due = time.monotonic() + summary.restart
            self._stopped[summary.topic] = _Stopped(summary=summary, run=run, due=due)

    def ready(self) -> list[TopicRun]:
        """Runs that are prepared and may begin, each given once; waits for nothing."""
        now = time.monotonic()
        for key, stopped in list(self._stopped.items()):
            if stopped.due <= now:
                del self._stopped[key]
                run = self._another(stopped.run.topic)
                self._before[key] = self.whole(stopped.summary)
                errand = Errand(partial(run.prepare, once=False))
                self._preparations[key] = _Preparation(run=run, errand=errand)
        found = []
        for key, preparation in list(self._preparations.items()):
            if not preparation.errand.under_way:
                del self._preparations[key]
                preparation.errand.finish()
                if preparation.run.has_work:
                    found.append(preparation.run)
                else:
                    self.stopped(preparation.run, others=True)
        return found

    def end(self) -> None:
        """Wait for what is being prepared, and let go of it."""
        for preparation in self._preparations.values():
            preparation.errand.finish()
            preparation.run.abandon()

    def whole(self, last: TopicSummary) -> TopicSummary:
        """What all runs of a topic did.

        Args:
            last: of its last run.
        """
        before = self._before.get(last.topic)
        if before is None:
            return last
        return replace(
            last,
            rows=before.rows + last.rows,
            dead_letters=before.dead_letters + last.dead_letters,
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
    errand: Errand
