"""`bayou run`: run the pipeline of a configuration."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from bayou.cli.exit_on_error import FAILED, exit_on_error
from bayou.cli.output import Output, output_for
from bayou.cli.output.interface import ReaderClosedError, ResilientReporter
from bayou.cli.shared_arguments import (
    AsJson,
    Config,
    Settings,
    load_topics,
    table_differences_warning,
    unseen_fields_warning,
    unseen_masks_warning,
    with_topic,
)
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


def run(
    config: Config,
    once: Annotated[
        bool, typer.Option("--once", help="Ingest the records that exist now, then exit.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run all topics until stopped. With --once, exit when all existing records are ingested.

    Example:
        bayou run pipeline.yaml --once
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        configuration = load_topics(config, settings)
        for notice in configuration.notices:
            output.notice(notice.text)
        configuration.check_runnable()

        from bayou.ingest.monitoring import Listeners, monitored
        from bayou.ingest.runtime.pipeline import run_pipeline

        stop, reader_closed = threading.Event(), threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())

        def end_run() -> None:
            reader_closed.set()
            stop.set()

        with monitored(configuration, watch=output.is_live and not once) as monitor:
            if monitor.url is not None:
                output.notice(f"status page: {monitor.url}")
            with output.run() if once else output.watch(monitor) as progress:
                reporters: tuple[Reporter, ...] = (_ErrorReporter(output),)
                if progress is not monitor.store:
                    reporters = (progress, *reporters)
                listeners = (ResilientReporter(reporter, end_run) for reporter in reporters)
                summaries = run_pipeline(
                    configuration,
                    once=once,
                    reporter=Listeners(monitor.store, *listeners),
                    stop=stop,
                )
        if reader_closed.is_set():
            raise ReaderClosedError
        if any(summary.error is not None for summary in summaries):
            raise typer.Exit(FAILED)


class _ErrorReporter:
    """A `Reporter` that prints the errors that stop topics.

    An error that stops several topics, such as unreachable brokers, is printed once. If the same
    error stops a topic again after a restart, it is printed again.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._printed: dict[str, str] = {}  # error messages by topic

    def topic_started(self, event: TopicStarted) -> None:
        self._printed.pop(event.topic, None)
        if event.unseen_masks:
            self._output.notice(with_topic(event.topic, unseen_masks_warning(event.unseen_masks)))
        if event.unseen_fields:
            self._output.notice(with_topic(event.topic, unseen_fields_warning(event.unseen_fields)))
        if event.table_differences:
            notice = table_differences_warning(event.table_differences, changed=event.table_changed)
            self._output.notice(with_topic(event.topic, notice))

    def batch_committed(self, event: BatchReport) -> None:
        """Print nothing: a commit isn't an error."""

    def attempt_failed(self, event: AttemptFailed) -> None:
        """Print nothing: the attempt is retried, and the progress display shows it."""

    def records_lost(self, event: RecordsLost) -> None:
        """Print nothing: the configuration allows lost records.

        The progress display shows the lost records.
        """

    def migrated(self, event: MigrationReport) -> None:
        """Print nothing: a migration isn't an error."""

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        """Print nothing: a failed maintenance task loses no rows.

        `bayou status` and the log show the error of the task.
        """

    def topic_finished(self, event: TopicSummary) -> None:
        if event.error is not None and event.error.message not in self._printed.values():
            self._printed[event.topic] = event.error.message
            self._output.error(event.error.message, kind=type(event.error).__name__)
