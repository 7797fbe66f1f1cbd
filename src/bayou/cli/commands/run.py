"""`bayou run`: run the pipeline of a configuration."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, Config, Settings, unseen_masks_warning, with_topic
from bayou.cli.exit_codes import FAILED, exit_on_error
from bayou.cli.output import Output, output_for
from bayou.cli.output.interface import ReaderClosedError, ResilientReporter
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
        bool, typer.Option("--once", help="Ingest the records that exist now, then exit.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run all topics until stopped; with --once until all existing records are ingested."""
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        from bayou.ingest.config import load_configuration

        configuration = load_configuration(config, settings=settings or ())
        for notice in configuration.notices:
            output.notice(notice.text)
        configuration.check_runnable()

        from bayou.ingest.monitoring import Listeners, monitored
        from bayou.ingest.runtime.pipeline import run_pipeline

        stop, unread = threading.Event(), threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())

        def stop_unread() -> None:
            unread.set()
            stop.set()

        with monitored(configuration, watch=output.is_live and not once) as monitor:
            if monitor.url is not None:
                output.notice(f"status page: {monitor.url}")
            with output.run() if once else output.watch(monitor) as progress:
                reporters: tuple[Reporter, ...] = (_ErrorReporter(output),)
                if progress is not monitor.store:
                    reporters = (progress, *reporters)
                listeners = (ResilientReporter(reporter, stop_unread) for reporter in reporters)
                summaries = run_pipeline(
                    configuration,
                    once=once,
                    reporter=Listeners(monitor.store, *listeners),
                    stop=stop,
                )
        if unread.is_set():
            raise ReaderClosedError
        if any(summary.error is not None for summary in summaries):
            raise typer.Exit(FAILED)


class _ErrorReporter:
    """A `Reporter` that prints the error of a topic when it stops, while other topics continue.

    An error that stops several topics, such as unreachable brokers, is printed once. It is printed
    again if a topic restarts and stops with it again.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._printed: dict[str, str] = {}  # error messages by topic

    def topic_started(self, event: TopicStarted) -> None:
        self._printed.pop(event.topic, None)
        if event.unseen_masks:
            self._output.notice(with_topic(event.topic, unseen_masks_warning(event.unseen_masks)))

    def batch_committed(self, event: BatchReport) -> None:
        """Not an error."""

    def attempt_failed(self, event: AttemptFailed) -> None:
        """Not an error: the attempt is retried, and the progress shows it."""

    def records_lost(self, event: RecordsLost) -> None:
        """Not an error: the configuration allows it, and the progress shows it."""

    def migrated(self, event: MigrationReport) -> None:
        """Not an error."""

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        """Not printed: the table is complete without maintenance; status and log show errors."""

    def topic_finished(self, event: TopicSummary) -> None:
        if event.error is not None and event.error.message not in self._printed.values():
            self._printed[event.topic] = event.error.message
            self._output.error(event.error.message, kind=type(event.error).__name__)
