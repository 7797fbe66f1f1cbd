"""`bayou status`: where every topic stands, asked of tables and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bayou.cli.arguments import (
    AsJson,
    Config,
    OnlyTopics,
    Settings,
    named_topics,
    of_topic,
    utc_text,
)
from bayou.cli.exit_codes import FAILED, explained
from bayou.cli.output import output_for

if TYPE_CHECKING:
    from bayou.ingest.inspection import TopicStanding

__all__ = ["status"]


def status(
    config: Config,
    topic: OnlyTopics = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show where topics stand, whether a pipeline runs or not.

    Lag, freshness, dead letters, maintenance. Exit code 1 where a topic can't be looked at, or
    misses its objective.
    """
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.config import load_configuration
        from bayou.ingest.inspection import topic_standings

        configuration = load_configuration(config, settings=settings or ())
        configuration.check_runnable()
        standings = topic_standings(configuration, named_topics(configuration, topic))
        shown = [_for_machines(s) if as_json else _for_people(s) for s in standings]
        output.rows("", shown, event="topic_status")
        for standing in standings:
            if standing.error is not None:
                output.error(of_topic(standing.topic, standing.error), kind="TopicError")
            for task, run in standing.maintenance.items():
                if run.reason is not None:
                    failed = f"{task} failed at {utc_text(run.at)}: {run.reason}"
                    output.notice(of_topic(standing.topic, failed))
        if any(s.error is not None or s.late for s in standings):
            raise typer.Exit(FAILED)


def _for_people(standing: TopicStanding) -> dict[str, Any]:
    return {
        "topic": standing.topic,
        "pipeline": "runs here" if standing.running else "",
        "version": None if standing.version is None else str(standing.version),
        "rows": _counted(standing.rows),
        "files": _counted(standing.files),
        "waiting": _counted(standing.waiting),
        "freshness": _freshness(standing),
        "last commit (UTC)": utc_text(standing.last_commit),
        "dead letters": _counted(standing.dead_letters),
        "optimized": _last_run(standing, "optimize", "compaction"),
        "vacuumed": _last_run(standing, "vacuum"),
    }


def _for_machines(standing: TopicStanding) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(standing)
    return {**row, "waiting": standing.waiting, "late": standing.late}


def _counted(number: int | None) -> int | str:
    return "?" if number is None else number


def _freshness(standing: TopicStanding) -> str:
    if standing.freshness_seconds is None:
        return "?"
    text = f"{standing.freshness_seconds:,.0f} s"
    if standing.objective_seconds is not None:
        text += f" of {standing.objective_seconds:g} s"
    return f"{text} LATE" if standing.late else text


def _last_run(standing: TopicStanding, *tasks: str) -> str:
    runs = [run for task, run in standing.maintenance.items() if task in tasks]
    if not runs:
        return ""
    last = max(runs, key=lambda run: run.at)
    return utc_text(last.at) + (" FAILED" if last.result == "failed" else "")
