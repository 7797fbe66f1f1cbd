"""`bayou run`: the pipeline of a configuration."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, Config, Settings
from bayou.cli.exits import FAILED, explained
from bayou.cli.output import output_for

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

        from bayou.ingest.pipeline import run_pipeline

        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        with output.run() as reporter:
            summaries = run_pipeline(configuration, once=once, reporter=reporter, stop=stop)
        failed = [s for s in summaries if s.error is not None]
        for summary in failed:
            assert summary.error is not None
            output.error(summary.error.message, kind=type(summary.error).__name__)
        if failed:
            raise typer.Exit(FAILED)
