"""`bayou run`: the pipeline of a configuration."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, Config, Settings
from bayou.cli.exits import FAILED, explained
from bayou.cli.output import Output, output_for
from bayou.ingest.progress import Reporter, TopicSummary

__all__ = ["run"]


def run(
    config: Config,
    once: Annotated[
        bool, typer.Option("--once", help="Take in what is there now, then end.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run every topic of a configuration, until stopped or with --once until all is drained."""
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.config import load_configuration

        configuration = load_configuration(config, settings=settings or ())
        for notice in configuration.notices:
            output.notice(notice.text)
        configuration.check_runnable()

        from bayou.ingest.pipeline import run_pipeline

        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        with output.run() as reporter:
            summaries = run_pipeline(
                configuration, once=once, reporter=_Telling(reporter, output), stop=stop
            )
        if any(summary.error is not None for summary in summaries):
            raise typer.Exit(FAILED)


class _Telling:
    """A reporter that also says at once why a topic stopped, for others may go on for days.

    What stops several topics alike, such as brokers that don't answer, is said once.
    """

    def __init__(self, reporter: Reporter, output: Output) -> None:
        self._output = output
        self._told: set[str] = set()
        self.topic_started = reporter.topic_started
        self.batch_committed = reporter.batch_committed
        self.maintenance_finished = reporter.maintenance_finished
        self.migrated = reporter.migrated
        self._topic_finished = reporter.topic_finished

    def topic_finished(self, event: TopicSummary) -> None:
        self._topic_finished(event)
        if event.error is not None and event.error.message not in self._told:
            self._told.add(event.error.message)
            self._output.error(event.error.message, kind=type(event.error).__name__)
