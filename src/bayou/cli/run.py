"""`bayou run`: the pipeline of a configuration."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, Config, Settings, of_topic, told_unseen
from bayou.cli.exit_codes import FAILED, explained
from bayou.cli.output import Output, output_for
from bayou.cli.output.interface import Unheard, UnreadError
from bayou.ingest.events import (
    AttemptFailed,
    BatchReport,
    MaintenanceReport,
    MigrationReport,
    RecordsLost,
    Reporter,
    TopicStarted,
    TopicSummary,
)

__all__ = ["run"]


def run(
    config: Config,
    once: Annotated[
        bool, typer.Option("--once", help="Take in what is there now, then end.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run every topic until stopped, or with --once until drained."""
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.config import load_configuration

        configuration = load_configuration(config, settings=settings or ())
        for notice in configuration.notices:
            output.notice(notice.text)
        configuration.check_runnable()

        from bayou.ingest.monitoring import Listeners, monitored
        from bayou.ingest.runtime.pipeline import run_pipeline

        stop, unread = threading.Event(), threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())

        def nobody_reads() -> None:
            unread.set()
            stop.set()

        with monitored(configuration, watch=output.is_live and not once) as monitor:
            if monitor.url is not None:
                output.notice(f"status page: {monitor.url}")
            with output.run() if once else output.watch(monitor) as shown:
                told: tuple[Reporter, ...] = (_Complaints(output),)
                if shown is not monitor.store:
                    told = (shown, *told)
                heard = (Unheard(listener, nobody_reads) for listener in told)
                summaries = run_pipeline(
                    configuration, once=once, reporter=Listeners(monitor.store, *heard), stop=stop
                )
        if unread.is_set():
            raise UnreadError
        if any(summary.error is not None for summary in summaries):
            raise typer.Exit(FAILED)


class _Complaints:
    """Says at once why a topic stopped, for others may go on for days; implements `Reporter`.

    What stops several topics alike, such as brokers that don't answer, is said once; and what stops
    one again, when it has been read in between.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._told: dict[str, str] = {}  # by topic

    def topic_started(self, event: TopicStarted) -> None:
        self._told.pop(event.topic, None)
        if event.unseen_masks:
            self._output.notice(of_topic(event.topic, told_unseen(event.unseen_masks)))

    def batch_committed(self, event: BatchReport) -> None:
        """Nothing to complain about."""

    def attempt_failed(self, event: AttemptFailed) -> None:
        """It goes on; the progress says it."""

    def records_lost(self, event: RecordsLost) -> None:
        """It is meant; the progress says it."""

    def migrated(self, event: MigrationReport) -> None:
        """Nothing to complain about."""

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        """The table is complete without it; status and log say it."""

    def topic_finished(self, event: TopicSummary) -> None:
        if event.error is not None and event.error.message not in self._told.values():
            self._told[event.topic] = event.error.message
            self._output.error(event.error.message, kind=type(event.error).__name__)
