"""Pipelines that run in a thread of the test, and what they report."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from bayou.ingest.runtime.pipeline import run_pipeline
from support.waiting import wait_until


@dataclass
class Recorder:
    """A reporter that remembers."""

    started: list = field(default_factory=list)
    batches: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    lost: list = field(default_factory=list)
    maintained: list = field(default_factory=list)
    migrations: list = field(default_factory=list)
    finished: list = field(default_factory=list)

    def topic_started(self, event):
        self.started.append(event)

    def batch_committed(self, event):
        self.batches.append(event)

    def attempt_failed(self, event):
        self.failures.append(event)

    def records_lost(self, event):
        self.lost.append(event)

    def migrated(self, event):
        self.migrations.append(event)

    def maintenance_finished(self, event):
        self.maintained.append(event)

    def topic_finished(self, event):
        self.finished.append(event)


class Running:
    """A pipeline that runs in a thread; what it reports is in `recorder`."""

    def __init__(self, configuration, spark) -> None:
        self.recorder = Recorder()
        self.summaries: tuple = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(configuration, spark))
        self._thread.start()

    def topic_started(self, event):
        self.recorder.topic_started(event)

    def batch_committed(self, event):
        self.recorder.batch_committed(event)

    def attempt_failed(self, event):
        self.recorder.attempt_failed(event)

    def records_lost(self, event):
        self.recorder.records_lost(event)

    def migrated(self, event):
        self.recorder.migrated(event)

    def maintenance_finished(self, event):
        self.recorder.maintenance_finished(event)

    def topic_finished(self, event):
        self.recorder.topic_finished(event)

    def wait(self, holds, *, seconds=120):
        """Wait until something holds of the recorder."""
        wait_until(lambda: holds(self.recorder), timeout=seconds, what=self.recorder)

    def stop(self) -> Recorder:
        """Let the running batch finish; what was reported."""
        self._stop.set()
        self._thread.join(180)
        assert not self._thread.is_alive()
        return self.recorder

    def _run(self, configuration, spark):
        self.summaries = run_pipeline(
            configuration, once=False, reporter=self, stop=self._stop, spark=spark
        )
